#include <ballast/partition/multifit.hpp>  // first: proves it is self-contained

#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::multifit;
using ballast::ratio;

static_assert(ballast::partition_policy<multifit>);

constexpr multifit until_settled{64};  // enough to halve 63 bits to one time

TEST(Multifit, PlacesEverySampleInABagItFits)  // Ensures (1) (2)
{
  ballast_test::expect_valid_plans(multifit{}, 43);
  ballast_test::expect_valid_plans(until_settled, 44);
  ballast_test::expect_starting_loads_counted(multifit{});
}

RC_GTEST_PROP(Multifit, IsNeverWorseThanGreedy, ())  // Ensures (3)
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  auto const iterations = *rc::gen::inRange<std::uint32_t>(0, 20);
  auto const step = ballast_test::random_instance(random, 40, 8, 4);
  auto const plan = ballast_test::plan_instance(step, multifit{iterations});
  auto const greedy = ballast_test::plan_instance(step, ballast::longest_processing_time{});
  RC_ASSERT(plan.value().makespan <= greedy.value().makespan);
  if (iterations == 0) { RC_ASSERT(plan.value().owner == greedy.value().owner); }
}

TEST(Multifit, StaysWithinItsWorstCase)  // Ensures (4)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 600; ++trial) {
    auto step = ballast_test::random_instance(random, 8, 4, 1);
    step.gpu_speeds.clear();
    SCOPED_TRACE(testing::Message() << "trial " << trial << " bags " << step.gpus.size());
    auto const plan = ballast_test::plan_instance(step, until_settled);
    ASSERT_TRUE(plan);
    EXPECT_LE(11 * plan->makespan.numerator, 13 * ballast_test::optimum(step)->numerator);
  }
}

TEST(Multifit, FillsBagsToTheBrimWhereGreedyDoesNot)
{
  // Graham's instance: greedy reaches 11 with three bags, where 5 + 4, 5 + 4 and 3 + 3 + 3 take 9.
  ballast_test::instance const step{{1, 1, 1, 1, 1, 1, 1}, {5, 5, 4, 4, 3, 3, 3}, {1, 1, 1}};
  EXPECT_EQ(ballast_test::plan_instance(step, ballast::longest_processing_time{})->makespan,
            (ratio{11, 1}));
  auto const plan = ballast_test::plan_instance(step, multifit{}).value();
  EXPECT_EQ(plan.makespan, (ratio{9, 1}));
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(Multifit, LeavesFastBagsForWhatHasRoomNowhereElse)
{
  // The 3 fills the slow bag by the time 3, and 2, 2 and 2 the one twice as fast. Greedy starts
  // with the 3 on the fast bag.
  ballast_test::instance const step{{1, 1, 1, 1}, {3, 2, 2, 2}, {1, 1}, {1, 2}};
  EXPECT_EQ(ballast_test::plan_instance(step, ballast::longest_processing_time{})->makespan,
            (ratio{7, 2}));
  auto const plan = ballast_test::plan_instance(step, multifit{}).value();
  EXPECT_EQ(plan.makespan, (ratio{3, 1}));
  EXPECT_EQ(plan.owner, (std::vector{bag_id{0}, bag_id{1}, bag_id{1}, bag_id{1}}));
}

TEST(Multifit, AnswersTheBoundAndNothingAboveTheOptimum)  // Ensures (5)
{
  ballast::random_source random(12);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 7, 3, 3);
    auto const plan = ballast_test::plan_instance(step, multifit{});
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->lower_bound, *ballast_test::optimum(step));
  }
}

TEST(Multifit, WorksUpToTheLargestTotal)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max() - 1;
  for (std::vector<std::uint32_t> const& speeds :
       {std::vector<std::uint32_t>{}, {1, 1, 1U << 31}, {3, 1U << 31, 7}}) {
    ballast_test::instance const step{
        {9, 9, 9, 9}, {most / 4, most / 4, most / 4, most / 4}, {1, 1, 1}, speeds};
    auto const plan = ballast_test::plan_instance(step, until_settled);
    ASSERT_TRUE(plan) << plan.error().message;
    ballast_test::expect_valid_plan(step, *plan);
  }
}

TEST(Multifit, PlansTheSameAgainAndAllocatesNothing)
{
  ballast_test::expect_the_same_again_without_allocation(multifit{}, 500);
}

TEST(MultifitDeathTest, RefusesMismatchedSpans)
{
  std::vector<ballast::cost_units> loads;
  ballast::workspace memory;
  EXPECT_DEATH((void)multifit{}({}, loads, {}, memory), "`loads` is empty");
}

}  // namespace
