// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/search_layouts.hpp>  // first: proves it is self-contained

#include "../support/all_layouts.hpp"
#include "../support/random_modules.hpp"
#include "../support/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace {

using ballast::error_code;
using ballast::layout_problem;
using ballast::module_layout;
using ballast::search_layouts;
using ballast::step_estimate;
using testing::HasSubstr;

constexpr std::uint64_t memory_of_gpu = std::uint64_t{1} << 30;

/// Compares a search with all layouts; returns whether there was one.
bool expect_best_of_all(layout_problem const& problem, std::size_t best, std::string const& where)
{
  auto expected = ballast_test::all_layouts(problem);
  auto const found = search_layouts(problem, best);
  if (expected.empty()) {
    EXPECT_FALSE(found) << where;
    EXPECT_EQ(found.error().code, error_code::infeasible) << where;
    return false;
  }
  if (expected.size() > best) { expected.resize(best); }
  EXPECT_TRUE(found) << where << ": " << found.error().message;
  if (found) { EXPECT_TRUE(found->layouts == expected) << where; }
  return true;
}

TEST(SearchLayouts, FindsWhatTryingAllLayoutsFinds)  // Ensures (1) (2)
{
  ballast::random_source random(18);
  int feasible = 0;
  int const trials = ballast_test::trials_of(400);
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const modules = 1 + random.below(3);
    auto const model = ballast_test::draw_model(random, modules, 1 + random.below(16),
                                                random.below(3) == 0, memory_of_gpu);
    std::array<std::uint32_t, 5> const nodes{8, 8, 8, 4, 6};
    layout_problem problem;
    problem.modules = model.modules;
    problem.sizes = model.sizes;
    problem.global_batch = static_cast<std::uint32_t>(1 + random.below(modules == 3 ? 12 : 64));
    problem.gpus = static_cast<std::uint32_t>(1 + random.below(modules == 3 ? 14 : 40));
    problem.gpus_per_node = nodes[random.below(nodes.size())];
    problem.memory_bytes = memory_of_gpu / (1 + random.below(3));
    if (random.below(2) == 0) { problem.estimate = step_estimate::mean_step; }
    if (random.below(3) == 0) { problem.memory_quantile = {9, 10}; }
    std::size_t const best = std::array<std::size_t, 4>{1, 1, 5, 200}[random.below(4)];
    feasible += expect_best_of_all(problem, best, "trial " + std::to_string(trial)) ? 1 : 0;
  }
  EXPECT_GE(feasible, trials / 2);
  EXPECT_LT(feasible, trials);
}

TEST(SearchLayouts, FindsItForModelsOfTodayOnNodesOfEight)  // Ensures (1)
{
  ballast::random_source random(64);
  for (std::uint32_t const gpus : {8U, 24U, 64U}) {
    auto const model = ballast_test::draw_model(random, 2, 16, true, memory_of_gpu);
    layout_problem problem;
    problem.modules = model.modules;
    problem.sizes = model.sizes;
    problem.global_batch = 64;
    problem.gpus = gpus;
    problem.memory_bytes = memory_of_gpu;
    expect_best_of_all(problem, 3, std::to_string(gpus) + " GPUs");
  }
}

TEST(SearchLayouts, PutsEqualStepsInOrderOfTheirNumbers)  // Ensures (2)
{
  // One module whose GPUs are equally fast at any size: only the pipeline's filling costs time.
  ballast::module_profile module{
      .name = "llm", .layers = 2, .flops = {.linear = 1000}, .degrees = {{.tp = 1}, {.tp = 2}}};
  std::array<ballast::tokens, 1> const sizes{8};
  layout_problem problem;
  problem.modules = {&module, 1};
  problem.sizes = sizes;
  problem.global_batch = 4;
  problem.gpus = 2;
  auto const found = search_layouts(problem, 10);
  ASSERT_TRUE(found);
  std::vector<std::array<std::int64_t, 5>> got;
  for (auto const& each : found->layouts) {
    auto const [tp, pp, dp] = each.modules[0];
    got.push_back({tp, pp, dp, each.microbatches, each.step});
  }
  EXPECT_THAT(got, testing::ElementsAre(std::array<std::int64_t, 5>{1, 1, 2, 1, 16'000},
                                        std::array<std::int64_t, 5>{2, 1, 1, 1, 16'000},
                                        std::array<std::int64_t, 5>{1, 2, 1, 4, 20'000}));
  EXPECT_GE(found->evaluated, 3U);
}

TEST(SearchLayouts, SaysWhyNoLayoutFits)
{
  ballast::module_profile const sound{
      .name = "llm", .layers = 4, .flops = {.linear = 1000}, .degrees = {{.tp = 1}, {.tp = 8}}};
  std::array<ballast::module_profile, 2> modules{sound, sound};
  modules[0].name = "vision";
  std::array<ballast::tokens, 2> const sizes{3, 700};
  layout_problem problem;
  problem.modules = modules;
  problem.sizes = sizes;
  problem.global_batch = 16;
  problem.gpus = 8;
  problem.memory_bytes = 1000;
  ASSERT_TRUE(search_layouts(problem));
  auto const refusal = [&problem] {
    auto const found = search_layouts(problem);
    EXPECT_FALSE(found);
    return found ? ballast::error{} : found.error();
  };

  modules[1].degrees[0].memory.state_bytes = {600, 1200};  // 600 a layer at tp 1
  modules[1].degrees.pop_back();
  modules[1].degrees[0].memory.sizes = {0, 100};
  modules[1].degrees[0].memory.activation_bytes = {
      {{0, 100}, {0, 200}}};  // a byte a token and layer
  EXPECT_EQ(refusal().code, error_code::infeasible);
  EXPECT_EQ(refusal().position, 1U);
  // One layer a stage: 600 of state, and 4 stages hold 700 tokens each.
  EXPECT_THAT(refusal().message, HasSubstr("llm tp 1 pp 4 dp 1) needs 2400 bytes"));
  EXPECT_THAT(refusal().message, HasSubstr("more than the 1000 of a GPU for module llm"));

  modules[1] = sound;
  modules[0].degrees.erase(modules[0].degrees.begin());
  problem.gpus = 4;
  EXPECT_EQ(refusal().position, 0U);
  EXPECT_THAT(refusal().message, HasSubstr("module vision was measured at no tensor-parallel"));
  modules[0] = sound;
  problem.gpus = 1;
  EXPECT_THAT(refusal().message, HasSubstr("uses exactly 1 GPUs"));
  problem.gpus = 0;
  EXPECT_EQ(refusal().code, error_code::out_of_range);
  problem.gpus = 8;
  EXPECT_EQ(search_layouts(problem, 0).error().code, error_code::out_of_range);
}

}  // namespace
