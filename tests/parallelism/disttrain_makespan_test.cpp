// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/layout_problem.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::disttrain_makespan;
using ballast::unit_time;

TEST(DistTrainMakespan, FillsEveryUnitAndGoesAtTheSlowestOnesPace)  // Ensures (1)
{
  std::array<unit_time, 3> const units{{{5, 5}, {7, 28}, {6, 12}}};
  EXPECT_EQ(disttrain_makespan(units, 1), 45);
  EXPECT_EQ(disttrain_makespan(units, 11), 115);
  EXPECT_EQ(disttrain_makespan({}, 3), 0);
}

TEST(DistTrainMakespan, SaysWhereItDoesNotFit)
{
  std::array<unit_time, 1> const most{{{ballast::no_cost / 2, ballast::no_cost / 2}}};
  EXPECT_EQ(disttrain_makespan(most, 2), ballast::no_cost - 1);
  EXPECT_EQ(disttrain_makespan(most, 3), ballast::no_cost);
}

}  // namespace
