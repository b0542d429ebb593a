// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/nodes/relieve_ranks.hpp>

#include "node_job.hpp"

#include <ballast/core/workspace.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::tokens;
using ballast::detail::node_assignment;
using ballast::detail::node_volumes;
using ballast::detail::work_budget;

TEST(PlaceForWorst, PlacesEveryBatchWhereThereIsRoom)
{
  ballast::random_source random(6);
  for (auto const& nodes : {std::vector<std::uint32_t>{3, 3}, {1, 5}, {6}, {1, 1, 1, 1, 1, 1}}) {
    for (std::size_t const samples : {0U, 3U, 50U}) {
      auto const job =
          ballast_test::random_node_job(nodes, ballast::one_gpu_bags(6), samples, random);
      for (bool const received : {false, true}) {
        ballast::workspace memory;
        auto scratch = memory.open();
        node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
        node_assignment where(volumes, received, scratch);
        ballast::detail::place_for_worst(where, memory);
        for (std::size_t node = 0; node < nodes.size(); ++node) {
          EXPECT_EQ(where.batches_on(node, 0).size(), nodes[node]);
        }
        EXPECT_GE(where.largest(), 0);  // no row is retired
      }
    }
  }
}

TEST(ExchangeForWorst, StopsWhereNoExchangeLowersTheLargestRow)
{
  ballast::random_source random(7);
  std::vector<std::uint32_t> const nodes{4, 4, 4};
  for (int trial = 0; trial < 10; ++trial) {
    auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(12), 150, random);
    ballast::workspace memory;
    auto scratch = memory.open();
    node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
    node_assignment where(volumes, trial % 2 == 1, scratch);
    for (std::size_t batch = 0; batch < 12; ++batch) { where.place(batch, volumes.home_of(batch)); }
    tokens const before = where.largest();
    work_budget none(0);
    ballast::detail::exchange_for_worst(where, none);
    EXPECT_EQ(where.largest(), before);
    work_budget enough(1'000'000);
    ballast::detail::exchange_for_worst(where, enough);
    tokens const after = where.largest();
    EXPECT_LE(after, before);
    EXPECT_FALSE(enough.spent());
    for (std::size_t a = 0; a < 12; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (where.node_of(a) == where.node_of(b)) { continue; }
        where.swap(a, b);
        EXPECT_GE(where.largest(), after) << "after exchanging " << a << " and " << b;
        where.swap(a, b);
      }
    }
  }
}

TEST(ForEachNodeOf, GivesWhatEveryNodeHasOfABatch)
{
  ballast::random_source random(8);
  std::vector<std::uint32_t> const nodes{2, 3, 1};
  auto const job = ballast_test::random_node_job(nodes, ballast::one_gpu_bags(6), 40, random);
  ballast::workspace memory;
  auto scratch = memory.open();
  node_volumes const volumes(job.read, job.plan.owner, job.bags, job.machines, scratch);
  node_assignment const where(volumes, false, scratch);
  for (std::size_t batch = 0; batch < 6; ++batch) {
    tokens all = 0;
    ballast::detail::for_each_node_of(volumes, batch, [&](std::uint32_t node, tokens kept) {
      EXPECT_EQ(kept, where.kept(batch, node));
      all += kept;
    });
    EXPECT_EQ(all, volumes.received_by(batch));
  }
}

}  // namespace
