// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/known_models.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/cost/flops.hpp>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace {

using ballast::find_known_model;
using ballast::known_model;
using ballast::known_models;
using ballast::known_shape;
using ballast::transformer_shape;

static_assert(known_shape("qwen2.5-72b").kv_heads == 8);
static_assert(known_shape("flux") == ballast::classic_transformer(3072, 57, 24));

// Weights of the blocks, and of an embedding and a head that do not share theirs.
double parameters(transformer_shape const& shape)
{
  double const d = shape.hidden;
  double const attention = 2.0 * shape.head_dim * (shape.heads + shape.kv_heads) * d;
  double const ffn = (shape.gated_ffn ? 3.0 : 2.0) * d * shape.ffn_hidden;
  return shape.layers * (attention + ffn) + 2 * d * shape.vocabulary;
}

TEST(KnownModels, HaveAsManyParametersAsTheyAreKnownFor)
{
  // In billions, as published. Patch embeddings, pooling and norms make up what is left.
  std::map<std::string_view, double> const published = {
      {"llama3-7b", 7},         {"llama3-13b", 13},          {"llama3-70b", 70.6},
      {"llama3-8b", 8.03},      {"qwen2.5-32b", 32.8},       {"qwen2.5-72b", 72.7},
      {"qwen2.5-7b", 7.62},     {"mimo-vl-7b", 7.83},        {"qwen2-audio-llm", 7.76},
      {"whisper-large", 0.635}, {"qwen2.5-vl-vision", 0.63}, {"siglip-so400m", 0.428},
      {"internvit-6b", 5.54},   {"vit-huge", 0.632},         {"orchmllm-10b", 10},
      {"orchmllm-18b", 18},     {"orchmllm-84b", 84}};
  std::map<std::string_view, double> counted;
  for (known_model const& model : known_models) {
    if (model.name == "flux") { continue; }  // has the weights of two streams
    // The modules of OrchMLLM add up to what it calls the model.
    bool const module = model.name.starts_with("orchmllm-");
    counted[module ? model.name.substr(0, model.name.rfind('-')) : model.name] +=
        parameters(model.shape) / 1e9;
  }
  ASSERT_EQ(counted.size(), published.size());
  for (auto const& [name, billions] : published) {
    EXPECT_NEAR(counted.at(name) / billions, 1, 0.045) << name << ": " << counted.at(name);
  }
}

TEST(KnownModels, FluxHasTheWeightsOfTwoStreamsInAThirdOfItsBlocks)
{
  // 19 blocks with weights for text and for image, 38 with one set; modulation takes 6 d^2 of a
  // stream and 3 d^2 of a single block.
  transformer_shape const flux = known_shape("flux");
  double const d2 = 3072.0 * 3072.0;
  EXPECT_DOUBLE_EQ(parameters(flux), 57 * 12 * d2);
  EXPECT_NEAR(19 * 2 * (12 + 6) * d2 + 38 * (12 + 3) * d2, 12e9, 0.02 * 12e9);
}

TEST(KnownModels, AreTransformersWithNamesOfTheirOwn)
{
  std::set<std::string_view> names;
  for (known_model const& model : known_models) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_FALSE(model.source.empty());
    EXPECT_TRUE(ballast::forward_flops(model.shape)) << model.name;
    EXPECT_EQ(model.shape.heads * model.shape.head_dim, model.shape.hidden) << model.name;
    EXPECT_EQ(model.shape.vocabulary != 0, model.shape.mask == ballast::attention_mask::causal);
  }
}

TEST(KnownModels, AreFoundByName)
{
  // [known]
  constexpr auto flux = ballast::known_shape("flux");  // another name is a compile error
  static_assert(flux.layers == 57 && flux.hidden == 3072);
  auto const llm = ballast::find_known_model("llama3-8b").value();
  auto const flops = ballast::forward_flops(llm.shape).value();
  EXPECT_EQ(flops.linear, 15'009'316'864);  // per token: twice the weights that it passes
  // [known]
  for (known_model const& model : known_models) {
    EXPECT_EQ(find_known_model(model.name).value().shape, model.shape);
  }
}

TEST(KnownModels, AreListedWhereANameIsUnknown)
{
  auto const failed = find_known_model("llama");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ballast::error_code::unknown_name);
  EXPECT_THAT(
      failed.error().message,
      testing::AllOf(testing::HasSubstr("no model is called 'llama'"),
                     testing::HasSubstr("llama3-7b, llama3-13b"), testing::HasSubstr("flux")));
  EXPECT_FALSE(find_known_model(""));
}

}  // namespace
