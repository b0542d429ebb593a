// EXPECT: (no match for|invalid operands).*rank_id
// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/ids.hpp>

ballast::rank_id next(ballast::rank_id rank)
{
  return rank + 1;
}
