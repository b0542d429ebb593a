// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/cost/profile_file.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using ballast::add_point;
using ballast::find_module;
using ballast::find_or_add_degree;
using ballast::find_or_add_module;
using ballast::measured_degree;
using ballast::memory_point;
using ballast::modules_of;
using ballast::profile_file;
using ballast::speed_point;
using testing::ElementsAre;
using testing::HasSubstr;

profile_file complete()
{
  profile_file file;
  auto& llm = find_or_add_module(file, "llm");
  llm.layers = 32;
  llm.flops = {.linear = 6'000'000'000, .quadratic = 500'000};
  auto& degree = find_or_add_degree(llm, {2});
  degree.linear = {{.size = 1024, .flop_per_second = 300}, {.size = 4096, .flop_per_second = 400}};
  degree.attention = {{.size = 2048, .flop_per_second = 100}};
  degree.state = {{.layers = 1, .bytes = 10}, {.layers = 2, .bytes = 20}};
  degree.activations = {{1, 1024, 5}, {1, 4096, 17}, {2, 1024, 10}, {2, 4096, 34}};
  return file;
}

std::string refusal_of(profile_file const& file)
{
  auto const modules = modules_of(file);
  return modules ? "" : modules.error().message;
}

TEST(ProfileFile, GivesTheCurvesThroughItsPoints)
{
  auto const modules = modules_of(complete()).value();
  ASSERT_EQ(modules.size(), 1U);
  EXPECT_EQ(modules[0].name, "llm");
  EXPECT_EQ(modules[0].layers, 32U);
  ASSERT_EQ(modules[0].degrees.size(), 1U);
  auto const& degree = modules[0].degrees[0];
  EXPECT_EQ(degree.tp, 2U);
  constexpr std::int64_t second = 1'000'000'000'000;
  EXPECT_EQ(degree.linear.picoseconds(300, 1024), second);
  EXPECT_EQ(degree.linear.picoseconds(350, 2560), second) << "halfway";
  EXPECT_EQ(degree.attention.picoseconds(100, 9), second);
  EXPECT_EQ(degree.memory.state(3), 30U);
  EXPECT_EQ(degree.memory.activations(2, 1024), 10U);
  EXPECT_EQ(degree.memory.activations(1, 2048), 9U);
}

TEST(ProfileFile, NeedsNoAttentionWhereThereIsNone)
{
  auto file = complete();
  file.modules[0].flops.quadratic = 0;
  file.modules[0].degrees[0].attention.clear();
  EXPECT_EQ(refusal_of(file), "");
}

TEST(ProfileFile, SaysWhatIsNotMeasuredYet)
{
  EXPECT_THAT(refusal_of({}), HasSubstr("no module"));
  auto file = complete();
  file.modules[0].layers = 0;
  EXPECT_THAT(refusal_of(file), HasSubstr("module llm has no layers"));
  file = complete();
  file.modules[0].degrees.clear();
  EXPECT_THAT(refusal_of(file), HasSubstr("at no parallel degree"));
  file = complete();
  file.modules[0].degrees[0].linear.clear();
  EXPECT_THAT(refusal_of(file), HasSubstr("module llm at tp 2: has no linear_flop_per_second"));
  file = complete();
  file.modules[0].degrees[0].attention.clear();
  EXPECT_THAT(refusal_of(file), HasSubstr("but no attention_flop_per_second"));
  file = complete();
  file.modules[0].degrees[0].state.pop_back();
  EXPECT_THAT(refusal_of(file), HasSubstr("has 1 state_bytes; give two"));
  file = complete();
  file.modules[0].degrees[0].activations.pop_back();
  EXPECT_THAT(refusal_of(file), HasSubstr("has 3 activation_bytes; give four, of 1 and 2 layers"));
  file = complete();
  file.modules[0].degrees[0].activations[3].size = 5000;
  EXPECT_THAT(refusal_of(file), HasSubstr("each at the same two sizes"));
  file = complete();
  auto& points = file.modules[0].degrees[0].linear;
  points.clear();
  for (ballast::tokens size = 1; size <= 33; ++size) { points.push_back({.size = size}); }
  EXPECT_THAT(refusal_of(file), HasSubstr("at tp 2: linear_flop_per_second: a throughput axis has "
                                          "33 positions; give 1 to 32"));
}

TEST(ProfileFile, NamesTheModuleThatIsRefused)
{
  auto file = complete();
  find_or_add_module(file, "encoder").layers = 3;
  auto const modules = modules_of(file);
  ASSERT_FALSE(modules);
  EXPECT_EQ(modules.error().position, 1U);
}

TEST(ProfileFile, FindsModulesByName)
{
  auto file = complete();
  EXPECT_EQ(find_module(file, "encoder"), nullptr);
  EXPECT_EQ(find_module(file, "llm"), file.modules.data());
  EXPECT_EQ(&find_or_add_module(file, "llm"), file.modules.data());
  find_or_add_module(file, "encoder").layers = 1;
  ASSERT_EQ(file.modules.size(), 2U);
  EXPECT_EQ(file.modules[1].name, "encoder");
}

TEST(ProfileFile, KeepsDegreesAndPointsInOrder)
{
  ballast::measured_module module;
  for (std::uint32_t const tp : {4U, 1U, 2U, 4U, 1U}) { find_or_add_degree(module, {tp}).tp = tp; }
  ASSERT_EQ(module.degrees.size(), 3U);
  EXPECT_EQ(module.degrees[0].tp, 1U);
  EXPECT_EQ(module.degrees[1].tp, 2U);
  EXPECT_EQ(module.degrees[2].tp, 4U);

  std::vector<speed_point> speeds;
  EXPECT_TRUE(add_point(speeds, speed_point{.size = 20}));
  EXPECT_TRUE(add_point(speeds, speed_point{.size = 10}));
  EXPECT_FALSE(add_point(speeds, speed_point{.size = 20, .flop_per_second = 7}));
  EXPECT_THAT(speeds, ElementsAre(speed_point{.size = 10}, speed_point{.size = 20}));

  std::vector<memory_point> held;
  EXPECT_TRUE(add_point(held, memory_point{2, 10, 1}));
  EXPECT_TRUE(add_point(held, memory_point{1, 20, 1}));
  EXPECT_TRUE(add_point(held, memory_point{1, 10, 1}));
  EXPECT_FALSE(add_point(held, memory_point{1, 20, 5}));
  EXPECT_THAT(held,
              ElementsAre(memory_point{1, 10, 1}, memory_point{1, 20, 1}, memory_point{2, 10, 1}));
}

}  // namespace
