#include <ballast/report/measured_bars.hpp>  // first: proves it is self-contained

#include "../runtime/scheduled_steps.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/given_order.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace {

TEST(MeasuredBars, ShowEachMicrobatchOfEachRank)  // Ensures (1)
{
  using scheduled =
      ballast::microbatch_scheduler<2, ballast_test::square_times, ballast::given_order>;
  auto planner = scheduled::make(ballast_test::small_setup(2, 4), {}).value();
  ballast::scheduled_step<2> step;
  ballast::or_throw(planner(step, ballast_test::draw_sizes(30, 1), 1, 0, {}));
  std::vector<ballast::time_units> measured;
  for (auto const& times : step.times) {
    for (std::size_t stage = 0; stage < 4; ++stage) {
      for (std::size_t position = 0; position < 4; ++position) {
        auto const& each = times.rows[position * 4 + stage];
        measured.push_back((each.forward + each.backward) * (stage == 2 ? 3 : 2) / 2);
      }
    }
  }
  measured[5] = 0;
  auto const bars = ballast::report::measured_bars(step, measured, 0.5);
  ASSERT_EQ(bars.size(), 31U);
  EXPECT_EQ(bars[0].gpu, ballast::rank_id{0});
  EXPECT_EQ(bars[0].start, 0);
  EXPECT_DOUBLE_EQ(bars[0].duration, 0.5 * static_cast<double>(measured[0]));
  EXPECT_DOUBLE_EQ(bars[1].start, bars[0].duration);
  EXPECT_EQ(bars[5].gpu, ballast::rank_id{1});  // nothing was measured of the second microbatch
  EXPECT_DOUBLE_EQ(bars[5].start, 0.5 * static_cast<double>(measured[4]));
  EXPECT_NE(bars[0].label.find("microbatch 0 of "), std::string::npos);
  EXPECT_NE(bars[0].label.find(" samples, 1.00 x planned"), std::string::npos);
  EXPECT_NE(bars[8].label.find("1.50 x planned"), std::string::npos);
}

TEST(MeasuredBarsDeathTest, NeedTimesOfAllRanks)  // Expects
{
  EXPECT_DEATH((void)ballast::report::measured_bars(ballast::scheduled_step<1>{},
                                                    std::vector<ballast::time_units>{1}, 1),
               "times of 1 microbatches for a step of 0");
}

}  // namespace
