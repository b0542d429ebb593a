// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/nodes/node_prices.hpp>

#include "../../../support/trials.hpp"
#include "node_job.hpp"

#include <ballast/core/workspace.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/place.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::rank_id;
using ballast::tokens;
using ballast::detail::node_prices;
using ballast::detail::node_volumes;

TEST(NodePrices, AreNearAndNeverAboveWhatIsReached)
{
  ballast::random_source random(13);
  std::vector<std::uint32_t> const nodes{4, 4, 4, 4};
  int const trials = 1 + ballast_test::trials_of(11);
  for (int trial = 0; trial < trials; ++trial) {
    bool const received = trial % 2 == 1;
    auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(16), 800, random);
    ballast::workspace memory;
    auto scratch = memory.open();
    node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
    auto plan = job.plan;
    auto const placed = ballast::place_by_node(plan, job.read, job.bags, job.machines,
                                               {.count_received = received});
    tokens const few = node_prices(volumes, received, scratch).bound(10);
    tokens const many = node_prices(volumes, received, scratch).bound(300);
    EXPECT_LE(few, many);
    EXPECT_LE(many, placed->largest);
    EXPECT_GE(many * 100, placed->largest * 75);
  }
}

TEST(NodePrices, SayNothingOfNumbersThatTheyCannotWeigh)  // Ensures (2)
{
  std::vector<tokens> const lengths(4, ballast::longest_sample);
  std::vector<rank_id> const source(4, rank_id{0});
  std::vector<ballast::bag_id> const owner(4, ballast::bag_id{1});
  auto const read = ballast::place(lengths, source, 2);
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const machines = ballast::cluster_of(2, 1).value();  // outlives the volumes
  node_volumes const volumes(read, owner, ballast::one_gpu_bags(2), machines, scratch);
  EXPECT_EQ(node_prices(volumes, false, scratch).bound(10), 0);
}

}  // namespace
