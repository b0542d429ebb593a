// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/grid_plan.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

namespace grid_of_options {

TEST(GridOptions, AskForNothing)
{
  ballast::grid_options const none;
  EXPECT_FALSE(none.microbatches);
  EXPECT_EQ(none.most_weight, ballast::partition_constraints::no_limit);
  EXPECT_EQ(none.counts, ballast::cell_counts{});
  EXPECT_NE(ballast::cell_counts::equal(), ballast::cell_counts::multiple_of(1));
  EXPECT_TRUE(none.together.empty() && none.kinds.empty() && none.home.empty());
}

}  // namespace grid_of_options
