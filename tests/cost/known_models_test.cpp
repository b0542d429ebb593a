// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/known_models.hpp>

#include "../support/test.hpp"

#include <ballast/cost/flops.hpp>

namespace {

using namespace ballast;

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
  constexpr auto flux = ballast::known_shape("flux");  // another name is a compile error
  static_assert(flux.layers == 57 && flux.hidden == 3072);
  auto const llm = ballast::find_known_model("llama3-8b").value();
  auto const flops = ballast::forward_flops(llm.shape).value();
  EXPECT_EQ(flops.linear, 15'009'316'864);  // per token: twice the weights that it passes
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

// What the models' own files hold (num_parameters() of diffusers says the same): every layer is
// counted.
static_assert(stable_diffusion_2_1.costs_of(64, 77).parameters == 865'910'724);  // Ensures (1)

TEST(UnetShape, HasTheParametersOfThePublishedModels)
{
  auto version_1_5 = stable_diffusion_2_1;
  version_1_5.context = 768;
  EXPECT_EQ(version_1_5.costs_of(64, 77).parameters, 859'520'964U);
}

TEST(UnetShape, CountsWhatAnImageTakes)
{
  EXPECT_EQ(stable_diffusion_2_1.costs_of(64, 77).forward_flops, 804'257'464'320U);
  EXPECT_EQ(stable_diffusion_2_1.costs_of(128, 77).forward_flops, 4'674'990'243'840U);
  EXPECT_EQ(stable_diffusion_2_1.costs_of(128, 77).parameters, 865'910'724U);
}

TEST(UnetShape, IsAddedUpLayerByLayer)
{
  // One channel everywhere, no attention but in the middle, one pixel at the lowest level.
  ballast::unet_shape const one{
      .channels = {1, 1, 1, 1}, .blocks = 1, .context = 1, .latent_channels = 1};
  auto const costs = one.costs_of(8, 0);
  // Multiplications on the way down: in, a block a level (two convolutions, the step's embedding of
  // four), and three convolutions to the next size; the middle, two blocks and its transformer; on
  // the way up two blocks a level, of which the first convolution has two channels and a shortcut.
  std::uint64_t const block = 18, step = 4;
  std::uint64_t const down =
      (4 + 16) + 9 * 64 + block * (64 + 16 + 4 + 1) + 4 * step + 9 * (16 + 4 + 1);
  std::uint64_t const middle = 2 * (block + step) + (1 + 4 + 2 + 2 + 8 + 4 + 1);
  std::uint64_t const up =
      2 * (block + 9 + 2) * (64 + 16 + 4 + 1) + 8 * step + 9 * (4 + 16 + 64) + 9 * 64;
  EXPECT_EQ(costs.forward_flops, 2 * (down + middle + up));
}

TEST(UnetShapeDeathTest, RefusesSizesThatCannotBeHalved)
{
  EXPECT_DEATH((void)stable_diffusion_2_1.costs_of(60, 77), "a latent is 60 pixels wide");
}

}  // namespace
