// SPDX-License-Identifier: Apache-2.0
#include <boost/multiprecision/cpp_int.hpp>

#include "../support/test.hpp"

namespace {

using ballast::uint128;

static_assert(sizeof(uint128) == 16);
static_assert(static_cast<uint128>(-1) > 0, "unsigned");

RC_GTEST_PROP(Uint128, HoldsTheProductOfTwo64BitNumbers, (std::uint64_t a, std::uint64_t b))
{
  a *= 0x9e3779b97f4a7c15U;  // the generator favours small numbers
  uint128 const product = static_cast<uint128>(a) * b;
  boost::multiprecision::cpp_int const exact = boost::multiprecision::cpp_int(a) * b;
  RC_ASSERT(static_cast<std::uint64_t>(product >> 64) == static_cast<std::uint64_t>(exact >> 64));
  RC_ASSERT(static_cast<std::uint64_t>(product) ==
            static_cast<std::uint64_t>(exact & ~std::uint64_t{0}));
}

TEST(Uint128, HoldsTheGreatestProduct)
{
  auto const most = ~std::uint64_t{0};
  EXPECT_TRUE(static_cast<uint128>(most) * most == ~uint128{0} - 2 * static_cast<uint128>(most));
}

}  // namespace
