// SPDX-License-Identifier: Apache-2.0
// Every pair of limits, and any subset, in plans by one quantity and by two, against all assignments of small steps.
#include <ballast/partition/partition.hpp>

#include "../support/instances.hpp"
#include "../support/limited_step.hpp"

#include <ballast/partition/round_robin.hpp>

namespace {

/// In every second step bags have up to three GPUs, and some samples are too short for some bags or,
/// where the smallest admit them, for all.
template <std::size_t D>
limited_steps::limited_step<D> draw_limited(ballast::random_source& random, std::size_t one,
                                            std::size_t other)
{
  bool const is_even = random.below(2) == 0;
  std::vector<std::uint32_t> gpus(1 + random.below(4), 1);
  for (std::uint32_t& each : gpus) {
    if (!is_even) { each += static_cast<std::uint32_t>(random.below(3)); }
  }
  auto bags = ballast_test::consecutive_bags(gpus);
  bool const admits = !is_even && random.below(2) == 0;
  if (admits) { bags = bags.with_short_samples(ballast::short_samples::admitted); }
  auto step = limited_steps::draw<D>(random, one, other, random.below(8), bags);
  for (ballast::tokens& length : step.lengths) {
    if (!is_even && random.below(3) == 0) {
      length = random.between(admits ? 0 : bags.smallest_bag(), 3);
    }
  }
  return step;
}

constexpr auto partition_of = [](auto const&... arguments) {
  return ballast::partition(arguments...);
};

template <std::size_t D>
void check_bags(std::uint64_t seed)
{
  limited_steps::check_all_pairs<D>(seed, ballast_test::trials_of(9), draw_limited<D>,
                                    partition_of);
  limited_steps::check_subsets<D>(seed, ballast_test::trials_of(400), draw_limited<D>,
                                  partition_of);
}

TEST(LimitPairs, HoldInPlansByOneQuantity)
{
  check_bags<1>(1);
}

TEST(LimitPairs, HoldInPlansBySeveralQuantities)
{
  check_bags<2>(2);
  limited_steps::check_subsets<3>(4, ballast_test::trials_of(300), draw_limited<3>, partition_of);
}

TEST(LimitPairs, HoldAroundAnyPolicy)
{
  ballast::random_source random(3);
  limited_steps::tally all;
  for (int trial = 0; trial < ballast_test::trials_of(400); ++trial) {
    auto step = draw_limited<1>(random, limited_steps::together, limited_steps::together);
    limited_steps::draw_limits(step, random);
    step.has[limited_steps::apart] = true;  // what no policy knows
    check(step, "trial " + std::to_string(trial), all, [](auto const&... arguments) {
      return ballast::partition(arguments..., ballast::round_robin{});
    });
    if (HasFatalFailure()) { return; }
  }
  EXPECT_GT(all.feasible, all.steps / 8);
}

}  // namespace
