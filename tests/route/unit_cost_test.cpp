// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/unit_plan.hpp>

#include "../support/test.hpp"
#include "unit_steps.hpp"  // defines: ballast_test::{unit_step, random_unit_step}

#include <ballast/topology/cluster.hpp>

namespace {

using ballast::tokens;
using ballast::unit_cost;
using ballast::unit_strategy;
using ballast_test::unit_step;

// By hand: 4 senders on one node, 2 receivers on another one; 8 samples of 10 tokens of 3 bytes.
TEST(UnitCost, CountsMessagesBytesAndTimeOfEachStrategy)
{
  unit_step const step({4, 1, 1}, {2, 1, 1}, std::vector<tokens>(8, 10));
  auto machines = ballast::cluster_of({4, 2}).value();
  machines.latency_seconds = 1;
  machines.between_nodes_bytes_per_second = 10;
  machines.within_node_bytes_per_second = 20;
  auto const cost = [&](unit_strategy strategy) {
    return price_units(step.from, step.to, step.units(), strategy, machines, 3);
  };
  // Each sender's two samples go to one receiver, which gets 120 bytes.
  EXPECT_EQ(cost(unit_strategy::direct), (unit_cost{.messages = 4,
                                                    .messages_max = 2,
                                                    .bytes = 240,
                                                    .bytes_max = 120,
                                                    .within_node_bytes = 0,
                                                    .between_nodes_bytes = 240,
                                                    .memory_bytes = 120,
                                                    .seconds = 1 + 12}));
  // All 240 bytes come to receiver 0, which sends half of them on inside the node.
  EXPECT_EQ(cost(unit_strategy::one_rank), (unit_cost{.messages = 5,
                                                      .messages_max = 4,
                                                      .bytes = 360,
                                                      .bytes_max = 240,
                                                      .within_node_bytes = 120,
                                                      .between_nodes_bytes = 240,
                                                      .memory_bytes = 240 + 120 + 240,
                                                      .seconds = 1 + 24 + 1 + 6}));
  // Two groups of two senders and one receiver: nothing is left to scatter.
  EXPECT_EQ(cost(unit_strategy::brokers), (unit_cost{.messages = 4,
                                                     .messages_max = 2,
                                                     .bytes = 240,
                                                     .bytes_max = 120,
                                                     .within_node_bytes = 0,
                                                     .between_nodes_bytes = 240,
                                                     .memory_bytes = 240,
                                                     .seconds = 1 + 12}));
}

TEST(UnitCost, NeverSendsLessThanDirectly)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < 100; ++trial) {
    auto const step = ballast_test::random_unit_step(random, 20);
    auto const machines = ballast::cluster_of(step.ranks, 1).value();
    auto const cost = [&](unit_strategy strategy) {
      return price_units(step.from, step.to, step.units(), strategy, machines, 2);
    };
    auto const direct = cost(unit_strategy::direct);
    EXPECT_LE(direct.bytes, cost(unit_strategy::brokers).bytes);
    EXPECT_LE(cost(unit_strategy::brokers).bytes_max, cost(unit_strategy::one_rank).bytes_max);
    EXPECT_LE(direct.seconds, cost(unit_strategy::brokers).seconds);
  }
}

}  // namespace
