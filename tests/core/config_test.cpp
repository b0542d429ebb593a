// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

namespace {

BALLAST_HOST_DEVICE constexpr int twice(int value)
{
  return 2 * value;
}

static_assert(twice(21) == 42, "the annotation must allow constexpr");

TEST(HostDevice, IsNothingForAHostCompiler)
{
#define TEXT_OF(...) #__VA_ARGS__
#define EXPANDED_TEXT_OF(...) TEXT_OF(__VA_ARGS__)
  EXPECT_STREQ(EXPANDED_TEXT_OF(BALLAST_HOST_DEVICE), "");
#undef EXPANDED_TEXT_OF
#undef TEXT_OF
}

}  // namespace
