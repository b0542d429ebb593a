// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/sharded_timeline.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

#include "../route/sharded_steps.hpp"  // defines: ballast_test::{sharded_case, sharded_arrays, ...}

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>
#include <nlohmann/json.hpp>

namespace {

using ballast::group_id;
using ballast::sharded_packs;
using timelines::exchange_overlap;
using timelines::sharded_moment;

using moment_list = std::vector<sharded_moment>;

/// A phase of a group's pack from one time to another.
void add_phase(moment_list& to, sharded_packs::phase phase, group_id group, std::int64_t begin,
               std::int64_t end)
{
  to.push_back({{phase, false, group}, begin});
  to.push_back({{phase, true, group}, end});
}

/// Two ranks share a pack (group 2), and each has sequences of its own. Rank 1 is late: it has sent
/// at 150.
std::vector<moment_list> two_ranks()
{
  using enum sharded_packs::phase;
  std::vector<moment_list> ranks(2);
  add_phase(ranks[0], begin_to_heads, group_id{2}, 100, 110);
  add_phase(ranks[0], compute, group_id{0}, 110, 140);
  add_phase(ranks[0], end_to_heads, group_id{2}, 140, 155);  // it waits until 150, and unpacks
  add_phase(ranks[0], compute, group_id{2}, 155, 200);
  add_phase(ranks[0], begin_to_tokens, group_id{2}, 200, 204);
  add_phase(ranks[0], end_to_tokens, group_id{2}, 204, 260);
  add_phase(ranks[1], begin_to_heads, group_id{2}, 140, 150);
  add_phase(ranks[1], compute, group_id{1}, 150, 170);
  add_phase(ranks[1], end_to_heads, group_id{2}, 170, 175);  // all is there, since 150
  add_phase(ranks[1], compute, group_id{2}, 175, 220);
  add_phase(ranks[1], begin_to_tokens, group_id{2}, 220, 225);
  add_phase(ranks[1], end_to_tokens, group_id{2}, 225, 230);
  return ranks;
}

TEST(ShardedTimeline, CountsExchangesUntilTheyHaveArrived)
{
  auto const overlap = timelines::overlap_of(two_ranks());
  // Rank 0: to heads from 100 to 155, of which it computes 110 to 140; to tokens from 200 to 260.
  // Rank 1: to heads from 140 to 150, although it looks at 170; to tokens from 220 to 225.
  EXPECT_EQ(overlap.nanoseconds, 55 + 60 + 10 + 5);
  EXPECT_EQ(overlap.under_compute, 30);
  EXPECT_DOUBLE_EQ(overlap.share(), 30.0 / 130);
  EXPECT_EQ(exchange_overlap{}.share(), 0);
  EXPECT_EQ(timelines::overlap_of({}).nanoseconds, 0);
}

TEST(ShardedTimeline, HasTracksForWorkAndForExchanges)
{
  ballast::device_groups const all(ballast::node_sizes::equal(1, 2), 2);
  auto const text = timelines::sharded_timeline(two_ranks(), all).json().value();
  std::vector<std::string> seen;
  auto const trace = nlohmann::json::parse(text);
  for (auto const& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["pid"] != 1) { continue; }
    seen.push_back(std::to_string(event["tid"].get<int>()) + " " +
                   event["name"].get<std::string>() + " " +
                   std::to_string(static_cast<int>(event["ts"].get<double>() * 1000 + 0.5)) + " " +
                   std::to_string(static_cast<int>(event["dur"].get<double>() * 1000 + 0.5)));
  }
  EXPECT_EQ(seen,
            (std::vector<std::string>{
                "0 begins to heads of GPUs 0 to 1 40 10", "0 computes of its own 50 20",
                "0 ends to heads of GPUs 0 to 1 70 5", "0 computes of GPUs 0 to 1 75 45",
                "0 begins to tokens of GPUs 0 to 1 120 5", "0 ends to tokens of GPUs 0 to 1 125 5",
                "1 to heads of GPUs 0 to 1 40 10", "1 to tokens of GPUs 0 to 1 120 5"}));
}

// Recorded layers: every exchange is there, and none ends before it begins.
TEST(ShardedTimeline, IsOfWhatRanksRecord)
{
  ballast::random_source random(61);
  for (int trial = 0; trial < 20; ++trial) {
    auto const step = ballast_test::random_sharded_step(random, 8);
    std::vector<moment_list> ranks(8);
    ballast::run_ranks(8, [&](ballast::thread_communicator& comm) {
      ballast::sharded_exchange exchange(1 + static_cast<std::size_t>(trial) % 3);
      EXPECT_TRUE(expect_unsharded_step(comm, step, exchange,
                                        timelines::sharded_recorder{ranks[to_index(comm.rank())]}));
    });
    std::size_t expected = 0;
    for (std::size_t rank = 0; rank < 8; ++rank) {
      expected += 8 * step.packs_of(ballast::to_id<ballast::rank_id>(rank)).shared();
    }
    auto const exchanges = timelines::recorded_exchanges(ranks);
    EXPECT_EQ(exchanges.size(), expected);  // four layers, in two directions
    for (auto const& each : exchanges) {
      EXPECT_LT(each.call, 4);
      EXPECT_LE(each.begin, each.sent);
      EXPECT_LE(each.sent, each.end);
    }
    auto const overlap = timelines::overlap_of(ranks);
    EXPECT_LE(overlap.under_compute, overlap.nanoseconds);
    EXPECT_GE(overlap.under_compute, 0);
    EXPECT_TRUE(timelines::sharded_timeline(ranks, step.all).json());
  }
}

}  // namespace
