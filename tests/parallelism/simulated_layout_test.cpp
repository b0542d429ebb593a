// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/simulate_layout.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::simulated_layout;

TEST(SimulatedLayout, IsALayoutAndATime)
{
  simulated_layout const one{{{{2, 1, 4}}, 8, 100, 0}, 120};
  simulated_layout other = one;
  EXPECT_EQ(one, other);
  other.simulated = 121;
  EXPECT_NE(one, other);
  other = one;
  other.layout.microbatches = 9;
  EXPECT_NE(one, other);
}

}  // namespace
