// SPDX-License-Identifier: Apache-2.0
// Every pair of limits, and any subset, in plans by one quantity and by two, against all assignments of small steps.
#include <ballast/partition/partition.hpp>

#include "../support/limited_step.hpp"

namespace {

template <std::size_t D>
void check_bags(std::uint64_t seed)
{
  auto const draw = [](ballast::random_source& random, std::size_t one, std::size_t other) {
    std::size_t const samples = random.below(8);
    return limited_steps::draw<D>(random, one, other, samples,
                                  ballast::one_gpu_bags(1 + random.below(4)));
  };
  auto const make = [](auto const&... arguments) { return ballast::partition(arguments...); };
  limited_steps::check_all_pairs<D>(seed, ballast_test::trials_of(9), draw, make);
  limited_steps::check_subsets<D>(seed, ballast_test::trials_of(400), draw, make);
}

TEST(LimitPairs, HoldInPlansByOneQuantity)
{
  check_bags<1>(1);
}

TEST(LimitPairs, HoldInPlansByTwoQuantities)
{
  check_bags<2>(2);
}

}  // namespace
