// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>
#include <ballast/route/route_volume.hpp>

#include "../support/test.hpp"
#include "instances.hpp"

namespace {

using ballast::cluster;
using ballast::exchange_cost;
using ballast::price_route;
using ballast::route_volume;
using ballast::tokens;

// One second moves 100 bytes inside a node and 10 between nodes.
cluster const slow{.nodes = ballast::node_sizes::equal(2, 2),
                   .within_node_bytes_per_second = 100,
                   .between_nodes_bytes_per_second = 10,
                   .latency_seconds = 0.25};

route_volume four_ranks()
{
  route_volume volume;
  volume.ranks = {
      {.sent = {.within_node = 30, .between_nodes = 1, .messages = 2}, .kept = 4},
      {.received = {.within_node = 30, .between_nodes = 0, .messages = 1}, .kept = 5},
      {.sent = {.within_node = 6, .between_nodes = 0, .messages = 1}},
      {.received = {.within_node = 6, .between_nodes = 1, .messages = 2}},
  };
  return volume;
}

TEST(PriceRoute, SumsAndFindsTheBusiestRank)
{
  exchange_cost const cost = price_route(four_ranks(), slow, 2);
  EXPECT_DOUBLE_EQ(cost.kept_share, 9.0 / 46);
  EXPECT_DOUBLE_EQ(cost.messages_mean, 3.0 / 4);
  EXPECT_DOUBLE_EQ(cost.messages_max, 2);
  EXPECT_DOUBLE_EQ(cost.bytes_mean, 2 * 37 / 4.0);
  EXPECT_DOUBLE_EQ(cost.bytes_max, 2 * 31);
  EXPECT_DOUBLE_EQ(cost.within_node_bytes, 2 * 36);
  EXPECT_DOUBLE_EQ(cost.between_nodes_bytes, 2 * 1);
  EXPECT_DOUBLE_EQ(cost.memory_bytes, 2 * 31);
}

TEST(PriceRoute, PredictsTheSlowestRankDirectionAndLinkAfterOneLatency)
{
  // 60 bytes inside the node against 2 between nodes, both of rank 0, at the same time.
  EXPECT_DOUBLE_EQ(price_route(four_ranks(), slow, 2).seconds, 0.25 + 60.0 / 100);

  route_volume volume = four_ranks();
  volume.ranks[3].received.between_nodes = 20;  // arrives somewhere
  EXPECT_DOUBLE_EQ(price_route(volume, slow, 2).seconds, 0.25 + 40.0 / 10);

  // Sending does not wait for receiving.
  volume.ranks[3].sent.between_nodes = 20;
  EXPECT_DOUBLE_EQ(price_route(volume, slow, 2).seconds, 0.25 + 40.0 / 10);
  EXPECT_DOUBLE_EQ(price_route(volume, slow, 2).memory_bytes, 2 * (20 + 20 + 6));
}

TEST(PriceRoute, ChargesNothingForARouteThatMovesNothing)
{
  route_volume volume;
  volume.ranks.resize(4);
  exchange_cost nothing;
  nothing.kept_share = 1;
  EXPECT_EQ(price_route(volume, slow, 2), nothing);
  volume.ranks[1].kept = 7;
  EXPECT_EQ(price_route(volume, slow, 2), nothing);
}

TEST(PriceRoute, GivesTheReverseRouteTheSameFigures)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 50; ++trial) {
    auto const bags = ballast_test::random_bags(slow.gpus(), random);
    ballast_test::random_step const step(30, bags, random);
    auto const price = [](ballast::placement const& from, ballast::placement const& to) {
      return price_route(ballast::measure_route(from, to, slow), slow, 6144);
    };
    EXPECT_EQ(price(step.read, step.computed), price(step.computed, step.read));
  }
}

TEST(PriceRoute, ChargesALinkByTheNodesThatItJoins)
{
  // Ten bytes from rank 2 to rank 3: inside a node of four, and between nodes of three and one.
  cluster together = slow;
  together.nodes = ballast::node_sizes::equal(1, 4);
  cluster apart = slow;
  apart.nodes = ballast::cluster_of({3, 1})->nodes;
  std::array<tokens, 1> const lengths{5};
  auto const from = ballast::place(lengths, std::array{ballast::rank_id{2}}, 4);
  auto const to = ballast::place(lengths, std::array{ballast::rank_id{3}}, 4);
  auto const seconds = [&](cluster const& machines) {
    return price_route(ballast::measure_route(from, to, machines), machines, 2).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(together), 0.25 + 10.0 / 100);
  EXPECT_DOUBLE_EQ(seconds(apart), 0.25 + 10.0 / 10);
}

TEST(PriceRouteDeathTest, RefusesAnotherClusterAndBandwidthsThatAreNone)  // Expects
{
  EXPECT_DEATH((void)price_route(four_ranks(), cluster{}, 2),
               "the route is over 4 ranks, and the cluster has .* GPUs");
  cluster broken = slow;
  broken.within_node_bytes_per_second = 0;
  EXPECT_DEATH((void)price_route(four_ranks(), broken, 2), "moves 0 bytes/s within nodes");
}

}  // namespace
