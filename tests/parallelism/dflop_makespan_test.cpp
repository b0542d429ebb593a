// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/layout_problem.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::dflop_makespan;

static_assert(dflop_makespan(1, 1, 7) == 7);  // Ensures (1)
static_assert(dflop_makespan(6, 3, 10) == 80);

TEST(DflopMakespan, SaysWhereItDoesNotFit)
{
  EXPECT_EQ(dflop_makespan(2, 1, ballast::no_cost / 2), ballast::no_cost - 1);
  EXPECT_EQ(dflop_makespan(2, 2, ballast::no_cost / 2), ballast::no_cost);
}

}  // namespace
