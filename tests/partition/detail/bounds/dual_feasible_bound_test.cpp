#include <ballast/partition/detail/bounds/dual_feasible_bound.hpp>  // first: proves it is self-contained

#include "../../../support/brute_force.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::cannot_pack;

TEST(CannotPack, RefutesOnlyWhatIsImpossible)  // Ensures (1)
{
  ballast::random_source random(8);
  int impossible = 0;
  int refuted = 0;
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::instance step;
    step.gpus.assign(1 + random.below(4), 1);
    step.lengths.assign(random.below(8), 1);
    for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
      step.costs.push_back(random.between(0, trial % 2 == 0 ? 12 : 300));
    }
    std::ranges::sort(step.costs, std::greater{});
    cost_units const optimum = ballast_test::optimum(step)->numerator;
    for (unsigned const degree : {1U, 2U, 5U, 16U}) {
      ASSERT_FALSE(cannot_pack(step.costs, optimum, step.gpus.size(), degree));
      ASSERT_FALSE(cannot_pack(step.costs, optimum + 7, step.gpus.size(), degree));
    }
    if (optimum == 0) { continue; }
    ++impossible;
    refuted += cannot_pack(step.costs, optimum - 1, step.gpus.size(), 5) ? 1 : 0;
  }
  EXPECT_GT(2 * refuted, impossible);
}

TEST(CannotPack, KnowsEachOfItsFunctions)
{
  // More than half the room each
  EXPECT_TRUE(cannot_pack(std::vector<cost_units>{6, 6, 6}, 11, 2, 1));
  EXPECT_FALSE(cannot_pack(std::vector<cost_units>{6, 6, 6}, 12, 2, 1));
  // U^e with e = 4: nothing of 4 or more goes with 7, so 4 + 4 + 4 are left for one bag of 10
  EXPECT_TRUE(cannot_pack(std::vector<cost_units>{7, 4, 4, 4}, 10, 2, 1));
  // u^2: five of a little more than a third count as a half, too much for two bags; their sum is
  // not
  std::vector<cost_units> const thirds{34, 34, 34, 34, 34};
  EXPECT_FALSE(cannot_pack(thirds, 100, 2, 1));
  EXPECT_TRUE(cannot_pack(thirds, 100, 2, 2));
  EXPECT_FALSE(cannot_pack(thirds, 102, 2, 16));
  // u^3: seven of a little more than a quarter in two bags
  std::vector<cost_units> const quarters(7, 26);
  EXPECT_FALSE(cannot_pack(quarters, 100, 2, 2));
  EXPECT_TRUE(cannot_pack(quarters, 100, 2, 3));
}

TEST(CannotPack, TakesEdges)
{
  EXPECT_FALSE(cannot_pack({}, 0, 1, 5));
  EXPECT_FALSE(cannot_pack(std::vector<cost_units>{0, 0}, 0, 1, 5));
  EXPECT_TRUE(cannot_pack(std::vector<cost_units>{1}, 0, 3, 5));
  EXPECT_FALSE(cannot_pack(std::vector<cost_units>{3, 0}, 3, 1, 5));
  constexpr auto most = std::numeric_limits<cost_units>::max() - 1;
  EXPECT_TRUE(cannot_pack(std::vector<cost_units>{most / 2 + 1, most / 2 - 1}, most - 1, 1, 16));
  EXPECT_FALSE(cannot_pack(std::vector<cost_units>{most / 2 + 1, most / 2 - 1}, most, 1, 16));
}

TEST(DualFeasibleBound, IsTheLeastNumberThatIsNotRefuted)
{
  ballast::random_source random(9);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    cost_units const room = random.between(1, 100);
    std::vector<cost_units> costs(1 + random.below(20));
    for (auto& cost : costs) { cost = random.between(1, room); }
    std::ranges::sort(costs, std::greater{});
    for (unsigned const degree : {1U, 5U}) {
      std::size_t const bound = ballast::detail::dual_feasible_bound(costs, room, degree, 0);
      EXPECT_FALSE(cannot_pack(costs, room, bound, degree));
      EXPECT_TRUE(cannot_pack(costs, room, bound - 1, degree));
      EXPECT_EQ(ballast::detail::dual_feasible_bound(costs, room, degree, 30),
                std::max<std::size_t>(bound, 30));
    }
  }
}

}  // namespace
