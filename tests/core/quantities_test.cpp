// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

namespace {

static_assert(std::is_same_v<ballast::tokens, std::int64_t>);
static_assert(std::is_same_v<ballast::cost_units, std::int64_t>);

TEST(LongestSample, HasASquareThatFits)
{
  ballast::tokens square = 0;
  EXPECT_FALSE(__builtin_mul_overflow(ballast::longest_sample, ballast::longest_sample, &square));
  EXPECT_GT(square, 0);
}

TEST(CostOverflow, IsAboveEveryCost)
{
  EXPECT_EQ(ballast::no_cost, std::numeric_limits<ballast::cost_units>::max());
}

}  // namespace
