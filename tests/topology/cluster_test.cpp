// SPDX-License-Identifier: Apache-2.0
#include <ballast/topology/cluster.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

namespace {

using namespace ballast;

node_sizes listed(std::vector<std::uint32_t> const& sizes)
{
  return node_sizes(sizes);
}

RC_GTEST_PROP(NodeSizes, NumberRanksNodeByNode, ())  // Ensures (2)
{
  auto const sizes = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 6)));
  node_sizes const nodes(sizes);
  RC_ASSERT(nodes.size() == sizes.size());
  std::size_t rank = 0;  // rank by rank, from the definition
  for (std::size_t node = 0; node < sizes.size(); ++node) {
    RC_ASSERT(nodes[to_id<node_id>(node)] == sizes[node]);
    RC_ASSERT(nodes.first(to_id<node_id>(node)) == to_id<rank_id>(rank));
    for (std::uint32_t gpu = 0; gpu < sizes[node]; ++gpu) {
      RC_ASSERT(nodes.node_of(to_id<rank_id>(rank)) == to_id<node_id>(node));
      ++rank;
    }
  }
  RC_ASSERT(nodes.gpus() == rank);
  RC_ASSERT(nodes.smallest() == *std::min_element(sizes.begin(), sizes.end()));
  RC_ASSERT(nodes.largest() == *std::max_element(sizes.begin(), sizes.end()));
  RC_ASSERT(nodes.all_equal() == (nodes.smallest() == nodes.largest()));
}

TEST(NodeSizes, AreTheSameListedOrNotWhereTheyAreEqual)  // Ensures (1)
{
  EXPECT_EQ(listed({4, 4, 4}), node_sizes::equal(3, 4));
  EXPECT_NE(listed({4, 4}), node_sizes::equal(1, 8));
  EXPECT_NE(listed({4, 5}), listed({5, 4}));
  EXPECT_EQ(listed({8}), node_sizes{});
}

TEST(NodeSizes, TakeNoMemoryWhereTheyAreEqual)  // Ensures (3)
{
  auto const before = ballast_test::allocations();
  node_sizes const nodes = node_sizes::equal(1U << 20, 8);
  node_sizes const copy = nodes;
  EXPECT_EQ(copy.node_of(rank_id{8 * 77 + 3}), node_id{77});
  EXPECT_EQ(ballast_test::allocations(), before);
}

TEST(NodeSizes, HaveATextForMessages)
{
  EXPECT_EQ(node_sizes::equal(3, 8).text(), "8 GPUs");
  EXPECT_EQ(node_sizes::equal(3, 1).text(), "1 GPU");
  EXPECT_EQ(listed({8, 5, 8}).text(), "5 to 8 GPUs");
}

TEST(NodeSizesDeathTest, RefuseWhatIsNoNode)  // Expects
{
  EXPECT_DEATH((void)listed({}), "no nodes");
  EXPECT_DEATH((void)listed({0, 3}), "node 0 of a cluster has no GPUs");
  EXPECT_DEATH((void)listed({0, 0}), "2 nodes of 0 GPUs each");
  EXPECT_DEATH((void)listed({1U << 31, 1U << 31, 1}), "up to node 1 have 4294967296 GPUs");
  EXPECT_DEATH((void)node_sizes::equal(1U << 16, 1U << 16), "65536 nodes of 65536 GPUs each");
  EXPECT_DEATH((void)listed({2, 3}).node_of(rank_id{5}), "rank 5 of a cluster of 5 GPUs");
  EXPECT_DEATH((void)listed({2, 3})[node_id{2}], "node 2 of a cluster of 2");
}

TEST(Cluster, MakesOneNodeOfAJobSmallerThanANode)
{
  auto const machines = cluster_of(5, 8).value();
  EXPECT_EQ(machines.nodes, node_sizes::equal(1, 5));
}

TEST(Cluster, RefusesPartsOfNodesAndZeros)
{
  EXPECT_EQ(cluster_of(20, 8).error().code, error_code::infeasible);
  EXPECT_THAT(cluster_of(20, 8).error().message,
              testing::AllOf(testing::HasSubstr("20 GPUs do not fill nodes of 8"),
                             testing::HasSubstr("list the nodes one by one")));
  EXPECT_EQ(cluster_of(0).error().code, error_code::out_of_range);
  EXPECT_EQ(cluster_of(8, 0).error().code, error_code::out_of_range);
  EXPECT_EQ(cluster_of(std::size_t{1} << 25).error().code, error_code::out_of_range);
}

TEST(Cluster, ListsNodesOfDifferentSizes)
{
  auto const machines = cluster_of({8, 8, 8, 8, 5}).value();
  EXPECT_EQ(machines.gpus(), 37U);
  EXPECT_EQ(machines.node_of(rank_id{31}), node_id{3});
  EXPECT_EQ(machines.node_of(rank_id{32}), node_id{4});
  EXPECT_EQ(machines.node_of(rank_id{36}), node_id{4});
  EXPECT_EQ(cluster_of({8, 8, 8}), cluster_of(24));
  EXPECT_EQ(cluster_of({8}), cluster_of(8));
}

TEST(Cluster, RefusesNodesWithoutGpusAndJobsWithoutNodes)
{
  ballast_test::expect_refused(cluster_of({8, 0, 5}), error_code::out_of_range, 1,
                               "node 1 has no GPU");
  EXPECT_THAT(cluster_of(std::span<std::uint32_t const>{}).error().message,
              testing::HasSubstr("no node"));
  auto const too_many = cluster_of({1U << 24, 1, 1});
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().position, 1U);
  EXPECT_TRUE(cluster_of({(1U << 24) - 1, 1}));
}

TEST(TransferSeconds, IsThatOfTheSlowerKindOfLinks)
{
  ballast::cluster machines;
  machines.within_node_bytes_per_second = 100;
  machines.between_nodes_bytes_per_second = 10;
  EXPECT_DOUBLE_EQ(ballast::transfer_seconds(machines, 200, 5), 2);
  EXPECT_DOUBLE_EQ(ballast::transfer_seconds(machines, 200, 50), 5);
  EXPECT_DOUBLE_EQ(ballast::transfer_seconds(machines, 0, 0), 0);
}

TEST(TransferSecondsDeathTest, NeedsBandwidths)
{
  ballast::cluster machines;
  machines.between_nodes_bytes_per_second = 0;
  EXPECT_DEATH((void)ballast::transfer_seconds(machines, 1, 1), "0 between them");
}

}  // namespace
