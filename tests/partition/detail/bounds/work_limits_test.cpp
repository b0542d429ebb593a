#include <ballast/partition/detail/bounds/work_limits.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

using ballast::ratio;
using ballast::detail::work_before;
using ballast::detail::work_until;

TEST(WorkLimits, AreTheLargestLoadsThatFinishInTime)
{
  for (std::int64_t numerator = 0; numerator < 40; ++numerator) {
    for (std::int64_t denominator = 1; denominator < 7; ++denominator) {
      for (std::uint32_t speed = 1; speed < 6; ++speed) {
        ratio const time{numerator, denominator};
        auto const until = work_until(time, speed);
        EXPECT_LE((ratio{until, speed}), time);
        EXPECT_GT((ratio{until + 1, speed}), time);
        auto const before = work_before(time, speed);
        EXPECT_GE((ratio{before + 1, speed}), time);
        if (before >= 0) { EXPECT_LT((ratio{before, speed}), time); }
      }
    }
  }
}

TEST(WorkLimits, StayBelowTheLargestLoadThereIs)
{
  EXPECT_EQ(work_until({7, 2}, 1), 3);
  EXPECT_EQ(work_until({0, 1}, 9), 0);
  EXPECT_EQ(work_until({ballast::no_cost - 1, 1}, 1), ballast::no_cost - 1);
  EXPECT_EQ(work_until({ballast::no_cost - 1, 1}, 9), ballast::no_cost - 1);
  EXPECT_EQ(work_before({ballast::no_cost - 1, 1}, 9), ballast::no_cost - 1);
  EXPECT_EQ(work_before({0, 1}, 3), -1);
}

TEST(WholeUnitsPerBag, RoundsUpTheMeanOfBagsOfOneSpeed)
{
  using ballast::detail::whole_units_per_bag;
  EXPECT_EQ(whole_units_per_bag({7, 6}, 2), (ballast::ratio{3, 2}));  // 7 units in 3 bags
  EXPECT_EQ(whole_units_per_bag({6, 6}, 2), (ballast::ratio{2, 2}));
  EXPECT_EQ(whole_units_per_bag({0, 4}, 4), (ballast::ratio{0, 1}));
  EXPECT_EQ(whole_units_per_bag({5, 4}, 4), (ballast::ratio{5, 4}));
}

}  // namespace
