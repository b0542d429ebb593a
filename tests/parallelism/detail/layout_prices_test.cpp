// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/layout_prices.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::detail::chosen_layout;

TEST(LayoutPrices, TakeTheSlowestStageOfEachSample)
{
  std::array<ballast::module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "m", .layers = 4, .flops = {.linear = 1}, .degrees = {{.tp = 1}}};
  }
  std::array<ballast::tokens, 4> const sizes{10, 3, 1, 8};
  ballast::layout_problem problem;
  problem.modules = modules;
  problem.sizes = sizes;
  problem.global_batch = 6;
  problem.estimate = ballast::step_estimate::mean_step;
  std::vector<chosen_layout> const chosen{{0, {1, 2, 1}}, {0, {1, 1, 3}}};
  // Two microbatches: of 3 samples in the first module, whose two stages take 15 and 2, and of 1 in
  // the second, which takes 3 and 8; four times the slowest.
  EXPECT_EQ(ballast::detail::layout_prices(problem).step(chosen, 2), (4 * 15 + 4 * 8) / 2);
  problem.estimate = ballast::step_estimate::mean_sample;
  EXPECT_EQ(ballast::detail::layout_prices(problem).step(chosen, 2), 4 * 9);

  modules[0].flops.linear = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(ballast::detail::layout_prices(problem).step(chosen, 2), ballast::no_cost);
}

}  // namespace
