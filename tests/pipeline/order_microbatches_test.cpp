// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/order_microbatches.hpp>  // first: proves it is self-contained

#include "../support/order_checks.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace {

using namespace ballast;

TEST(OrderPlan, HasNoGapWhereThereIsNothingToDo)
{
  auto const plan = order_microbatches(ballast_test::chain_schedule(3, 0),
                                       ballast::pipeline_times(0, 3), given_order{})
                        .value();
  EXPECT_TRUE(plan.order.empty());
  EXPECT_EQ(plan.makespan, 0);
  EXPECT_EQ(plan.gap(), 0.0);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(OrderPlan, SaysHowFarItCanBeFromTheBest)
{
  order_plan const plan{{.makespan = 5, .lower_bound = 4}, {}, 8};
  EXPECT_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
}

TEST(OrderPlan, HasADigestOfItsOrderAndMakespan)
{
  order_plan const plan{{.makespan = 5, .lower_bound = 0}, {microbatch_id{1}, microbatch_id{0}}};
  order_plan other = plan;
  other.lower_bound = 3;
  EXPECT_EQ(other.digest(), plan.digest());
  other.makespan = 6;
  EXPECT_NE(other.digest(), plan.digest());
  other = plan;
  other.order = {microbatch_id{0}, microbatch_id{1}};
  EXPECT_NE(other.digest(), plan.digest());
}

// [policy]
// Last microbatch first.
struct reversed_order {
  void operator()(ballast::order_problem const&, std::span<ballast::microbatch_id> order,
                  ballast::workspace&) const
  {
    std::ranges::reverse(order);
  }
  friend bool operator==(reversed_order, reversed_order) = default;
};
// [policy]

static_assert(ballast::order_policy<reversed_order> && reversed_order{} == reversed_order{});

TEST(OrderMicrobatches, SaysHowGoodTheOrderIs)
{
  // [order]
  auto const stages = ballast::chain_of_stages(2, 2);  // two stages on two pipeline ranks
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 4);

  ballast::pipeline_times times(4, 2);  // forward and backward, of a microbatch per line
  times.rows = {{30, 60}, {10, 20},     //
                {10, 20}, {10, 20},     //
                {40, 80}, {10, 20},     //
                {10, 20}, {10, 20}};
  auto const plan = ballast::order_microbatches(schedule.value(), times, ballast::exact_order{});
  // [order]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->makespan_given, 290);
  EXPECT_EQ(plan->makespan, 270);
  EXPECT_EQ(plan->lower_bound, 270);
  EXPECT_TRUE(plan->proven_optimal());
  EXPECT_EQ(plan->gap(), 0.0);
  EXPECT_EQ(plan->order,
            (std::vector{microbatch_id{1}, microbatch_id{0}, microbatch_id{2}, microbatch_id{3}}));
}

TEST(OrderMicrobatches, TakesPoliciesFromOutside)
{
  ballast_test::expect_valid_orders(reversed_order{}, 108);
}

TEST(OrderMicrobatches, RefusesTimesThatCannotBeSimulated)
{
  auto const schedule = ballast_test::chain_schedule(2, 3);
  ballast::pipeline_times times(3, 2);
  times[microbatch_id{1}][0].backward = -1;
  auto const negative = order_microbatches(schedule, times, given_order{});
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(negative.error().position, 1U);
  EXPECT_FALSE(order_microbatches(schedule, ballast::pipeline_times(2, 2), given_order{}));
  EXPECT_FALSE(order_microbatches(schedule, ballast::pipeline_times(3, 1), given_order{}));
}

// The slots of a grid are the microbatches of all pipelines, each as long as its largest cell: one
// order for all ranks, which moves slots and breaks none.
TEST(OrderMicrobatches, OrdersTheSlotsOfAGrid)
{
  ballast::random_source random(5);
  std::vector<ballast::tokens> lengths(60);
  for (auto& length : lengths) { length = random.between(1, random.below(6) == 0 ? 4000 : 600); }
  auto const cost = [](ballast::tokens length) { return length; };
  ballast::microbatches const slots{.number = 6, .meet = ballast::grid_meeting::microbatch};
  auto const grid = ballast::partition_grid(lengths, ballast::one_gpu_bags(4), slots, cost).value();
  auto const stage_takes = [&](std::size_t slot, std::size_t stage) {
    ballast::time_units longest = 0;  // of any rank: the encoder takes a third of it
    for (std::size_t rank = 0; rank < grid.ranks; ++rank) {
      longest = std::max(longest, grid.load(ballast::to_id<ballast::rank_id>(rank), slot));
    }
    ballast::time_units const forward = stage == 0 ? longest / 3 : longest;
    return ballast::stage_time{forward, 2 * forward};
  };
  ballast::pipeline_times const times(grid.microbatches, 3, stage_takes);
  ballast::compiled_schedule const schedule(ballast::chain_of_stages(3, 3),
                                            ballast::one_forward_one_backward{}, grid.microbatches);
  auto const plan = ballast::order_microbatches(schedule, times, ballast::local_search{}).value();
  // plan.order[position] is the slot that every rank computes there
  std::vector<std::size_t> ordered;
  for (auto const slot : plan.order) { ordered.push_back(to_index(slot)); }
  std::ranges::sort(ordered);
  EXPECT_EQ(ordered, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_LE(plan.makespan, plan.makespan_given);
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

struct lying_order {
  time_units operator()(ballast::order_problem const&, std::span<microbatch_id>,
                        ballast::workspace&) const
  {
    return std::numeric_limits<time_units>::max();
  }
  friend bool operator==(lying_order, lying_order) = default;
};
static_assert(ballast::order_policy<lying_order> && lying_order{} == lying_order{});

// Orders the microbatches with these numbers.
struct order_of_numbers {
  std::vector<std::size_t> numbers;
  void operator()(ballast::order_problem const&, std::span<ballast::microbatch_id> order,
                  ballast::workspace&) const
  {
    for (std::size_t at = 0; at < order.size(); ++at) {
      order[at] = ballast::to_id<ballast::microbatch_id>(numbers[at]);
    }
  }
};

TEST(OrderMicrobatchesDeathTest, RefusesAnOrderThatLeavesAMicrobatchOut)
{
  auto const schedule = ballast_test::chain_schedule(2, 3);
  ballast::pipeline_times const times(3, schedule.stages().stages());
  EXPECT_TRUE(order_microbatches(schedule, times, order_of_numbers{{2, 0, 1}}));
  EXPECT_DEATH((void)order_microbatches(schedule, times, order_of_numbers{{2, 2, 1}}),
               "the policy ordered microbatch 0 0 times; each has one place");
  EXPECT_DEATH((void)order_microbatches(schedule, times, order_of_numbers{{2, 3, 1}}),
               "the policy ordered microbatch 3 of 3");
}

TEST(OrderMicrobatchesDeathTest, EndsWhereAPolicyProvesWhatIsFalse)
{
  auto const schedule = ballast_test::chain_schedule(2, 3);
  ballast::pipeline_times const times(3, 2);
  EXPECT_DEATH((void)order_microbatches(schedule, times, lying_order{}),
               "the policy proved that no order takes less than");
}

}  // namespace
