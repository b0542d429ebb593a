// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/order_plan.hpp>  // first: proves it is self-contained

#include "../support/compiled_schedules.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/given_order.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/pipeline_times.hpp>

namespace {

using ballast::given_order;
using ballast::microbatch_id;
using ballast::order_plan;

TEST(OrderPlan, HasNoGapWhereThereIsNothingToDo)
{
  auto const plan = order_microbatches(ballast_test::chain_schedule(3, 0),
                                       ballast::pipeline_times(0, 3), given_order{})
                        .value();
  EXPECT_TRUE(plan.order.empty());
  EXPECT_EQ(plan.makespan, 0);
  EXPECT_EQ(plan.gap(), 0.0);
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(OrderPlan, SaysHowFarItCanBeFromTheBest)
{
  order_plan const plan{{.makespan = 5, .lower_bound = 4}, {}, 8};
  EXPECT_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
}

TEST(OrderPlan, HasADigestOfItsOrderAndMakespan)
{
  order_plan const plan{{.makespan = 5, .lower_bound = 0}, {microbatch_id{1}, microbatch_id{0}}};
  order_plan other = plan;
  other.lower_bound = 3;
  EXPECT_EQ(other.digest(), plan.digest());
  other.makespan = 6;
  EXPECT_NE(other.digest(), plan.digest());
  other = plan;
  other.order = {microbatch_id{0}, microbatch_id{1}};
  EXPECT_NE(other.digest(), plan.digest());
}

}  // namespace
