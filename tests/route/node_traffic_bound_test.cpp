// SPDX-License-Identifier: Apache-2.0
#include "node_traffic_bound.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"
#include "node_job.hpp"

#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

namespace {

using ballast::tokens;

TEST(NodeTrafficBound, DoesNotDependOnWhichEqualBagHasWhat)  // Ensures (2)
{
  ballast::random_source random(14);
  std::vector<std::uint32_t> const nodes{2, 4, 2};
  for (int trial = 0; trial < ballast_test::trials_of(6); ++trial) {
    auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(8), 70, random);
    auto plan = job.plan;
    for (bool const received : {false, true}) {
      ballast::node_traffic const traffic{.count_received = received};
      auto const bound = [&] {
        return ballast_test::node_traffic_bound(plan, job.read, job.bags, job.machines, traffic,
                                                1 << 18);
      };
      tokens const before = bound();
      auto const placed =
          ballast::place_by_node(plan, job.read, job.bags, job.machines, traffic).value();
      EXPECT_EQ(bound(), before);
      EXPECT_LE(before, placed.largest);
    }
  }
}

TEST(NodeTrafficBound, ProvesManyNodesWithFewSamplesARankNearlyOptimal)
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
  auto plan = ballast::partition(lengths, bags, ballast::longest_processing_time{}, std::identity{})
                  .value();
  auto const read = ballast::place(lengths, source, ranks);
  // [by_node]
  auto const placed = ballast::place_by_node(plan, read, bags, machines).value();
  tokens const bound =
      ballast_test::node_traffic_bound(plan, read, bags, machines);  // off the step
  // [by_node]
  EXPECT_LE(bound, placed.largest);
  EXPECT_LE(placed.largest * 100, bound * 118);
  EXPECT_LE(placed.largest * 100, placed.largest_before * 75);
}

// Weighted sums over ranks would not fit; what nodes prove by themselves still does.
TEST(NodeTrafficBound, OfNumbersThatCannotBeWeighedIsThatOfNodes)
{
  std::vector<tokens> const lengths(8, ballast::longest_sample);
  std::vector<ballast::rank_id> const source(8, ballast::rank_id{0});
  auto const machines = ballast::cluster_of(2, 1).value();
  auto const bags = ballast::one_gpu_bags(2);
  auto const plan =
      ballast::partition(lengths, bags, ballast::longest_processing_time{}, std::identity{})
          .value();
  auto const read = ballast::place(lengths, source, 2);
  EXPECT_EQ(ballast_test::node_traffic_bound(plan, read, bags, machines),
            4 * ballast::longest_sample);
}

}  // namespace
