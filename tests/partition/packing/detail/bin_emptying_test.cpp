#include <ballast/partition/packing/detail/bin_emptying.hpp>  // first: proves it is self-contained

#include "../../../support/packing_oracles.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::packed_bins;

/// The search alone, after a start of one bin for every sample.
struct by_emptying {
  packed_bins operator()(ballast::packing_problem const& problem, std::span<ballast::bag_id> owner,
                         ballast::workspace& memory) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = ballast::to_id<ballast::bag_id>(sample);
    }
    ballast::detail::work_budget steps(1 << 22);
    return ballast::detail::bin_emptying(problem, memory)(
        {owner.size(), ballast::packing_lower_bound(problem)}, owner, steps);
  }
};

TEST(BinEmptying, OverrunsNoBin)
{
  ballast::random_source random(231);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_packing(random, 60);
    auto const plan = ballast::pack_to_capacity(step.weights, step.capacity, by_emptying{});
    ASSERT_TRUE(plan);
    ballast_test::expect_valid_packing(step, *plan);
  }
}

TEST(BinEmptying, EndsWithTheFewestOfSmallSteps)
{
  ballast::random_source random(232);
  int found = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = ballast_test::random_packing(random, 9);
    std::erase(step.weights, 0);  // which keep the bins that they begin in
    auto const plan = ballast::pack_to_capacity(step.weights, step.capacity, by_emptying{});
    ASSERT_TRUE(plan);
    std::size_t const fewest = ballast_test::fewest_bins(step);
    ASSERT_LE(plan->lower_bound, fewest);
    found += plan->bins() == fewest && plan->proven_optimal() ? 1 : 0;
  }
  EXPECT_GE(found, 195);
}

}  // namespace
