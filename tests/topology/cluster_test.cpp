#include <ballast/topology/cluster.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using ballast::cluster_of;
using ballast::error_code;
using ballast::node_id;
using ballast::rank_id;

TEST(Cluster, NumbersRanksNodeByNode)
{
  auto const machines = cluster_of(24, 8);
  ASSERT_TRUE(machines);
  EXPECT_EQ(machines->nodes, 3U);
  EXPECT_EQ(machines->gpus(), 24U);
  EXPECT_EQ(machines->node_of(rank_id{0}), node_id{0});
  EXPECT_EQ(machines->node_of(rank_id{7}), node_id{0});
  EXPECT_EQ(machines->node_of(rank_id{8}), node_id{1});
  EXPECT_EQ(machines->node_of(rank_id{23}), node_id{2});
}

TEST(Cluster, MakesOneNodeOfAJobSmallerThanANode)
{
  auto const machines = cluster_of(5, 8);
  ASSERT_TRUE(machines);
  EXPECT_EQ(machines->nodes, 1U);
  EXPECT_EQ(machines->gpus_per_node, 5U);
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

TEST(ClusterDeathTest, HasNoNodeForARankBeyondTheLast)
{
  EXPECT_DEATH((void)cluster_of(8)->node_of(rank_id{8}), "gpus\\(\\)");
}

}  // namespace
