// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/divided_up.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

using ballast::detail::divided_up;

TEST(DividedUp, RoundsUp)
{
  static_assert(divided_up(7, 2) == 4 && divided_up(8, 2) == 4 && divided_up(0, 5) == 0);
  EXPECT_TRUE(divided_up(~ballast::uint128{0}, 2) == ballast::uint128{1} << 127);
}

}  // namespace
