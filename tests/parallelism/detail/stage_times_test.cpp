// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/stage_times.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>

namespace {

using ballast::uint128;
using ballast::detail::batch_work;
using ballast::detail::stage_times;

TEST(BatchWork, IsRoundedUpAndSaysWhereItDoesNotFit)
{
  batch_work const work({.linear = 10, .quadratic = 3}, 5, 7, 4);
  EXPECT_EQ(work.linear, 88U);      // 350 / 4
  EXPECT_EQ(work.attention, 132U);  // 525 / 4
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(
      batch_work({.linear = 0, .quadratic = most}, ballast::longest_sample, 1 << 24, 1).attention,
      ~uint128{0});
}

TEST(StageTimes, PricesTheMeanSampleOrEachOne)
{
  ballast::module_profile module{
      .name = "m", .layers = 1, .flops = {.linear = 10, .quadratic = 1}, .degrees = {{.tp = 2}}};
  std::array<ballast::tokens, 3> const sizes{4, 0, 7};
  ballast::layout_problem problem;
  problem.modules = {&module, 1};
  problem.sizes = sizes;
  problem.global_batch = 6;
  stage_times of_mean(problem);
  ASSERT_EQ(of_mean.samples(), 1U);
  EXPECT_THAT(of_mean.of(0, 0, 3).each,
              testing::ElementsAre(40 + 16));  // 4 of 11 / 3; 2 samples, tp 2
  EXPECT_EQ(of_mean.of(0, 0, 3).mean, 56);

  problem.estimate = ballast::step_estimate::mean_step;
  stage_times of_each(problem);
  EXPECT_THAT(of_each.of(0, 0, 3).each, testing::ElementsAre(56, 0, 119));
  EXPECT_EQ(of_each.of(0, 0, 3).mean, 58);
  EXPECT_EQ(of_each.of(0, 0, 3).each.data(), of_each.of(0, 0, 3).each.data()) << "computed once";
  auto const many = of_each.of(0, 0, std::uint64_t{1} << 20);
  EXPECT_THAT(many.each, testing::ElementsAre(2, 0, 2)) << "a FLOP of each kind, rounded up";
}

}  // namespace
