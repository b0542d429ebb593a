#include <ballast/partition/partition_plan.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using namespace ballast;
using load_list = std::vector<cost_units>;
using speed_list = std::vector<std::uint32_t>;

TEST(MakespanOf, IsTheLargestLoadPerSpeed)
{
  EXPECT_EQ(makespan_of(load_list{7, 3}, speed_list{1, 1}), (ratio{7, 1}));
  EXPECT_EQ(makespan_of(load_list{7, 3}, speed_list{4, 1}), (ratio{3, 1}));
  EXPECT_EQ(makespan_of(load_list{7, 3}, speed_list{2, 1}), (ratio{7, 2}));
  EXPECT_EQ(makespan_of(load_list{0, 0}, speed_list{2, 1}), (ratio{0, 1}));
}

TEST(MakespanOfDeathTest, RefusesLoadsOfOtherBags)
{
  EXPECT_DEATH((void)makespan_of(load_list{1}, speed_list{1, 2}), "loads of 1 bag and speeds of 2");
}

}  // namespace
