#include <ballast/topology/cluster.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace {

using ballast::cluster_of;
using ballast::error_code;
using ballast::node_id;
using ballast::node_sizes;
using ballast::rank_id;

TEST(Cluster, NumbersRanksNodeByNode)
{
  auto const machines = cluster_of(24, 8).value();
  EXPECT_EQ(machines.nodes, node_sizes::equal(3, 8));
  EXPECT_EQ(machines.gpus(), 24U);
  EXPECT_EQ(machines.node_of(rank_id{0}), node_id{0});
  EXPECT_EQ(machines.node_of(rank_id{7}), node_id{0});
  EXPECT_EQ(machines.node_of(rank_id{8}), node_id{1});
  EXPECT_EQ(machines.node_of(rank_id{23}), node_id{2});
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
              testing::HasSubstr("20 GPUs do not fill nodes of 8"));
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

TEST(Cluster, SaysThatNodesMayBeListed)
{
  EXPECT_THAT(cluster_of(37).error().message,
              testing::AllOf(testing::HasSubstr("37 GPUs do not fill nodes of 8"),
                             testing::HasSubstr("list the nodes one by one")));
}

TEST(Cluster, RefusesNodesWithoutGpusAndJobsWithoutNodes)
{
  auto const empty_node = cluster_of({8, 0, 5});
  ASSERT_FALSE(empty_node);
  EXPECT_EQ(empty_node.error().code, error_code::out_of_range);
  EXPECT_EQ(empty_node.error().position, 1U);
  EXPECT_THAT(empty_node.error().message, testing::HasSubstr("node 1 has no GPU"));
  EXPECT_THAT(cluster_of(std::span<std::uint32_t const>{}).error().message,
              testing::HasSubstr("no node"));
  auto const too_many = cluster_of({1U << 24, 1, 1});
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().position, 1U);
  EXPECT_TRUE(cluster_of({(1U << 24) - 1, 1}));
}

TEST(ClusterDeathTest, HasNoNodeForARankBeyondTheLast)
{
  EXPECT_DEATH((void)cluster_of(8)->node_of(rank_id{8}), "rank 8 of a cluster of 8 GPUs");
}

}  // namespace
