#include <ballast/partition/detail/capacity/out_of_capacity.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"

#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/packing/best_fit_decreasing.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::error_code;
using testing::HasSubstr;

ballast::error why_not(ballast_test::direct_problem const& given, std::size_t item,
                       std::vector<std::uint32_t> const& first_sample = {})
{
  ballast::detail::planned_items const items{
      given.step.costs, given.step.lengths, given.weights, {}, first_sample};
  return ballast::detail::out_of_capacity(given.view(), items, item).value();
}

ballast_test::instance alike(std::size_t samples, std::size_t bags)
{
  return {std::vector<ballast::tokens>(samples, 9), std::vector<ballast::cost_units>(samples, 1),
          std::vector<std::uint32_t>(bags, 1)};
}

TEST(OutOfCapacity, SaysHowManyBagsAreNeeded)
{
  auto const why = why_not(ballast_test::direct_problem(alike(5, 2), {6, 6, 6, 6, 6}, {10, 10}), 2);
  EXPECT_EQ(why.code, error_code::infeasible);
  EXPECT_EQ(why.position, 2U);
  EXPECT_EQ(why.message,
            "all samples weigh 30 and 2 bags hold at most 10 each; 5 such bags are needed and "
            "enough; sample 2 weighs 6 and found no bag with room; add bags, raise the limit or "
            "plan fewer samples at once");
}

TEST(OutOfCapacity, TellsTheNumberNeededFromTheNumberFound)
{
  // Two bags would both have to be full, and no samples add up to 10: the bound does not see that.
  auto const why = why_not(ballast_test::direct_problem(alike(5, 1), {3, 6, 3, 2, 6}, {10}), 0);
  EXPECT_THAT(why.message,
              HasSubstr("all samples weigh 20 and 1 bag holds at most 10 each; at "
                        "least 2 such bags are needed and 3 are enough; sample 0 weighs 3 and "
                        "found no bag with room; add bags"));
}

RC_GTEST_PROP(OutOfCapacity, CountsTheBinsOfBestFitDecreasing, ())
{
  auto const weights =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 41));
  std::vector<ballast::priced_sample> order(weights.size());
  ballast::workspace memory;
  ballast::descending_order_into(order, weights, memory);
  std::vector<ballast::bag_id> owner(weights.size());
  RC_ASSERT(ballast::detail::best_fit_bins(order, 40) ==
            ballast::best_fit_decreasing{}({weights, order, 40}, owner, memory));
}

TEST(OutOfCapacity, NamesASampleThatIsTooHeavyForEveryBagItFits)
{
  ballast_test::direct_problem const given({{9, 1, 9}, {1, 1, 1}, {1, 4}}, {30, 20, 1}, {10, 40});
  auto const why = why_not(given, 2);
  EXPECT_EQ(why.position, 1U);  // sample 0 fits the larger bag
  EXPECT_THAT(why.message,
              HasSubstr("sample 1 weighs 20, more than any bag that it fits holds, which is 10;"));
}

TEST(OutOfCapacity, NamesJoinedSamplesByTheFirst)
{
  ballast_test::direct_problem const given(alike(3, 1), {6, 6, 6}, {10});
  auto const why = why_not(given, 1, {0, 4, 9});
  EXPECT_EQ(why.position, 4U);
  EXPECT_THAT(why.message, HasSubstr("sample 4 and what stays with it weigh 6 and found no bag"));
}

TEST(OutOfCapacity, SendsToAPolicyThatLooksAtWeightsWhereBagsAreEnough)
{
  auto const why = why_not(ballast_test::direct_problem(alike(3, 3), {6, 6, 6}, {10, 10, 10}), 1);
  EXPECT_THAT(why.message, HasSubstr("3 such bags are enough; sample 1 weighs 6 and found no bag "
                                     "with room; use a policy that looks at"));
}

TEST(OutOfCapacity, CountsWhatFindsNoRoomWhereBagsDiffer)
{
  // Two bags of 20 would be enough, but there is only one.
  auto const why = why_not(ballast_test::direct_problem(alike(3, 2), {9, 9, 9}, {20, 5}), 2);
  EXPECT_EQ(why.message,
            "all samples weigh 27 and 2 bags hold 25 in all; filled with the heaviest first, they "
            "leave 1 sample without room; sample 2 weighs 9 and found no bag with room; add bags, "
            "raise the limit or plan fewer samples at once");
  auto const enough = why_not(ballast_test::direct_problem(alike(3, 2), {9, 9, 5}, {20, 5}), 2);
  EXPECT_THAT(
      enough.message,
      HasSubstr("hold 25 in all; they are enough; sample 2 weighs 5 and found no bag with room; "
                "use a policy that looks at weights and chooses among all plans"));
}

TEST(OutOfCapacity, KnowsWhichBagsSamplesFit)
{
  // Both samples are too short for the larger bag.
  ballast_test::direct_problem const given({{1, 1}, {1, 1}, {1, 4}}, {6, 6}, {10, 40});
  EXPECT_THAT(why_not(given, 1).message,
              HasSubstr("they leave 1 sample without room; sample 1 weighs 6"));
  ballast_test::direct_problem const equal({{1, 1}, {1, 1}, {1, 4}}, {6, 6}, {10, 10});
  EXPECT_THAT(why_not(equal, 1).message,
              HasSubstr("2 such bags are enough, but some samples are too short for some of them; "
                        "sample 1 weighs 6"));
}

TEST(OutOfCapacity, ManagesBagsWithoutLimit)
{
  constexpr auto endless = std::numeric_limits<std::int64_t>::max();
  ballast_test::direct_problem const given(alike(2, 2), {6, 6}, {endless, endless - 1});
  EXPECT_THAT(why_not(given, 1).message, HasSubstr("hold more than 2^63 in all; they are enough"));
}

}  // namespace
