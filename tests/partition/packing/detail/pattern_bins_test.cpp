#include <ballast/partition/packing/detail/pattern_bins.hpp>  // first: proves it is self-contained

#include "../../../support/packing_oracles.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::packed_bins;

/// The search alone, after a start of one bin for every sample.
struct by_patterns {
  packed_bins operator()(ballast::packing_problem const& problem, std::span<ballast::bag_id> owner,
                         ballast::workspace& memory) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = ballast::to_id<ballast::bag_id>(sample);
    }
    ballast::detail::work_budget steps(1 << 20);
    return ballast::detail::pattern_bins(problem, memory)(
        {owner.size(), ballast::packing_lower_bound(problem)}, owner, steps);
  }
};

TEST(PatternBins, OverrunsNoBinAndBoundsNoneThatFit)
{
  ballast::random_source random(222);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_packing(random, 9);
    auto const plan = ballast::pack_to_capacity(step.weights, step.capacity, by_patterns{});
    ASSERT_TRUE(plan);
    ballast_test::expect_valid_packing(step, *plan);
    ASSERT_LE(plan->lower_bound, ballast_test::fewest_bins(step));
  }
}

TEST(PatternBins, IsNearItsBoundFarFromOneHalf)
{
  ballast::random_source random(223);
  std::vector<std::int64_t> weights(3000);
  for (auto& weight : weights) { weight = random.between(2000, 5000); }
  auto const plan = ballast::pack_to_capacity(weights, 10'000, by_patterns{});
  ASSERT_TRUE(plan);
  EXPECT_LE(100 * plan->bins(), 101 * plan->lower_bound);
}

TEST(PatternBins, BoundsByTheWeightsThemselvesWhereItSearchesByRoundedOnes)
{
  // Pairs that fill a bin, the light one of each less than what weights are rounded to.
  std::int64_t const capacity = std::int64_t{1} << 40;
  for (std::int64_t const lightest : {std::int64_t{1}, std::int64_t{1} << 30}) {
    std::vector<std::int64_t> weights;
    for (std::int64_t pair = 0; pair < 400; ++pair) {
      std::int64_t const light = lightest * (1 + pair);
      weights.push_back(light);
      weights.push_back(capacity - light);
    }
    auto const plan = ballast::pack_to_capacity(weights, capacity, by_patterns{});
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->lower_bound, 400U);
  }
}

}  // namespace
