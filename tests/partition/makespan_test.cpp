#include <ballast/partition/makespan.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::makespan_of;
using ballast::ratio;
using loads = std::vector<ballast::cost_units>;
using speeds = std::vector<std::uint32_t>;

TEST(MakespanOf, IsTheLargestLoadPerSpeed)
{
  EXPECT_EQ(makespan_of(loads{7, 3}, speeds{1, 1}), (ratio{7, 1}));
  EXPECT_EQ(makespan_of(loads{7, 3}, speeds{4, 1}), (ratio{3, 1}));
  EXPECT_EQ(makespan_of(loads{7, 3}, speeds{2, 1}), (ratio{7, 2}));
  EXPECT_EQ(makespan_of(loads{0, 0}, speeds{2, 1}), (ratio{0, 1}));
}

TEST(MakespanOfDeathTest, RefusesLoadsOfOtherBags)
{
  EXPECT_DEATH((void)makespan_of(loads{1}, speeds{1, 2}), "speeds.size");
}

}  // namespace
