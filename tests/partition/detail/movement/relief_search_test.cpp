#include <ballast/partition/detail/movement/relief_search.hpp>  // first: proves it is self-contained

#include "../../../support/homed_steps.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::tokens;
using ballast::detail::limited_bags;
using ballast::detail::relief;
using ballast::detail::relief_search;

/// The bags of a step with every sample at home, for as long as the search needs them.
class homed_bags {
 public:
  homed_bags(std::vector<tokens> const& lengths, std::vector<cost_units> const& costs,
             std::vector<std::uint32_t> const& homes, std::vector<cost_units> limits)
      : homed_({lengths, costs, std::vector<std::uint32_t>(limits.size(), 1)}, homes),
        problem_(homed_.problem()),
        limits_(std::move(limits)),
        scratch_(memory_.open()),
        bags_(problem_, homed_.starting_loads, limits_, scratch_)
  {
    bags_.place(homed_.home);
  }

  limited_bags& bags() { return bags_; }
  relief within_limits(std::uint32_t bag)
  {
    auto scratch = memory_.open();
    return relief_search(bags_, bag, scratch).within_limits(work);
  }
  relief across_limits(std::uint32_t bag)
  {
    auto scratch = memory_.open();
    return relief_search(bags_, bag, scratch).across_limits(work);
  }

  ballast::detail::work_budget work{1000};

 private:
  ballast_test::homed_step homed_;
  ballast::partition_problem problem_;
  std::vector<cost_units> limits_;
  ballast::workspace memory_;
  ballast::workspace::frame scratch_;
  limited_bags bags_;
};

TEST(ReliefSearch, TakesTheBagWithTheLeastRoomThatIsEnough)
{
  homed_bags step({30, 8}, {30, 8}, {0, 0}, {30, 20, 9, 7});
  auto const found = step.within_limits(0);
  EXPECT_EQ(found.leaving, 1U);
  EXPECT_EQ(found.to, 2U);
  EXPECT_EQ(found.coming, limited_bags::none);
  EXPECT_LT(step.work.left(), 1000U);
}

TEST(ReliefSearch, CountsWhatTheRestOfTheExcessWillTake)
{
  // 10 too much: 9 tokens now leave 1, which takes 8 more; 11 tokens do it at once.
  homed_bags step({40, 11, 9, 8}, {40, 11, 9, 8}, {0, 0, 0, 0}, {58, 12});
  EXPECT_EQ(step.within_limits(0).leaving, 1U);
}

TEST(ReliefSearch, SwapsForTheLightestThatLeavesRoom)
{
  homed_bags step({20, 16, 18, 19}, {20, 16, 18, 19}, {0, 1, 1, 1}, {18, 57});
  auto const found = step.within_limits(0);
  ASSERT_TRUE(found.found());
  EXPECT_EQ(step.bags()[found.coming].cost, 16);
  found.apply(step.bags());
  EXPECT_EQ(step.bags().room(0), 2);
  EXPECT_EQ(step.bags().room(1), 0);
}

TEST(ReliefSearch, FindsNothingWhereNoStepHelps)
{
  homed_bags full({20, 20}, {20, 20}, {0, 1}, {19, 20});
  EXPECT_FALSE(full.within_limits(0).found());
  EXPECT_FALSE(full.across_limits(0).found());
  homed_bags alone({20}, {20}, {0}, {19});
  EXPECT_FALSE(alone.within_limits(0).found());
  EXPECT_FALSE(alone.across_limits(0).found());
}

TEST(ReliefSearch, TakesOtherBagsAboveTheirLimitsByLess)
{
  // 8 too much in bag 0, and room for 5 or 7 elsewhere.
  homed_bags step({90, 8}, {90, 8}, {0, 0}, {90, 5, 7});
  EXPECT_FALSE(step.within_limits(0).found());
  auto const found = step.across_limits(0);
  EXPECT_EQ(found.leaving, 1U);
  EXPECT_EQ(found.to, 2U);
}

}  // namespace
