// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/grid_balancer.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace grid_of_step_options {

TEST(GridStepOptions, ReadNumbersAsLengths)
{
  ballast::grid_step_options<> const options;
  EXPECT_EQ(options.length_of(7), 7);
  EXPECT_EQ(options.loss_tokens_of, nullptr);
  struct document {};
  EXPECT_EQ(ballast::grid_step_options<document>{}.length_of, nullptr);
}

}  // namespace grid_of_step_options
