// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/node_placement.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "node_job.hpp"
#include "node_traffic_bound.hpp"

#include <ballast/route/placement.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

namespace {

using ballast::bag_id;
using ballast::bag_layout;
using ballast::node_placement;
using ballast::place_by_node;
using ballast::to_id;
using ballast::to_index;
using ballast::tokens;
using ballast_test::node_job;
using ballast_test::random_node_job;

// The owners if the samples of bag b go to bag_of[b].
std::vector<bag_id> owners_after(std::vector<bag_id> const& owner,
                                 std::vector<std::size_t> const& bag_of)
{
  std::vector<bag_id> after;
  for (bag_id const each : owner) { after.push_back(to_id<bag_id>(bag_of[to_index(each)])); }
  return after;
}

// Oracle: all orders of the bags that keep sizes, speeds and what lies across nodes.
tokens least_of_all_orders(node_job const& job, bool count_received)
{
  std::vector<std::size_t> order(job.bags.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  tokens least = job.largest(job.plan.owner, count_received);
  auto const node_of = [&](std::size_t rank) {
    return job.machines.node_of(to_id<ballast::rank_id>(rank));
  };
  auto const allowed = [&](std::size_t from, std::size_t to) {
    auto const a = job.bags[to_id<bag_id>(from)];
    auto const b = job.bags[to_id<bag_id>(to)];
    auto const across = [&](ballast::bag each) {
      return node_of(to_index(each.first)) != node_of(to_index(each.first) + each.gpus - 1);
    };
    return from == to || (a.gpus == b.gpus && !across(a) && !across(b) &&
                          job.bags.speeds()[from] == job.bags.speeds()[to]);
  };
  do {
    bool possible = true;
    for (std::size_t bag = 0; bag < order.size(); ++bag) {
      possible = possible && allowed(bag, order[bag]);
    }
    if (possible) {
      least = std::min(least, job.largest(owners_after(job.plan.owner, order), count_received));
    }
  } while (std::ranges::next_permutation(order).found);
  return least;
}

struct shape {
  std::vector<std::uint32_t> nodes;
  std::vector<std::uint32_t> bags;  // GPUs of each
};

bag_layout layout_of(shape const& each)
{
  std::vector<ballast::bag> bags;
  std::size_t first = 0;
  for (std::uint32_t const gpus : each.bags) {
    bags.push_back({to_id<ballast::rank_id>(first), gpus});
    first += gpus;
  }
  return bag_layout(bags);
}

std::vector<shape> small_shapes()
{
  return {
      {{2, 2, 2}, {1, 1, 1, 1, 1, 1}},    {{3, 1, 2}, {1, 1, 1, 1, 1, 1}},  // nodes of unequal size
      {{4, 4}, {1, 1, 2, 2, 1, 1}},                                         // bags of two sizes
      {{3, 3, 3}, {1, 1, 2, 1, 1, 2, 1}},                                   // one across two nodes
      {{2, 2, 2, 2}, {2, 2, 2, 2}},       {{6}, {1, 2, 1, 2}},  // one node: nothing crosses
      {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}};                      // nodes of one GPU
}

TEST(PlaceByNode, ReachesTheBestOrderOfBagsInSmallJobs)  // Ensures (1), largest as measured
{
  ballast::random_source random(20240607);
  std::size_t optimal = 0;
  std::size_t all = 0;
  for (shape const& each : small_shapes()) {
    int const trials = 1 + ballast_test::trials_of(7);
    for (int trial = 0; trial < trials; ++trial) {
      bool const received = trial % 2 == 1 && std::ranges::max(each.bags) == 1;
      node_job const job = random_node_job(each.nodes, layout_of(each), random.below(40), random);
      SCOPED_TRACE(testing::Message() << each.nodes.size() << " nodes, " << each.bags.size()
                                      << " bags, trial " << trial);
      auto plan = job.plan;
      ballast::node_placement::options const traffic{.count_received = received};
      auto const placed = place_by_node(plan, job.read, job.bags, job.machines, traffic).value();

      EXPECT_EQ(placed.largest_before, job.largest(job.plan.owner, received));
      EXPECT_EQ(placed.largest, job.largest(plan.owner, received));
      EXPECT_LE(placed.largest, placed.largest_before);
      tokens const least = least_of_all_orders(job, received);
      EXPECT_LE(least, placed.largest);
      for (auto const& of : {job.plan, plan}) {
        EXPECT_LE(ballast_test::node_traffic_bound(of, job.read, job.bags, job.machines, traffic,
                                                   1 << 15),
                  least);
      }
      optimal += placed.largest == least ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GE(optimal * 100, all * 95) << optimal << " of " << all;
}

TEST(PlaceByNode, PermutesBagsOfOneSizeAndSpeedAndNothingElse)
{
  ballast::random_source random(7);
  for (shape const& each : small_shapes()) {
    node_job const job = random_node_job(each.nodes, layout_of(each), 60, random);
    auto plan = job.plan;
    auto const placed = place_by_node(plan, job.read, job.bags, job.machines).value();

    std::vector<bool> taken(job.bags.size(), false);
    for (std::size_t bag = 0; bag < job.bags.size(); ++bag) {
      bag_id const to = placed.bag_of[bag];
      ASSERT_LT(to_index(to), job.bags.size());
      EXPECT_FALSE(taken[to_index(to)]);
      taken[to_index(to)] = true;
      EXPECT_EQ(job.bags[to].gpus, job.bags[to_id<bag_id>(bag)].gpus);
      EXPECT_EQ(plan.loads[to_index(to)], job.plan.loads[bag]);
      EXPECT_TRUE(std::ranges::equal(plan.samples[to], job.plan.samples[to_id<bag_id>(bag)]));
    }
    for (std::size_t sample = 0; sample < job.lengths.size(); ++sample) {
      EXPECT_EQ(plan.owner[sample], placed.bag_of[to_index(job.plan.owner[sample])]);
    }
    EXPECT_EQ(plan.makespan, job.plan.makespan);
  }
}

TEST(PlaceByNode, IsNotFarAboveTheBound)
{
  ballast::random_source random(11);
  std::vector<std::uint32_t> const nodes{4, 4, 4, 4};
  int const trials = 1 + ballast_test::trials_of(7);
  for (int trial = 0; trial < trials; ++trial) {
    node_job const job =
        random_node_job(nodes, ballast::one_gpu_bags(16), 40 + random.below(300), random);
    SCOPED_TRACE(testing::Message() << "trial " << trial << " of " << job.lengths.size());
    auto plan = job.plan;
    auto const placed = place_by_node(plan, job.read, job.bags, job.machines).value();
    tokens const bound = ballast_test::node_traffic_bound(plan, job.read, job.bags, job.machines);
    EXPECT_LE(bound, placed.largest);
    EXPECT_GE(bound * 100, placed.largest * 75);
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

TEST(PlaceByNode, IsNearTheOptimumOfNodesOfOneGpu)
{
  ballast::random_source random(13);
  constexpr std::size_t ranks = 24;
  std::vector<std::uint32_t> const nodes(ranks, 1);
  auto const bags = ballast::one_gpu_bags(ranks);
  double above = 0;
  constexpr int trials_of_ranks = ballast_test::trials_of(8);
  for (int trial = 0; trial < trials_of_ranks; ++trial) {
    node_job const job = random_node_job(nodes, bags, 200, random);
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
    above += static_cast<double>(placed.largest) / static_cast<double>(optimum) - 1;
  }
  EXPECT_LT(above / trials_of_ranks, 0.02);
}

TEST(PlaceByNode, IsNearlyOptimalOnManyNodesWithFewSamplesARank)
{
  constexpr std::size_t ranks = 256;
  ballast::random_source random(15);
  auto const lengths = ballast::draw_lengths(
      ballast::clamped_lengths{ballast::lognormal_lengths{.median = 1024, .sigma = 1.0}, 1, 16384},
      32 * ranks, random);
  std::vector<ballast::rank_id> source;
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    source.push_back(ballast::to_id<ballast::rank_id>(sample / 32));
  }
  auto const machines = ballast::cluster_of(ranks, 8).value();
  auto const bags = ballast::one_gpu_bags(ranks);
  auto plan =
      ballast::partition(lengths, bags, std::identity{}, {}, ballast::longest_processing_time{})
          .value();
  auto const read = ballast::place(lengths, source, ranks);
  auto const placed = ballast::place_by_node(plan, read, bags, machines).value();
  tokens const bound =
      ballast_test::node_traffic_bound(plan, read, bags, machines);  // off the step
  EXPECT_LE(bound, placed.largest);
  EXPECT_LE(placed.largest * 100, bound * 118);
  EXPECT_LE(placed.largest * 100, placed.largest_before * 75);
}

TEST(PlaceByNode, CountsWhatMovedAgainWhereAPlanSaysIt)
{
  std::vector<tokens> const lengths{100, 10, 20, 100};
  std::vector<ballast::rank_id> const source{ballast::rank_id{0}, ballast::rank_id{1},
                                             ballast::rank_id{2}, ballast::rank_id{3}};
  node_job job{.machines = ballast::cluster_of(4, 2).value(), .bags = ballast::one_gpu_bags(4)};
  job.lengths = lengths;
  ballast::place(job.read, lengths, source, 4);
  job.plan =
      ballast::partition(lengths, job.bags, std::identity{}, {}, ballast::longest_processing_time{})
          .value();
  job.plan.moved = {1, 2};  // as with homes
  ASSERT_EQ(job.plan.owner, (std::vector{bag_id{0}, bag_id{3}, bag_id{2}, bag_id{1}}));
  auto const placed = place_by_node(job.plan, job.read, job.bags, job.machines).value();
  EXPECT_EQ(placed.largest_before, 100);
  EXPECT_EQ(placed.largest, 0);
  EXPECT_EQ(job.plan.owner, (std::vector{bag_id{0}, bag_id{1}, bag_id{2}, bag_id{3}}));
  EXPECT_EQ(job.plan.moved, (ballast::ratio{0, 1}));
}

TEST(PlaceByNode, RefusesAPlanOfOtherBagsOrSamples)  // Errors
{
  ballast::random_source random(3);
  std::vector<std::uint32_t> const nodes{2, 2};
  node_job job = random_node_job(nodes, ballast::one_gpu_bags(4), 9, random);
  auto const before = job.plan.owner;
  auto const other_bags = layout_of({{2, 2}, {2, 2}});
  auto const refused = place_by_node(job.plan, job.read, other_bags, job.machines);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::mismatch);
  EXPECT_EQ(refused.error().message,
            "the plan is for other bags than these; give the bags that it was made for");

  auto const fewer =
      ballast::place(std::span(job.lengths).first(8), std::span(job.source).first(8), 4);
  auto const short_of_one = place_by_node(job.plan, fewer, job.bags, job.machines);
  ASSERT_FALSE(short_of_one);
  EXPECT_EQ(short_of_one.error().message,
            "the plan is for 9 samples, not for 8; give the placement of those that were planned");
  EXPECT_EQ(job.plan.owner, before);
}

TEST(PlaceByNode, AllocatesNothingInTheSteadyState)  // Ensures (2)
{
  ballast::random_source random(5);
  std::vector<std::uint32_t> const nodes{5, 3};
  node_job const job = random_node_job(nodes, ballast::one_gpu_bags(8), 200, random);
  node_placement placed;
  ballast::workspace memory;
  auto plan = job.plan;
  auto const step = [&] {
    std::ranges::copy(job.plan.owner, plan.owner.begin());
    return ballast::place_by_node(placed, memory, plan, job.read, job.bags, job.machines)
        .has_value();
  };
  ASSERT_TRUE(step());
  auto const before = ballast_test::allocations();
  ASSERT_TRUE(step());
  EXPECT_EQ(ballast_test::allocations(), before);
}

}  // namespace
