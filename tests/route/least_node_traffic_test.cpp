#include "least_node_traffic.hpp"  // defines: ballast_test::least_node_traffic
#include "../support/test.hpp"

#include "../support/trials.hpp"

#include "node_job.hpp"  // defines: ballast_test::{node_job, random_node_job}
#include "node_traffic_bound.hpp"

#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>

namespace {

using ballast::bag_id;
using ballast::tokens;
using ballast_test::least_node_traffic;
using ballast_test::node_job;

// What all ranks send to other nodes, if the samples go where `owner` says.
tokens total_between_nodes(node_job const& job, std::vector<bag_id> const& owner)
{
  auto const computed = ballast::place(job.lengths, owner, job.bags);
  tokens total = 0;
  for (auto const& each : ballast::measure_route(job.read, computed, job.machines).ranks) {
    total += each.sent.between_nodes;
  }
  return total;
}

TEST(LeastNodeTraffic, IsTheLeastOfAllOrdersOfEqualBags)
{
  ballast::random_source random(11);
  std::vector<std::uint32_t> const nodes{3, 1, 2};
  for (int trial = 0; trial < 12; ++trial) {
    node_job const job =
        ballast_test::random_node_job(nodes, ballast::one_gpu_bags(6), random.below(40), random);
    std::vector<std::size_t> order(6);
    std::iota(order.begin(), order.end(), std::size_t{0});
    tokens least = total_between_nodes(job, job.plan.owner);
    do {
      std::vector<bag_id> owner;
      for (bag_id const bag : job.plan.owner) {
        owner.push_back(ballast::to_id<bag_id>(order[to_index(bag)]));
      }
      least = std::min(least, total_between_nodes(job, owner));
    } while (std::ranges::next_permutation(order).found);
    EXPECT_EQ(least_node_traffic(job.plan, job.read, job.bags, job.machines), least)
        << "trial " << trial;
  }
}

TEST(LeastNodeTraffic, JudgesPlaceByNode)
{
  ballast::random_source random(12);
  std::vector<std::uint32_t> const nodes{8, 8, 5, 8, 3};
  auto const bags = ballast::one_gpu_bags(32);
  for (int trial = 0; trial < 6; ++trial) {
    node_job const job = ballast_test::random_node_job(nodes, bags, 400, random);
    tokens const least = least_node_traffic(job.plan, job.read, bags, job.machines);
    auto plan = job.plan;
    auto const placed = ballast::place_by_node(plan, job.read, bags, job.machines).value();
    tokens const total = total_between_nodes(job, plan.owner);
    EXPECT_LE(least, total);
    EXPECT_LE(total, total_between_nodes(job, job.plan.owner));
    EXPECT_LE((least + 31) / 32, placed.largest);
    EXPECT_LE(least, least_node_traffic(plan, job.read, bags, job.machines));  // of any order
    EXPECT_GE(least, least_node_traffic(plan, job.read, bags, job.machines));
  }
}

// Where every node has one GPU, what a rank sends depends on its own batch alone, so a matching
// says whether an order exists in which no rank sends more than `most`.
bool can_send_at_most(std::vector<std::vector<tokens>> const& sent, tokens most)
{
  std::size_t const ranks = sent.size();
  std::vector<std::size_t> rank_of(ranks, ranks);
  std::vector<bool> tried;
  auto const seat = [&](auto const& self, std::size_t rank) -> bool {
    for (std::size_t batch = 0; batch < ranks; ++batch) {
      if (tried[batch] || sent[rank][batch] > most) { continue; }
      tried[batch] = true;
      if (rank_of[batch] == ranks || self(self, rank_of[batch])) {
        rank_of[batch] = rank;
        return true;
      }
    }
    return false;
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    tried.assign(ranks, false);
    if (!seat(seat, rank)) { return false; }
  }
  return true;
}

TEST(LeastNodeTraffic, PlaceByNodeIsNearTheOptimumOfNodesOfOneGpu)
{
  ballast::random_source random(13);
  constexpr std::size_t ranks = 24;
  std::vector<std::uint32_t> const nodes(ranks, 1);
  auto const bags = ballast::one_gpu_bags(ranks);
  double above = 0;
  constexpr int trials_of_ranks = ballast_test::trials_of(8);
  for (int trial = 0; trial < trials_of_ranks; ++trial) {
    node_job const job = ballast_test::random_node_job(nodes, bags, 200, random);
    std::vector<std::vector<tokens>> sent(ranks, std::vector<tokens>(ranks, 0));
    for (std::size_t sample = 0; sample < job.lengths.size(); ++sample) {
      for (std::size_t batch = 0; batch < ranks; ++batch) {
        if (batch == to_index(job.plan.owner[sample])) { continue; }
        sent[to_index(job.source[sample])][batch] += job.lengths[sample];
      }
    }
    tokens optimum = 0;
    tokens high = std::accumulate(job.lengths.begin(), job.lengths.end(), tokens{0});
    while (optimum < high) {
      tokens const middle = optimum + (high - optimum) / 2;
      if (can_send_at_most(sent, middle)) {
        high = middle;
      } else {
        optimum = middle + 1;
      }
    }
    auto plan = job.plan;
    auto const placed = ballast::place_by_node(plan, job.read, bags, job.machines).value();
    EXPECT_LE(ballast_test::node_traffic_bound(job.plan, job.read, bags, job.machines), optimum);
    EXPECT_GE(placed.largest, optimum);
    EXPECT_LE((least_node_traffic(job.plan, job.read, bags, job.machines) + 23) / 24, optimum);
    above += static_cast<double>(placed.largest) / static_cast<double>(optimum) - 1;
  }
  EXPECT_LT(above / trials_of_ranks, 0.02);
}

}  // namespace
