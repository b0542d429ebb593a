// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"
#include "../../support/trials.hpp"
#include "drawn_windows.hpp"

namespace {

using ballast::cost_units;
using ballast_test::drawn_window;
using ballast_test::unit_steps;

// Oracle: each unit, the heaviest first, tries all steps and asks whether the others still fit.
unit_steps first_that_fits(drawn_window const& drawn)
{
  unit_steps step(drawn.costs.size(), static_cast<std::uint32_t>(drawn.steps));
  for (std::size_t const unit : ballast_test::heaviest_of(drawn)) {
    for (step[unit] = 0; !can_be_completed(drawn, step); ++step[unit]) {}
  }
  return step;
}

TEST(LongRounds, TakesTheFirstStepThatLeavesOthersAPlace)  // Ensures (1) (2)
{
  ballast::random_source random(7);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    auto const drawn = ballast_test::draw_window(random, 24, 6);
    std::vector<cost_units> loads(drawn.steps, 3);
    auto const step = steps_by(ballast::long_rounds{}, drawn, loads);
    ASSERT_TRUE(can_be_completed(drawn, step));
    ASSERT_EQ(step, first_that_fits(drawn)) << "trial " << trial;
    std::vector<cost_units> counted(drawn.steps, 3);
    for (std::size_t unit = 0; unit < step.size(); ++unit) {
      counted[step[unit]] += drawn.costs[unit];
    }
    ASSERT_EQ(loads, counted);
  }
}

// Oracle: all ways to give units the places of the steps.
cost_units least_sum_of_heaviest(drawn_window const& drawn)
{
  std::vector<std::size_t> unit(drawn.costs.size());
  std::iota(unit.begin(), unit.end(), std::size_t{0});
  auto least = std::numeric_limits<cost_units>::max();
  do {
    std::vector<cost_units> heaviest(drawn.steps);
    for (std::size_t place = 0; place < unit.size(); ++place) {
      auto& own = heaviest[drawn.arrived[place]];
      own = std::max(own, drawn.costs[unit[place]]);
    }
    least = std::min(least, std::reduce(heaviest.begin(), heaviest.end()));
  } while (std::ranges::next_permutation(unit).found);
  return least;
}

TEST(LongRounds, HasTheLeastSumOfHeaviestUnits)  // Ensures (3)
{
  ballast::random_source random(8);
  for (int trial = 0; trial < ballast_test::trials_of(200); ++trial) {
    drawn_window drawn;
    drawn.steps = 1 + random.below(3);
    drawn.held_back = drawn.steps;
    std::size_t const each = 1 + random.below(2);
    for (std::size_t unit = 0; unit < drawn.steps * each; ++unit) {
      drawn.costs.push_back(random.between(0, 20));
      drawn.arrived.push_back(static_cast<std::uint32_t>(unit / each));
    }
    std::vector<cost_units> loads(drawn.steps);
    auto const step = steps_by(ballast::long_rounds{}, drawn, loads);
    std::vector<cost_units> heaviest(drawn.steps);
    for (std::size_t unit = 0; unit < step.size(); ++unit) {
      heaviest[step[unit]] = std::max(heaviest[step[unit]], drawn.costs[unit]);
    }
    ASSERT_EQ(std::reduce(heaviest.begin(), heaviest.end()), least_sum_of_heaviest(drawn))
        << "trial " << trial;
  }
}

TEST(LongRounds, HoldsNothingBackWhereItMayNot)
{
  drawn_window const drawn{{1, 9, 5, 7}, {0, 0, 1, 1}, 2, 0};
  std::vector<cost_units> loads(2);
  EXPECT_THAT(steps_by(ballast::long_rounds{}, drawn, loads), testing::ElementsAre(0, 0, 1, 1));
  drawn_window const free{{1, 9, 5, 7}, {0, 0, 1, 1}, 2, 1};
  EXPECT_THAT(steps_by(ballast::long_rounds{}, free, loads), testing::ElementsAre(1, 0, 1, 0));
}

}  // namespace
