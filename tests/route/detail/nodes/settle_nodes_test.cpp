// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/nodes/settle_nodes.hpp>

#include "node_job.hpp"

#include <ballast/core/workspace.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::tokens;
using ballast::detail::node_assignment;
using ballast::detail::node_volumes;
using ballast::detail::work_budget;

TEST(SettleLower, LeavesTheBestPlacementAndGetsBelowExchanges)
{
  ballast::random_source random(9);
  std::vector<std::uint32_t> const nodes{8, 8};
  int lower = 0;
  for (int trial = 0; trial < 10; ++trial) {
    auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(16), 300, random);
    ballast::workspace memory;
    auto scratch = memory.open();
    node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
    node_assignment where(volumes, false, scratch);
    ballast::detail::place_for_worst(where, memory);
    work_budget exchanges(1'000'000);
    ballast::detail::exchange_for_worst(where, exchanges);
    tokens const before = where.largest();
    std::vector<std::uint32_t> best(16);
    ballast::detail::settle_lower(where, best, 20'000);
    EXPECT_LE(where.largest(), before);
    lower += where.largest() < before ? 1 : 0;
    for (std::size_t node = 0; node < 2; ++node) {
      EXPECT_EQ(where.batches_on(node, 0).size(), 8U);
    }
    tokens const settled = where.largest();
    ballast::detail::settle_lower(where, best, 100);  // too little for so many ranks
    EXPECT_EQ(where.largest(), settled);
  }
  EXPECT_GE(lower, 1);
}

TEST(SettleBelow, SaysWhetherItGotThere)
{
  ballast::random_source random(10);
  std::vector<std::uint32_t> const nodes{4, 4};
  auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(8), 100, random);
  ballast::workspace memory;
  auto scratch = memory.open();
  node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
  node_assignment where(volumes, false, scratch);
  for (std::size_t batch = 0; batch < 8; ++batch) { where.place(batch, volumes.home_of(batch)); }
  work_budget left(500);
  EXPECT_TRUE(ballast::detail::settle_below(where, where.largest(), random, left));
  EXPECT_EQ(left.left(), 500U);
  EXPECT_FALSE(ballast::detail::settle_below(where, 0, random, left));
  EXPECT_TRUE(left.spent());
}

}  // namespace
