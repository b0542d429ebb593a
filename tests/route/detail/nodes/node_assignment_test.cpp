// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/nodes/node_assignment.hpp>

#include "node_job.hpp"

#include <ballast/core/workspace.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::tokens;
using ballast::detail::largest_row;
using ballast::detail::node_assignment;
using ballast::detail::node_volumes;

// The owners that put every batch on its node, in any bag of it.
std::vector<ballast::bag_id> owners_of(ballast_test::node_job const& job,
                                       node_assignment const& where, std::size_t nodes)
{
  std::vector<ballast::bag_id> bag_of(job.bags.size());
  for (std::size_t node = 0; node < nodes; ++node) {
    auto next = ballast::to_index(job.machines.nodes.first(ballast::to_id<ballast::node_id>(node)));
    for (std::uint32_t const batch : where.batches_on(node, 0)) {
      bag_of[batch] = ballast::to_id<ballast::bag_id>(next++);
    }
  }
  std::vector<ballast::bag_id> owner;
  for (auto const each : job.plan.owner) { owner.push_back(bag_of[ballast::to_index(each)]); }
  return owner;
}

TEST(NodeAssignment, KnowsWhatCrossesNodesBeforeAndAfterEverySwap)  // Ensures (1)
{
  ballast::random_source random(3);
  std::vector<std::uint32_t> const nodes{3, 2, 4};
  for (int trial = 0; trial < 12; ++trial) {
    bool const received = trial % 2 == 1;
    auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(9), 60, random);
    ballast::workspace memory;
    auto scratch = memory.open();
    node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
    node_assignment where(volumes, received, scratch);
    for (std::size_t batch = 0; batch < 9; ++batch) {
      EXPECT_EQ(where.node_of(batch), node_assignment::nowhere);
      where.place(batch, volumes.home_of(batch));
    }
    EXPECT_FALSE(where.has_room(0, 0));
    EXPECT_EQ(where.largest(), job.largest(job.plan.owner, received));
    auto const square = [](tokens volume) { return volume * volume; };
    for (int swap = 0; swap < 40; ++swap) {
      std::size_t const a = random.below(9);
      std::size_t const b = random.below(9);
      if (where.node_of(a) == where.node_of(b)) { continue; }
      tokens const before = where.largest();
      std::int64_t const sum = where.sum_of_rows(square);
      std::int64_t const growth = where.growth_after_swap(a, b, square);
      tokens const changed = where.largest_after_swap(a, b);
      where.swap(a, b);
      EXPECT_EQ(where.sum_of_rows(square), sum + growth);
      EXPECT_GE(where.largest(), changed);
      EXPECT_TRUE(where.largest() == changed || where.largest() <= before);
      EXPECT_EQ(where.largest(), job.largest(owners_of(job, where, 3), received));
    }
  }
}

TEST(NodeAssignment, RetiresRowsUntilAllAreComparedAgain)
{
  ballast::random_source random(4);
  std::vector<std::uint32_t> const nodes{2, 2};
  auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(4), 30, random);
  ballast::workspace memory;
  auto scratch = memory.open();
  node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
  node_assignment where(volumes, false, scratch);
  tokens const all = where.largest();
  for (int row = 0; row < 4; ++row) { where.retire(where.worst_row()); }
  EXPECT_EQ(where.largest(), largest_row::least);
  where.place(0, 0);  // changes rows, which stay retired
  EXPECT_EQ(where.largest(), largest_row::least);
  where.clear();
  EXPECT_EQ(where.largest(), all);
}

TEST(NodeAssignmentDeathTest, RefusesABatchThatIsPlacedAlready)
{
  ballast::random_source random(5);
  std::vector<std::uint32_t> const nodes{1, 1};
  auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(2), 9, random);
  ballast::workspace memory;
  auto scratch = memory.open();
  node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
  node_assignment where(volumes, false, scratch);
  where.place(0, 1);
  EXPECT_DEATH(where.place(0, 0), "batch 0 is on a node already");
}

}  // namespace
