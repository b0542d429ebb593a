// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/unit_plan.hpp>

#include "../support/test.hpp"
#include "unit_steps.hpp"  // defines: ballast_test::unit_step

namespace {

using ballast::rank_id;
using ballast::tokens;
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
  EXPECT_EQ(brokers_of(step.units(), unit_strategy::direct), 0U);
  EXPECT_EQ(brokers_of(step.units(), unit_strategy::one_rank), 1U);
  EXPECT_EQ(brokers_of(step.units(), unit_strategy::brokers), 2U);
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
  for (unit_strategy const each : ballast::all_unit_strategies) { names.push_back(name_of(each)); }
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

}  // namespace
