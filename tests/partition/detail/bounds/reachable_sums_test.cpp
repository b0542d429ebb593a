#include <ballast/partition/detail/bounds/reachable_sums.hpp>  // first: proves it is self-contained

#include "../../../support/samples_that_cost.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::reachable_sums;
using ballast_test::samples_that_cost;

TEST(ReachableSums, AreWhatSetsCost)  // Ensures (1) (2)
{
  ballast::random_source random(20261109);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<cost_units> kinds(1 + random.below(4));
    for (cost_units& cost : kinds) { cost = random.between(trial % 5 == 0 ? 0 : 1, 60); }
    std::vector<cost_units> costs(1 + random.below(12));
    for (cost_units& cost : costs) { cost = kinds[random.below(kinds.size())]; }
    std::set<cost_units> sums{0};
    for (cost_units const cost : costs) {
      std::set<cost_units> const without = sums;
      for (cost_units const sum : without) { sums.insert(sum + cost); }
    }
    reachable_sums const reachable(samples_that_cost(costs));
    for (cost_units least = 0; least <= *sums.rbegin(); ++least) {
      ASSERT_EQ(reachable.next(least), *sums.lower_bound(least)) << least;
    }
    EXPECT_EQ(reachable.next(*sums.rbegin() + 1), *sums.rbegin() + 1) << "no set costs more";
  }
}

TEST(ReachableSums, LeaveManyKindsAlone)
{
  std::vector<cost_units> costs(reachable_sums::most_kinds + 1);
  std::iota(costs.begin(), costs.end(), 100);
  EXPECT_EQ(reachable_sums(samples_that_cost(costs)).next(50), 50);
  costs.pop_back();
  EXPECT_EQ(reachable_sums(samples_that_cost(costs)).next(50), 100);
}

TEST(ReachableSums, EndWithTheirBudget)
{
  // Ten even costs of thousands of samples each cannot make an odd sum, which takes too long to
  // see.
  std::vector<cost_units> costs;
  for (cost_units cost = 1'000'002; cost < 1'000'022; cost += 2) {
    costs.insert(costs.end(), 1000, cost);
  }
  cost_units const odd = 3'000'000'001;
  EXPECT_EQ(reachable_sums(samples_that_cost(costs)).next(odd), odd);
}

TEST(ReachableSums, WorkUpToTheLargestTotal)
{
  constexpr cost_units most = std::numeric_limits<cost_units>::max() - 1;
  reachable_sums const reachable(samples_that_cost({most / 2, most / 2}));
  EXPECT_EQ(reachable.next(1), most / 2);
  EXPECT_EQ(reachable.next(most / 2 + 1), most);
  EXPECT_EQ(reachable.next(most), most);
}

}  // namespace
