// SPDX-License-Identifier: Apache-2.0
#include "../support/counted_allocations.hpp"

extern "C" std::size_t allocations_so_far()
{
  return ballast_test::allocations();
}
