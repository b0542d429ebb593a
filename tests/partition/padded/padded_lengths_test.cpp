// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/padded/padded_lengths.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

namespace {

using namespace ballast;

static_assert(padded_cost<std::plus<tokens>>);
static_assert(!padded_cost<std::negate<tokens>>);
static_assert(padded_lengths{7}.target == 0);

TEST(PaddedLengths, ArePaddedEachByItself)
{
  constexpr padded_lengths one{9, 2};
  constexpr padded_lengths other{4, 5};
  EXPECT_EQ(one.with(other), (padded_lengths{9, 5}));
}

}  // namespace
