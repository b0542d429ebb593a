// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/gpu_time_bounds.hpp>  // first: proves it is self-contained

#include "../../support/all_layouts.hpp"
#include "../../support/random_modules.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace {

using ballast::detail::gpu_time_bounds;

TEST(GpuTimeBounds, AreBelowEveryLayout)
{
  ballast::random_source random(23);
  double closest = std::numeric_limits<double>::max();
  for (int trial = 0; trial < 60; ++trial) {
    auto const model =
        ballast_test::draw_model(random, 2, 5, trial % 2 == 0, std::uint64_t{1} << 30);
    ballast::layout_problem problem;
    problem.modules = model.modules;
    problem.sizes = model.sizes;
    problem.global_batch = static_cast<std::uint32_t>(1 + random.below(40));
    problem.gpus = static_cast<std::uint32_t>(2 + random.below(20));
    problem.memory_bytes = std::uint64_t{1} << 30;
    if (random.below(2) == 0) { problem.estimate = ballast::step_estimate::mean_step; }
    ballast::detail::stage_memory memory(problem);
    ballast::detail::stage_choices const choices(problem, memory);
    if (choices.of(0).empty() || choices.of(1).empty()) { continue; }
    ballast::detail::stage_times const times(problem);
    gpu_time_bounds const bounds(problem, choices, times);
    for (ballast::model_layout const& layout : ballast_test::all_layouts(problem)) {
      std::uint32_t const count = layout.microbatches;
      std::size_t const index = bounds.index_of(count);
      EXPECT_LE(bounds.least_step(count), layout.step);
      closest = std::min(closest, static_cast<double>(layout.step) /
                                      static_cast<double>(bounds.least_step(count)));
      auto const [encoder, llm] = std::pair(layout.modules[0], layout.modules[1]);
      auto const longest = layout.step / (count + encoder.pp + llm.pp - 1);
      for (std::size_t module = 0; module < 2; ++module) {
        ballast::module_layout const& of = layout.modules[module];
        auto const all = choices.of(module);
        auto const choice = std::find_if(all.begin(), all.end(),
                                         [&of](auto const& each) { return each.tp == of.tp; });
        ASSERT_NE(choice, all.end());
        EXPECT_LE(bounds.least_gpus(module, *choice, of.pp, count, index, longest), of.gpus());
        std::uint64_t const left = module == 1 ? problem.gpus : encoder.gpus();
        EXPECT_TRUE(bounds.may_have(module, *choice, of.pp, count, index, encoder.pp + llm.pp, left,
                                    layout.step));
      }
      EXPECT_LE(bounds.least_gpus_before(1, count, index, longest), encoder.gpus());
      EXPECT_EQ(bounds.least_gpus_before(0, count, index, longest), 0U);
    }
  }
  EXPECT_LT(closest, 1.3) << "a bound of nothing would be below every layout too";
}

TEST(GpuTimeBounds, NamesFewNumbersOfMicrobatches)
{
  ballast::module_profile module{
      .name = "m", .layers = 2, .flops = {.linear = 10}, .degrees = {{.tp = 1}}};
  ballast::tokens const size = 3;
  ballast::layout_problem problem;
  problem.modules = {&module, 1};
  problem.sizes = {&size, 1};
  problem.global_batch = 5000;
  ballast::detail::stage_memory memory(problem);
  ballast::detail::stage_choices const choices(problem, memory);
  gpu_time_bounds const bounds(problem, choices, ballast::detail::stage_times(problem));
  auto const counts = bounds.few_counts(5000);
  EXPECT_LT(counts.size(), 250U);
  EXPECT_TRUE(std::is_sorted(counts.begin(), counts.end()));
  EXPECT_EQ(counts.front(), 1U);
  EXPECT_EQ(counts.back(), 5000U);
  for (std::uint32_t replicas = 1; replicas <= 5000; replicas += 13) {
    EXPECT_TRUE(std::binary_search(counts.begin(), counts.end(), 5000 / replicas)) << replicas;
  }
}

}  // namespace
