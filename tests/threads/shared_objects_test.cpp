// SPDX-License-Identifier: Apache-2.0
// What several threads may read at the same time: the thread sanitizer reports a write among these.
#include "../../examples/common/by_name/any_order_policy.hpp"
#include "../../examples/common/by_name/any_policy.hpp"
#include "../../examples/common/by_name/parse_order_policy.hpp"
#include "../../examples/common/by_name/parse_policy.hpp"
#include "../support/at_once.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/cost/cost_literal.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/pipeline/order_lower_bound.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

namespace {

using namespace ballast::literals;
using ballast::rank_id;
using ballast::tokens;
using ballast::workspace;
using ballast_test::at_once;
using testing::Each;

constexpr std::size_t readers = 4;

std::vector<tokens> shared_lengths()
{
  std::vector<tokens> lengths(60);
  ballast::random_source random(20260101);
  for (tokens& length : lengths) { length = random.between(8, 4000); }
  return lengths;
}

ballast::bag_layout shared_bags()
{
  return ballast::lay_out(*ballast::parse_bags("g1n4+g4n1"), 8).value();
}

TEST(SharedObjects, PoliciesCostModelsAndLayoutsServeSeveralThreadsAtOnce)
{
  auto const lengths = shared_lengths();
  auto const bags = shared_bags();
  auto const cost = "transformer:d=3072,gamma=0.405"_cost;
  ballast::refine const policy{ballast::longest_processing_time{}};
  auto const plan = [&](std::size_t) {
    return ballast::partition(lengths, bags, policy, cost)->digest();
  };
  EXPECT_THAT(at_once(readers, plan), Each(plan(0)));
}

TEST(SharedObjects, CopiesOfAnAnyPolicyShareThePolicy)
{
  auto const lengths = shared_lengths();
  auto const bags = shared_bags();
  auto const policy = by_name::parse_policy("refine(kk)").value();
  auto const plan = [&](std::size_t thread) {
    std::vector<by_name::any_policy> const copies(1 + thread, policy);
    return ballast::partition(lengths, bags, copies[thread], [](tokens length) { return length; })
        ->digest();
  };
  EXPECT_THAT(at_once(readers, plan), Each(plan(0)));
}

TEST(SharedObjects, PlansAndPlacementsAreReadBySeveralThreadsAtOnce)
{
  auto const lengths = shared_lengths();
  auto const bags = shared_bags();
  auto const plan = ballast::partition(lengths, bags, ballast::refine{}, [](tokens length) {
                      return length;
                    }).value();
  std::vector<rank_id> readers_of(lengths.size());
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    readers_of[sample] = ballast::to_id<rank_id>(sample % bags.gpus());
  }
  auto const as_read = ballast::place(lengths, readers_of, bags.gpus());
  auto const as_planned = ballast::place(plan, bags).value();

  auto const read = [&](std::size_t) {
    auto total = static_cast<double>(plan.digest() % 1000) + plan.gap();
    for (auto const samples : plan.samples) { total += static_cast<double>(samples.size()); }
    for (std::size_t rank = 0; rank < bags.gpus(); ++rank) {
      auto const route = ballast::plan_route(as_read, as_planned, ballast::to_id<rank_id>(rank));
      total += static_cast<double>(route.kept.size() + route.sent.rows().size());
    }
    auto const volume = ballast::measure_route(as_read, as_planned, *ballast::cluster_of(8));
    return total + static_cast<double>(volume.ranks.size() + as_planned.digest() % 1000);
  };
  EXPECT_THAT(at_once(readers, read), Each(read(0)));
}

TEST(SharedObjects, UlyssesPlansAreReadBySeveralThreadsAtOnce)
{
  ballast::ulysses_plan plan;
  plan.assign(shared_lengths(), 4, 12);
  auto const read = [&](std::size_t) {
    tokens rows = 0;
    for (std::uint32_t gpu = 0; gpu < plan.gpus(); ++gpu) {
      plan.for_each_chunk(gpu, [&](ballast::bag_chunk const& each) { rows += each.count; });
      rows += plan.share(gpu, 4).count + plan.rows(gpu);
    }
    return rows + static_cast<tokens>(plan.digest() % 1000);
  };
  EXPECT_THAT(at_once(readers, read), Each(read(0)));
}

TEST(SharedObjects, SchedulesTimesAndOrderPoliciesServeSeveralThreadsAtOnce)
{
  auto const schedule = ballast_test::chain_schedule(4, 8);
  ballast::pipeline_times times(8, 4);
  for (std::size_t at = 0; at < 8; ++at) {
    auto const row = times[ballast::to_id<ballast::microbatch_id>(at)];
    for (auto& stage : row) { stage = {static_cast<ballast::time_units>(1 + at % 3), 2}; }
  }
  auto const policy = by_name::parse_order_policy("search").value();
  auto const order = [&](std::size_t) {
    by_name::any_order_policy const copy = policy;
    auto const plan = ballast::order_microbatches(schedule, times, copy).value();
    return plan.makespan + simulate(schedule, times, plan.order).makespan;
  };
  EXPECT_THAT(at_once(readers, order), Each(order(0)));
}

TEST(SharedObjects, HistogramsAreReadBySeveralThreadsAtOnce)
{
  ballast::length_histogram const lengths(shared_lengths());
  auto const read = [&](std::size_t) {
    return lengths.quantile({1, 2}) + static_cast<tokens>(lengths.bins(8).size());
  };
  EXPECT_THAT(at_once(readers, read), Each(read(0)));
}

}  // namespace
