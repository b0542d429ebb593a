// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/nodes/assign_bags.hpp>

#include "node_job.hpp"

#include <ballast/core/workspace.hpp>
#include <ballast/route/place.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::rank_id;
using ballast::tokens;
using ballast::detail::node_volumes;

TEST(SeatBatches, GiveABatchTheGpuThatHasMostOfIt)
{
  auto const machines = ballast::cluster_of(4, 2).value();
  auto const bags = ballast::one_gpu_bags(4);
  // Batch 0 has most of rank 3, batch 1 some of rank 3, batches 2 and 3 nothing of their node.
  std::vector<tokens> const lengths{50, 40, 30};
  std::vector<rank_id> const source{rank_id{3}, rank_id{3}, rank_id{0}};
  std::vector<bag_id> const owner{bag_id{0}, bag_id{1}, bag_id{1}};
  auto const read = ballast::place(lengths, source, 4);
  ballast::workspace memory;
  auto scratch = memory.open();
  node_volumes const volumes(read, owner, bags, machines, scratch);
  std::vector<bag_id> bag_of(4);
  std::vector<std::uint32_t> const node_of{1, 1, 0, 0};
  ballast::detail::assign_bags(volumes, bags, node_of, bag_of, memory);
  EXPECT_EQ(bag_of, (std::vector{bag_id{3}, bag_id{2}, bag_id{0}, bag_id{1}}));
  std::vector<std::uint32_t> const at_home{0, 0, 1, 1};
  ballast::detail::assign_bags(volumes, bags, at_home, bag_of, memory);
  EXPECT_EQ(bag_of, (std::vector{bag_id{1}, bag_id{0}, bag_id{2}, bag_id{3}}));
}

TEST(SeatBatches, KeepKindsAndNodes)
{
  ballast::random_source random(11);
  std::vector<std::uint32_t> const nodes{4, 4};
  std::vector<ballast::bag> const of_two_sizes{{rank_id{0}, 1}, {rank_id{1}, 1}, {rank_id{2}, 2},
                                               {rank_id{4}, 2}, {rank_id{6}, 1}, {rank_id{7}, 1}};
  ballast::bag_layout const bags(of_two_sizes);
  std::vector<std::uint32_t> const node_of{1, 0, 1, 0, 0, 1};
  for (int trial = 0; trial < 20; ++trial) {
    auto const job = ballast_test::random_node_job(nodes, bags, 50, random);
    ballast::workspace memory;
    auto scratch = memory.open();
    node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
    std::vector<bag_id> bag_of(6);
    ballast::detail::assign_bags(volumes, bags, node_of, bag_of, memory);
    for (std::size_t batch = 0; batch < 6; ++batch) {
      std::size_t const bag = ballast::to_index(bag_of[batch]);
      ASSERT_LT(bag, 6U);
      EXPECT_EQ(volumes.home_of(bag), node_of[batch]);
      EXPECT_EQ(volumes.kind_of(bag), volumes.kind_of(batch));
    }
    std::ranges::sort(bag_of);
    EXPECT_TRUE(std::ranges::adjacent_find(bag_of) == bag_of.end());
  }
}

}  // namespace
