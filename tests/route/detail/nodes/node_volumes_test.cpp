// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/nodes/node_volumes.hpp>

#include "node_job.hpp"

#include <ballast/core/workspace.hpp>
#include <ballast/route/place.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::to_index;
using ballast::tokens;
using ballast::detail::batch_volume;
using ballast::detail::node_volumes;

TEST(NodeVolumes, AreTheTokensThatRanksSendToBatches)  // Ensures (1) (2)
{
  ballast::random_source random(2);
  std::vector<std::uint32_t> const nodes{3, 4, 2};
  for (int trial = 0; trial < 20; ++trial) {
    auto const job =
        ballast_test::random_node_job(nodes, ballast::one_gpu_bags(9), random.below(120), random);
    ballast::workspace memory;
    auto scratch = memory.open();
    node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
    std::map<std::pair<std::size_t, std::size_t>, tokens> sent;  // batch, rank
    for (std::size_t sample = 0; sample < job.lengths.size(); ++sample) {
      if (job.lengths[sample] == 0) { continue; }
      sent[{to_index(job.plan.owner[sample]), to_index(job.source[sample])}] += job.lengths[sample];
    }
    ASSERT_EQ(volumes.entries(), sent.size());
    std::vector<tokens> of_rank(9, 0);
    for (std::size_t batch = 0; batch < 9; ++batch) {
      tokens received = 0;
      std::size_t on_nodes = 0;
      for (std::size_t node = 0; node < 3; ++node) {
        on_nodes += volumes.of_batch(batch, node).size();
        for (batch_volume const& each : volumes.of_batch(batch, node)) {
          EXPECT_EQ(volumes.node_of_rank(each.peer), node);
        }
      }
      EXPECT_EQ(on_nodes, volumes.of_batch(batch).size());
      std::int64_t before = -1;
      for (batch_volume const& each : volumes.of_batch(batch)) {
        EXPECT_LT(before, each.peer);
        before = each.peer;
        EXPECT_EQ(each.count, (sent.at({batch, each.peer})));
        received += each.count;
        of_rank[each.peer] += each.count;
      }
      EXPECT_EQ(volumes.received_by(batch), received);
    }
    for (std::size_t rank = 0; rank < 9; ++rank) {
      EXPECT_EQ(volumes.sent_by(rank), of_rank[rank]);
      EXPECT_EQ(volumes.fixed_of(rank), 0);
      tokens before = ballast::longest_sample * tokens{1000};
      for (batch_volume const& each : volumes.of_rank(rank)) {
        EXPECT_LE(each.count, before);
        before = each.count;
        EXPECT_EQ(each.count, (sent.at({each.peer, rank})));
      }
    }
  }
}

TEST(NodeVolumes, LeaveOutABagThatHasGpusOfTwoNodes)
{
  // Bags of 1, 2 and 1 GPUs on nodes of 2: the second bag lies across. Its sample of 10 tokens
  // comes from rank 0, whose node keeps the 5 tokens of rank 1's chunk.
  std::vector<ballast::bag> const bags{
      {ballast::rank_id{0}, 1}, {ballast::rank_id{1}, 2}, {ballast::rank_id{3}, 1}};
  ballast::bag_layout const layout(bags);
  std::vector<tokens> const lengths{10, 7};
  std::vector<ballast::rank_id> const source{ballast::rank_id{0}, ballast::rank_id{3}};
  std::vector<bag_id> const owner{bag_id{1}, bag_id{0}};
  auto const read = ballast::place(lengths, source, 4);
  auto const machines = ballast::cluster_of(4, 2).value();
  ballast::workspace memory;
  auto scratch = memory.open();
  node_volumes const volumes(read, owner, layout, machines, scratch);
  EXPECT_EQ(volumes.kinds(), 1U);
  EXPECT_EQ(volumes.kind_of(0), volumes.kind_of(2));
  EXPECT_EQ(volumes.kind_of(1), node_volumes::none);
  EXPECT_EQ(volumes.fixed_of(0), 5);
  EXPECT_EQ(volumes.received_by(1), 5);
  EXPECT_TRUE(volumes.of_batch(1).empty());
  EXPECT_EQ(volumes.sent_by(3), 7);
  EXPECT_EQ(volumes.home_of(2), 1U);
}

}  // namespace
