// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/order_microbatches.hpp>  // first: proves it is self-contained

#include "../support/compiled_schedules.hpp"
#include "../support/numbered_order.hpp"
#include "../support/order_checks.hpp"
#include "../support/random_times.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/exact_order.hpp>
#include <ballast/pipeline/given_order.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace {

using ballast::exact_order;
using ballast::given_order;
using ballast::microbatch_id;
using ballast::order_plan;
using ballast::time_units;

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

// What a pipeline computes is a sum over its microbatches, here of integers, so that it must not
// change at all: every microbatch passes every stage once, in both directions.
TEST(OrderMicrobatches, ChangesNeitherLossesNorGradients)
{
  ballast::random_source random(9);
  for (int trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    auto const times =
        ballast_test::random_times(random, schedule.microbatches(), stages.stages(), 50);
    std::vector<std::uint64_t> samples(schedule.microbatches());
    for (auto& sample : samples) { sample = random(); }
    auto const gradients_of = [&](std::span<microbatch_id const> order) {
      std::vector<std::uint64_t> sums(2 * stages.stages(), 0);  // of each stage, of each pass
      for (auto const& task : schedule.tasks()) {
        std::size_t const sum =
            2 * to_index(task.stage) + (task.pass == ballast::pass::backward ? 1 : 0);
        sums[sum] += samples[to_index(order[task.position])] * (sum + 1);
      }
      return sums;
    };
    auto const plan = order_microbatches(schedule, times, exact_order{given_order{}, 200}).value();
    EXPECT_EQ(gradients_of(plan.order),
              gradients_of(ballast_test::numbered_order(schedule.microbatches())));
  }
}

TEST(OrderMicrobatches, GivesEveryRankTheSameDigestAndOtherOrdersAnother)  // Ensures (2)
{
  ballast::random_source random(10);
  auto const schedule = ballast_test::chain_schedule(4, 8);
  auto const times = ballast_test::random_times(random, 8, 4, 100);
  auto const plan = order_microbatches(schedule, times, exact_order{}).value();
  EXPECT_EQ(plan.digest(), order_microbatches(schedule, times, exact_order{}).value().digest());
  order_plan other = plan;
  std::swap(other.order[3], other.order[4]);
  EXPECT_NE(other.digest(), plan.digest());
  other = plan;
  ++other.makespan;
  EXPECT_NE(other.digest(), plan.digest());
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
