// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/unit_plan.hpp>

#include "../support/test.hpp"
#include "unit_steps.hpp"  // defines: ballast_test::unit_step

#include <ballast/topology/cluster.hpp>

namespace {

using ballast::placement;
using ballast::rank_id;
using ballast::tokens;
using ballast::unit_pair;
using ballast::unit_plan;
using ballast::unit_strategy;
using ballast_test::unit_step;

std::vector<unit_plan> plans_of(unit_step const& step, unit_strategy strategy)
{
  std::vector<unit_plan> plans;
  for (std::size_t rank = 0; rank < step.ranks; ++rank) {
    plans.push_back(
        plan_units(step.from, step.to, step.units(), strategy, ballast::to_id<rank_id>(rank)));
  }
  return plans;
}

std::size_t peers(ballast::route_table const& table)
{
  std::size_t count = 0;
  for (tokens const rows : table.rows()) { count += rows > 0 ? 1 : 0; }
  return count;
}

// 4 senders, 6 receivers, 12 samples of 2 tokens: two groups of 2 and 3.
TEST(UnitPlan, GathersAndScattersThroughBrokersOfEqualGroups)
{
  unit_step const step({4, 1, 1}, {6, 1, 1}, std::vector<tokens>(12, 2));
  EXPECT_EQ(step.units().brokers(unit_strategy::direct), 0U);
  EXPECT_EQ(step.units().brokers(unit_strategy::one_rank), 1U);
  EXPECT_EQ(step.units().brokers(unit_strategy::brokers), 2U);
  auto const plans = plans_of(step, unit_strategy::brokers);
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    bool const sends = rank < 4;
    bool const broker = rank == 4 || rank == 7;
    EXPECT_EQ(peers(plans[rank].gather.sent), sends ? 1U : 0U) << rank;
    EXPECT_EQ(peers(plans[rank].gather.received), broker ? 2U : 0U) << rank;
    EXPECT_EQ(peers(plans[rank].scatter.sent), broker ? 2U : 0U) << rank;
    EXPECT_EQ(peers(plans[rank].scatter.received), sends || broker ? 0U : 1U) << rank;
    EXPECT_EQ(plans[rank].rows_before(), sends ? 6 : 0);
    EXPECT_EQ(plans[rank].rows_after(), sends ? 0 : 4);
  }
  auto const one = plans_of(step, unit_strategy::one_rank);
  EXPECT_EQ(peers(one[4].gather.received), 4U);
  EXPECT_EQ(peers(one[4].scatter.sent), 5U);
  // Sender 0 has samples 0 to 2, receivers two samples each.
  auto const direct = plans_of(step, unit_strategy::direct);
  EXPECT_TRUE(direct[0].is_direct());
  EXPECT_EQ(peers(direct[0].gather.sent), 2U);
  EXPECT_EQ(direct[4].rows_after(), 4);
}

TEST(UnitPlan, NamesStrategies)
{
  std::vector<std::string> names;
  for (unit_strategy const each : ballast::unit_plan::strategies) {
    names.push_back(name_of(each));
  }
  EXPECT_THAT(names, testing::ElementsAre("direct", "one_rank", "brokers"));
}

TEST(UnitPlanDeathTest, RefusesSamplesThatGoToOthers)
{
  unit_step const step({1, 1, 1}, {2, 1, 1}, {1, 1});
  std::vector<rank_id> const one_of_them{rank_id{1}};
  EXPECT_DEATH((void)plan_units(step.from, step.to, {step.senders, one_of_them},
                                unit_strategy::one_rank, rank_id{0}),
               "sample 1 goes to rank 2, which is not among the receivers");
}

std::vector<rank_id> unit_of(std::uint32_t first, std::uint32_t size)
{
  std::vector<rank_id> ranks;
  for (std::uint32_t rank = first; rank < first + size; ++rank) { ranks.push_back(rank_id{rank}); }
  return ranks;
}

TEST(UnitPlacement, CutsUnitsIntoTheGroupsThatBothHave)
{
  auto const four = unit_of(0, 4);
  auto const six = unit_of(4, 6);
  EXPECT_EQ((unit_pair{four, six}.groups()), 2U);
  EXPECT_EQ((unit_pair{six, six}.groups()), 6U);
  EXPECT_EQ((unit_pair{unit_of(0, 1), six}.groups()), 1U);
}

// Five samples on 2 groups: 3 and 2. Then 2 + 1 and 1 + 1 on senders, one each on receivers.
TEST(UnitPlacement, GivesGroupsOfBothUnitsTheSameSamples)
{
  std::vector<tokens> const lengths{1, 2, 3, 4, 5};
  ballast::workspace memory;
  placement from;
  placement to;
  assign_unit(from, memory, lengths, unit_of(0, 4), 2, 10);
  assign_unit(to, memory, lengths, unit_of(4, 6), 2, 10);
  auto const rows = [](placement const& where) {
    std::vector<tokens> all;
    for (std::uint32_t rank = 0; rank < 10; ++rank) { all.push_back(where.rows(rank_id{rank})); }
    return all;
  };
  EXPECT_THAT(rows(from), testing::ElementsAre(3, 3, 4, 5, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows(to), testing::ElementsAre(0, 0, 0, 0, 1, 2, 3, 4, 5, 0));
}

TEST(UnitPlacement, KeepsSamplesInOrderAndGroupsTogether)
{
  ballast::workspace memory;
  for (std::uint32_t a = 1; a <= 8; ++a) {
    for (std::uint32_t b = 1; b <= 8; ++b) {
      auto const one = unit_of(0, a);
      auto const other = unit_of(a, b);
      auto const groups = unit_pair{one, other}.groups();
      for (std::size_t const samples : {0U, 1U, 5U, 24U}) {
        std::vector<tokens> const lengths(samples, 1);
        placement from;
        placement to;
        assign_unit(from, memory, lengths, one, groups, a + b);
        assign_unit(to, memory, lengths, other, groups, a + b);
        std::size_t last_sender = 0;
        std::size_t last_receiver = a;
        for (std::size_t sample = 0; sample < samples; ++sample) {
          auto const id = ballast::to_id<ballast::sample_id>(sample);
          auto const sender = to_index(from[id].front().rank);
          auto const receiver = to_index(to[id].front().rank);
          EXPECT_LE(last_sender, sender);
          EXPECT_LE(last_receiver, receiver);
          EXPECT_EQ(sender / (a / groups), (receiver - a) / (b / groups)) << "the same group";
          last_sender = sender;
          last_receiver = receiver;
        }
      }
    }
  }
}

TEST(UnitPlacementDeathTest, RefusesUnequalGroups)
{
  ballast::workspace memory;
  placement where;
  EXPECT_DEATH(assign_unit(where, memory, {}, unit_of(0, 4), 3, 4),
               "a unit of 4 ranks does not consist of 3 equal groups");
}

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
  EXPECT_EQ(cost(unit_strategy::direct), (unit_plan::cost{.messages = 4,
                                                          .messages_max = 2,
                                                          .bytes = 240,
                                                          .bytes_max = 120,
                                                          .within_node_bytes = 0,
                                                          .between_nodes_bytes = 240,
                                                          .memory_bytes = 120,
                                                          .seconds = 1 + 12}));
  // All 240 bytes come to receiver 0, which sends half of them on inside the node.
  EXPECT_EQ(cost(unit_strategy::one_rank), (unit_plan::cost{.messages = 5,
                                                            .messages_max = 4,
                                                            .bytes = 360,
                                                            .bytes_max = 240,
                                                            .within_node_bytes = 120,
                                                            .between_nodes_bytes = 240,
                                                            .memory_bytes = 240 + 120 + 240,
                                                            .seconds = 1 + 24 + 1 + 6}));
  // Two groups of two senders and one receiver: nothing is left to scatter.
  EXPECT_EQ(cost(unit_strategy::brokers), (unit_plan::cost{.messages = 4,
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
