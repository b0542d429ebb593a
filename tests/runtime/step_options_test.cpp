// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/step_balancer.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

TEST(StepOptions, TakeANumberForItsLength)
{
  EXPECT_EQ(ballast::step_options<>{}.length_of(7), 7);
  EXPECT_EQ(ballast::step_options<std::uint16_t>{}.length_of(9), 9);
  struct document {};
  EXPECT_EQ(ballast::step_options<document>{}.length_of, nullptr);
}

}  // namespace
