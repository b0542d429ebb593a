// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/nodes/node_cover.hpp>

#include "../../node_job.hpp"

#include <ballast/core/workspace.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::tokens;
using ballast::detail::batch_volume;
using ballast::detail::node_cover;
using ballast::detail::node_volumes;
using ballast::detail::work_budget;

// Oracle: all sets of as many batches as the node has bags.
tokens least_by_sets(node_volumes const& volumes, std::size_t node)
{
  tokens least = std::numeric_limits<tokens>::max();
  for (std::uint32_t set = 0; set < (1U << volumes.batches()); ++set) {
    if (static_cast<std::size_t>(std::popcount(set)) != volumes.ranks_of(node)) { continue; }
    tokens most = 0;
    for (std::size_t rank = 0; rank < volumes.ranks_of(node); ++rank) {
      tokens row = volumes.sent_by(volumes.first_rank(node) + rank);
      for (batch_volume const& each : volumes.of_rank(volumes.first_rank(node) + rank)) {
        if ((set >> each.peer & 1U) != 0) { row -= each.count; }
      }
      most = std::max(most, row);
    }
    least = std::min(least, most);
  }
  return least;
}

TEST(NodeCover, IsTheBestThatANodeCanDoByItself)  // Ensures (1)
{
  ballast::random_source random(12);
  std::vector<std::uint32_t> const nodes{3, 2, 4};
  for (int trial = 0; trial < 30; ++trial) {
    auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(9),
                                                   10 + random.below(60), random);
    ballast::workspace memory;
    auto scratch = memory.open();
    node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
    for (std::size_t node = 0; node < 3; ++node) {
      auto of_node = memory.open();
      node_cover cover(volumes, node, of_node);
      tokens const least = least_by_sets(volumes, node);
      work_budget enough(1'000'000'000);
      EXPECT_EQ(cover.least_largest(0, enough), least);
      EXPECT_EQ(cover.least_largest(least + 5, enough), least + 5);
      work_budget little(200);
      EXPECT_LE(cover.least_largest(0, little), least);
    }
  }
}

}  // namespace
