// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include "../../support/test.hpp"
#include "../../support/trials.hpp"
#include "drawn_windows.hpp"

namespace {

using ballast::cost_units;
using ballast_test::drawn_window;

// Oracle: each unit, the heaviest first, tries all steps, and takes the lightest that can be.
ballast_test::unit_steps lightest_that_fits(drawn_window const& drawn,
                                            std::vector<cost_units> loads)
{
  auto const none = static_cast<std::uint32_t>(drawn.steps);
  ballast_test::unit_steps step(drawn.costs.size(), none);
  for (std::size_t const unit : ballast_test::heaviest_of(drawn)) {
    std::uint32_t best = none;
    for (std::uint32_t each = 0; each < none; ++each) {
      step[unit] = each;
      if (can_be_completed(drawn, step) && (best == none || loads[each] < loads[best])) {
        best = each;
      }
    }
    step[unit] = best;
    loads[best] += drawn.costs[unit];
  }
  return step;
}

TEST(EvenRounds, TakesTheLightestStepThatLeavesOthersAPlace)  // Ensures (1) (2)
{
  ballast::random_source random(9);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    auto const drawn = ballast_test::draw_window(random, 24, 6);
    std::vector<cost_units> before(drawn.steps);
    for (cost_units& load : before) { load = random.between(0, 30); }
    std::vector<cost_units> loads = before;
    auto const step = steps_by(ballast::even_rounds{}, drawn, loads);
    ASSERT_TRUE(can_be_completed(drawn, step));
    ASSERT_EQ(step, lightest_that_fits(drawn, before)) << "trial " << trial;
  }
}

TEST(EvenRounds, GivesStepsTheSameWork)
{
  drawn_window const drawn{{9, 8, 1, 2}, {0, 0, 1, 1}, 2, 1};
  std::vector<cost_units> loads(2);
  EXPECT_THAT(steps_by(ballast::even_rounds{}, drawn, loads), testing::ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(loads, testing::ElementsAre(10, 10));
}

}  // namespace
