// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/plan_page_step.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

TEST(PlanPageStep, HasNoExchangeUnlessOneIsGiven)
{
  ballast::report::plan_page_step const step{.samples = 2, .length = 30};
  EXPECT_FALSE(step.exchange.has_value());
  EXPECT_FALSE(step.all_gather.has_value());
  EXPECT_EQ(step.compute_seconds, 0);
}

}  // namespace
