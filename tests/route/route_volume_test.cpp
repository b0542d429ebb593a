// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "instances.hpp"

#include <ballast/route/route_volume.hpp>

namespace {

using ballast::cluster;
using ballast::placement;
using ballast::rank_id;
using ballast::route_volume;
using ballast::sample_id;
using ballast::to_id;
using ballast::tokens;

cluster machines_of(std::uint32_t nodes, std::uint32_t gpus_per_node)
{
  return {.nodes = ballast::node_sizes::equal(nodes, gpus_per_node)};
}

// Where each token of a sample lies, one entry per token.
std::vector<std::size_t> rank_of_tokens(placement const& where, sample_id sample)
{
  std::vector<std::size_t> ranks;
  for (ballast::piece const& each : where[sample]) {
    ranks.insert(ranks.end(), static_cast<std::size_t>(each.count), ballast::to_index(each.rank));
  }
  return ranks;
}

// From the definition: token by token, and one message for every pair of ranks that a token
// connects.
route_volume token_by_token(placement const& from, placement const& to,
                            std::vector<std::uint32_t> const& gpus_of_nodes)
{
  std::vector<std::size_t> node_of;
  for (std::size_t node = 0; node < gpus_of_nodes.size(); ++node) {
    node_of.insert(node_of.end(), gpus_of_nodes[node], node);
  }
  route_volume volume;
  volume.ranks.resize(from.ranks());
  std::set<std::pair<std::size_t, std::size_t>> messages;
  for (std::size_t sample = 0; sample < from.size(); ++sample) {
    auto const sources = rank_of_tokens(from, to_id<sample_id>(sample));
    auto const targets = rank_of_tokens(to, to_id<sample_id>(sample));
    for (std::size_t token = 0; token < sources.size(); ++token) {
      std::size_t const a = sources[token];
      std::size_t const b = targets.at(token);
      if (a == b) {
        ++volume.ranks[a].kept;
      } else if (node_of.at(a) == node_of.at(b)) {
        ++volume.ranks[a].sent.within_node;
        ++volume.ranks[b].received.within_node;
      } else {
        ++volume.ranks[a].sent.between_nodes;
        ++volume.ranks[b].received.between_nodes;
      }
      if (a != b) { messages.emplace(a, b); }
    }
  }
  for (auto const& [a, b] : messages) {
    ++volume.ranks[a].sent.messages;
    ++volume.ranks[b].received.messages;
  }
  return volume;
}

placement on_ranks(std::vector<tokens> const& lengths, std::vector<std::uint32_t> const& owners,
                   std::size_t ranks)
{
  std::vector<rank_id> owner;
  for (std::uint32_t const each : owners) { owner.push_back(rank_id{each}); }
  auto const where = ballast::place(lengths, owner, ranks);
  return where;
}

// What one rank sends another receives, whichever way the route goes.
TEST(RouteVolume, IsWhatTheDefinitionCountsTokenByToken)  // Ensures (1) (2) (3)
{
  ballast::random_source random(20240607);
  route_volume volume;
  ballast::workspace memory;
  for (int trial = 0; trial < 100; ++trial) {
    // Every other cluster has nodes of one size.
    std::vector<std::uint32_t> gpus_of_nodes(1 + random.below(4));
    for (auto& gpus : gpus_of_nodes) { gpus = static_cast<std::uint32_t>(1 + random.below(4)); }
    if (trial % 2 == 0) { std::fill(gpus_of_nodes.begin(), gpus_of_nodes.end(), 3U); }
    auto const machines = ballast::cluster_of(gpus_of_nodes).value();
    auto const bags = ballast_test::random_bags(machines.gpus(), random);
    ballast_test::random_step const step(random.below(40), bags, random);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << machines.gpus() << " GPUs");

    ballast::measure_route(volume, memory, step.read, step.computed, machines);
    EXPECT_EQ(volume, token_by_token(step.read, step.computed, gpus_of_nodes));
    tokens moved = 0;
    for (auto const& each : volume.ranks) {
      EXPECT_EQ(each.sent.all(), each.sent.within_node + each.sent.between_nodes);
      moved += each.sent.all();
    }
    EXPECT_EQ(volume.moved(), moved);
    EXPECT_EQ(volume.kept(), std::reduce(step.lengths.begin(), step.lengths.end()) - moved);
    EXPECT_EQ(ballast::measure_route(step.computed, step.read, machines),
              token_by_token(step.computed, step.read, gpus_of_nodes));
  }
}

TEST(RouteVolume, SaysWhatComposingTwoRoutesSaves)
{
  // Sample 0 changes its rank twice and could once, sample 1 twice and need not, sample 2 once
  // with either.
  std::vector<tokens> const lengths{5, 3, 2};
  auto const R = on_ranks(lengths, {0, 0, 0}, 3);
  auto const E = on_ranks(lengths, {1, 1, 0}, 3);
  auto const M = on_ranks(lengths, {2, 1, 2}, 3);
  auto const machines = machines_of(1, 3);
  auto const moved = [&](auto const& a, auto const& b) {
    return ballast::measure_route(a, b, machines).moved();
  };
  tokens const saved = moved(E, R) + moved(R, M) - moved(E, M);
  EXPECT_EQ(saved, 5 + 2 * 3 + 0);
}

TEST(RouteVolume, OfNothingIsNothing)
{
  for (std::vector<tokens> const& lengths :
       {std::vector<tokens>{}, std::vector<tokens>{0, 0}, std::vector<tokens>{4, 0}}) {
    std::vector<std::uint32_t> const owners(lengths.size(), 0);
    auto const where = on_ranks(lengths, owners, 1);
    auto const volume = ballast::measure_route(where, where, machines_of(1, 1));
    EXPECT_EQ(volume.moved(), 0);
    EXPECT_EQ(volume.kept(), where.rows(rank_id{0}));
    EXPECT_EQ(volume.ranks[0].sent.messages, 0U);
  }
}

TEST(RouteVolume, AllocatesNothingInTheSteadyState)
{
  ballast::random_source random(10);
  auto const bags = ballast_test::random_bags(16, random);
  ballast_test::random_step const step(300, bags, random);
  for (cluster const& machines : {machines_of(2, 8), ballast::cluster_of({8, 5, 3}).value()}) {
    route_volume volume;
    ballast::workspace memory;
    auto const measure = [&] {
      ballast::measure_route(volume, memory, step.read, step.computed, machines);
    };
    measure();
    auto const before = ballast_test::allocations();
    measure();
    EXPECT_EQ(ballast_test::allocations(), before);
  }
}

TEST(RouteVolumeDeathTest, RefusesAnotherCluster)  // Expects
{
  auto const where = on_ranks({1}, {0}, 4);
  EXPECT_DEATH((void)ballast::measure_route(where, where, machines_of(1, 8)),
               "the cluster has 8 GPUs");
}

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
  route_volume::cost const cost = four_ranks().price(slow, 2);
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
  EXPECT_DOUBLE_EQ(four_ranks().price(slow, 2).seconds, 0.25 + 60.0 / 100);

  route_volume volume = four_ranks();
  volume.ranks[3].received.between_nodes = 20;  // arrives somewhere
  EXPECT_DOUBLE_EQ(volume.price(slow, 2).seconds, 0.25 + 40.0 / 10);

  // Sending does not wait for receiving.
  volume.ranks[3].sent.between_nodes = 20;
  EXPECT_DOUBLE_EQ(volume.price(slow, 2).seconds, 0.25 + 40.0 / 10);
  EXPECT_DOUBLE_EQ(volume.price(slow, 2).memory_bytes, 2 * (20 + 20 + 6));
}

TEST(PriceRoute, ChargesNothingForARouteThatMovesNothing)
{
  route_volume volume;
  volume.ranks.resize(4);
  route_volume::cost nothing;
  nothing.kept_share = 1;
  EXPECT_EQ(volume.price(slow, 2), nothing);
  volume.ranks[1].kept = 7;
  EXPECT_EQ(volume.price(slow, 2), nothing);
}

TEST(PriceRoute, GivesTheReverseRouteTheSameFigures)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 50; ++trial) {
    auto const bags = ballast_test::random_bags(slow.gpus(), random);
    ballast_test::random_step const step(30, bags, random);
    auto const price = [](ballast::placement const& from, ballast::placement const& to) {
      return ballast::measure_route(from, to, slow).price(slow, 6144);
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
    return ballast::measure_route(from, to, machines).price(machines, 2).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(together), 0.25 + 10.0 / 100);
  EXPECT_DOUBLE_EQ(seconds(apart), 0.25 + 10.0 / 10);
}

TEST(PriceRouteDeathTest, RefusesAnotherClusterAndBandwidthsThatAreNone)  // Expects
{
  EXPECT_DEATH((void)four_ranks().price(cluster{}, 2),
               "the route is over 4 ranks, and the cluster has .* GPUs");
  cluster broken = slow;
  broken.within_node_bytes_per_second = 0;
  EXPECT_DEATH((void)four_ranks().price(broken, 2), "moves 0 bytes/s within nodes");
}

}  // namespace
