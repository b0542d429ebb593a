// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/grid_plan.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

namespace grid_of_options {

using namespace ballast;

TEST(GridOptions, AskForNothing)
{
  grid_options const none;
  EXPECT_FALSE(none.microbatches);
  EXPECT_EQ(none.most_weight, partition_constraints::no_limit);
  EXPECT_EQ(none.counts, cell_counts{});
  EXPECT_NE(cell_counts::equal(), cell_counts::multiple_of(1));
  EXPECT_TRUE(none.together.empty() && none.kinds.empty() && none.home.empty());
}

}  // namespace grid_of_options
