// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "counted_allocations.hpp"
#include "pipelines.hpp"
#include "test.hpp"

#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace ballast_test {

/// Oracle: of all orders that take the least time, the first in lexicographic order.
[[nodiscard]] inline std::vector<ballast::microbatch_id> first_best_order(
    ballast::compiled_schedule const& schedule, ballast::pipeline_times const& times)
{
  ballast::workspace memory;
  auto order = numbered_order(schedule.microbatches());
  auto best = order;
  ballast::time_units least = makespan_of(schedule, times, order, memory);
  while (std::ranges::next_permutation(order).found) {
    ballast::time_units const makespan = makespan_of(schedule, times, order, memory);
    if (makespan < least) {
      least = makespan;
      best = order;
    }
  }
  return best;
}

/// What every plan promises, recomputed from the order alone.
inline void expect_valid_order(ballast::compiled_schedule const& schedule,
                               ballast::pipeline_times const& times,
                               ballast::order_plan const& plan)
{
  auto const given = numbered_order(schedule.microbatches());
  auto sorted = plan.order;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, given) << "a microbatch is missing or repeated";
  EXPECT_EQ(plan.makespan, simulate(schedule, times, plan.order).makespan);
  EXPECT_EQ(plan.makespan_given, simulate(schedule, times, given).makespan);
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

/// Orders a step twice in the same memory: the second time as the first, without allocation.
template <class Policy>
void expect_ordered(Policy const& policy, ballast::compiled_schedule const& schedule,
                    ballast::pipeline_times const& times)
{
  ballast::order_plan plan;
  ballast::workspace memory;
  auto const once = order_microbatches_into(plan, memory, schedule, times, policy);
  ASSERT_TRUE(once) << once.error().message;
  expect_valid_order(schedule, times, plan);
  std::uint64_t const digest = plan.digest();
  std::size_t const before = allocations();
  auto const again = order_microbatches_into(plan, memory, schedule, times, policy);
  EXPECT_EQ(allocations(), before);
  ASSERT_TRUE(again);
  EXPECT_EQ(plan.digest(), digest);
}

/// The order depends on nothing but the times and the schedule.
template <class Policy>
void expect_same_order_whatever_is_given(Policy const& policy,
                                         ballast::compiled_schedule const& schedule,
                                         ballast::pipeline_times const& times)
{
  auto const expected = order_microbatches(schedule, times, policy).value().order;
  ballast::random_source random(3);
  ballast::workspace memory;
  for (int trial = 0; trial < 20; ++trial) {
    auto order = numbered_order(schedule.microbatches());
    random.shuffle(std::span(order));
    policy({schedule, times}, order, memory);
    EXPECT_EQ(order, expected);
  }
}

/// Runs a policy over pipelines of every kind, and over the edges: no microbatch, one, one stage,
/// fewer than stages, no times, ties, times as long as they can be.
template <class Policy>
void expect_valid_orders(Policy const& policy, std::uint64_t seed)
{
  ballast::random_source random(seed);
  for (int trial = 0; trial < trials_of(300); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, tasks] = random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    ballast::time_units const longest = trial % 3 == 0 ? 3 : 1000;  // 3: mostly ties
    auto const times = random_times(random, schedule.microbatches(), stages.stages(), longest);
    expect_ordered(policy, schedule, times);
    if (testing::Test::HasFailure()) { return; }
  }
  constexpr auto most = ballast::stage_graph::longest_time;
  for (std::size_t const ranks : {1U, 4U}) {
    for (std::size_t const microbatches : {0U, 1U, 2U, 6U}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << microbatches << " microbatches");
      auto const schedule = chain_schedule(ranks, microbatches, 1, most / 64);
      ballast::pipeline_times const none(microbatches, ranks);
      expect_ordered(policy, schedule, none);
      auto all_alike = none;
      std::ranges::fill(all_alike.rows, ballast::stage_time{7, 14});
      expect_ordered(policy, schedule, all_alike);
      auto longest = none;
      for (auto& time : longest.rows) { time = {most - random.between(0, 9), most}; }
      expect_ordered(policy, schedule, longest);
    }
  }
}

}  // namespace ballast_test
