// SPDX-License-Identifier: Apache-2.0
#include <ballast/by_name/detail/held_value.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

struct shape : ballast::detail::comparable_interface {};

template <class Value>
using held = ballast::detail::held_value<shape, Value>;

TEST(HeldValue, IsComparedByTypeAndValue)
{
  EXPECT_TRUE(held<int>(1).equals(held<int>(1)));
  EXPECT_FALSE(held<int>(1).equals(held<int>(2)));
  EXPECT_FALSE(held<int>(1).equals(held<long>(1)));
}

}  // namespace
