// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/bag_mix.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::bag_mix;
using namespace ballast::literals;

TEST(BagMix, IsASpecificationOfLargerBagsFirst)
{
  constexpr bag_mix mix{{8, 0, 2, 1}};
  static_assert(mix.gpus() == 24);
  static_assert(mix.spec() == "g8n1+g4n2+g1n8"_bags);
  static_assert(!mix.is_uniform());
  static_assert(bag_mix{{0, 0, 6, 0}}.is_uniform());
  EXPECT_EQ(bag_mix{}.gpus(), 0U);
  EXPECT_EQ(bag_mix{}.spec().bags(), 0U);
}

TEST(BagMix, IsOrderedByTheSmallerBagsFirst)  // Ensures (1)
{
  EXPECT_LT((bag_mix{{0, 4, 0, 0}}), (bag_mix{{2, 3, 0, 0}}));
  EXPECT_LT((bag_mix{{0, 0, 0, 1}}), (bag_mix{{0, 0, 2, 0}}));
}

}  // namespace
