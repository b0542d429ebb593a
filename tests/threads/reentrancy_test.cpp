// SPDX-License-Identifier: Apache-2.0
// What the library calls may call the library.
#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../support/at_once.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::one_gpu_bags;
using ballast::tokens;
using ballast::workspace;
using ballast_test::at_once;
using testing::Each;

// A document whose images an encoder computes on two GPUs: what it costs is the time of that.
using images = std::vector<tokens>;

std::vector<images> documents()
{
  return {{5, 5, 4}, {9}, {1, 2, 3, 4}, {7, 7}, {}, {6, 1}};
}

cost_units time_of(images const& each, workspace& memory)
{
  ballast::partition_plan plan;
  auto const done = ballast::partition_into(plan, memory, each, one_gpu_bags(2), ballast::refine{},
                                            [](tokens of) { return of; });
  return done ? plan.makespan.numerator : -1;
}

std::vector<cost_units> expected_costs()
{
  return {9, 9, 5, 7, 0, 6};
}

constexpr auto tokens_in = [](images const& each) {
  tokens all = 0;
  for (tokens const of : each) { all += of; }
  return all;
};

TEST(Reentrancy, ACostMayPlanWithAPlanOfItsOwn)
{
  workspace memory;
  workspace of_cost;
  ballast::partition_plan plan;
  auto const cost = [&](images const& each) { return time_of(each, of_cost); };
  ASSERT_TRUE(ballast::partition_into(plan, memory, documents(), one_gpu_bags(2), ballast::refine{},
                                      cost, tokens_in));
  EXPECT_EQ(plan.costs, expected_costs());
}

TEST(Reentrancy, ACostMayPlanInTheWorkspaceOfItsCaller)
{
  workspace memory;
  ballast::partition_plan plan;
  auto const cost = [&](images const& each) { return time_of(each, memory); };
  ASSERT_TRUE(ballast::partition_into(plan, memory, documents(), one_gpu_bags(2), ballast::refine{},
                                      cost, tokens_in));
  EXPECT_EQ(plan.costs, expected_costs());
  EXPECT_EQ(plan.makespan, (ballast::ratio{18, 1}));
}

TEST(Reentrancy, ALengthMayPlan)
{
  workspace of_length;
  auto const length = [&](images const& each) { return time_of(each, of_length); };
  auto const plan =
      ballast::partition(documents(), one_gpu_bags(2), ballast::refine{}, tokens_in, length)
          .value();
  EXPECT_EQ(plan.costs, (std::vector<cost_units>{14, 9, 10, 14, 0, 7}));
}

// Runs two policies one after another in its caller's workspace, and keeps the better plan.
struct better_of_two {
  void operator()(ballast::partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    auto scratch = memory.open();
    auto const other_loads = scratch.take<cost_units>(loads.size());
    auto const other_owner = scratch.take<bag_id>(owner.size());
    std::ranges::copy(loads, other_loads.begin());
    std::ranges::copy(owner, other_owner.begin());
    ballast::longest_processing_time{}(problem, loads, owner, memory);
    baselines::karmarkar_karp{}(problem, other_loads, other_owner, memory);
    if (std::ranges::max(other_loads) < std::ranges::max(loads)) {
      std::ranges::copy(other_loads, loads.begin());
      std::ranges::copy(other_owner, owner.begin());
    }
  }
};

TEST(Reentrancy, APolicyMayRunPoliciesInItsWorkspace)
{
  std::vector<tokens> const lengths{8, 7, 6, 5, 4};
  auto const plan = [&](std::size_t) {
    auto const made =
        ballast::partition(lengths, one_gpu_bags(2), better_of_two{}, std::identity{});
    return made ? made->makespan.numerator : 0;
  };
  EXPECT_THAT(at_once(3, plan), Each(cost_units{16}));
}

// Plans with the library inside a policy: samples of the first half apart from those of the second.
struct halves_apart {
  void operator()(ballast::partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    std::size_t const half = owner.size() / 2;
    for (std::size_t const first : {std::size_t{0}, half}) {
      std::size_t const count = first == 0 ? half : owner.size() - half;
      ballast::partition_plan plan;
      auto const done =
          ballast::partition_into(plan, memory, problem.costs.subspan(first, count),
                                  one_gpu_bags(loads.size()), ballast::refine{}, std::identity{});
      if (!done) { return; }
      std::ranges::copy(plan.owner, owner.subspan(first).begin());
      std::ranges::transform(loads, plan.loads, loads.begin(), std::plus{});
    }
  }
};

TEST(Reentrancy, APolicyMayPlanInItsWorkspace)
{
  std::vector<tokens> const lengths{8, 8, 3, 3};
  auto const plan =
      ballast::partition(lengths, one_gpu_bags(2), halves_apart{}, std::identity{}).value();
  EXPECT_EQ(plan.makespan, (ballast::ratio{11, 1}));
}

// Orders with one policy where another does not do better.
struct two_order_policies {
  void operator()(ballast::order_problem const& problem, std::span<ballast::microbatch_id> order,
                  workspace& memory) const
  {
    ballast::order_plan plan;
    auto const done = ballast::order_microbatches_into(plan, memory, problem.schedule,
                                                       problem.times, ballast::interval_filling{});
    if (done && plan.makespan < plan.makespan_given) {
      std::ranges::copy(plan.order, order.begin());
    }
  }
};

TEST(Reentrancy, AnOrderPolicyMayOrderInItsWorkspace)
{
  auto const schedule = ballast_test::chain_schedule(3, 6);
  ballast::pipeline_times times(6, 3);
  for (std::size_t at = 0; at < 6; ++at) {
    auto const row = times[ballast::to_id<ballast::microbatch_id>(at)];
    for (auto& stage : row) { stage = {static_cast<ballast::time_units>(at % 2 == 0 ? 9 : 1), 4}; }
  }
  auto const plan = order_microbatches(schedule, times, two_order_policies{});
  auto const filled = order_microbatches(schedule, times, ballast::interval_filling{});
  ASSERT_TRUE(plan && filled);
  EXPECT_EQ(plan->makespan, std::min(filled->makespan, filled->makespan_given));
}

}  // namespace
