// EXPECT: (no match for|invalid operands).*rank_id.*bag_id
// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/ids.hpp>

bool same_place(ballast::rank_id rank, ballast::bag_id bag)
{
  return rank == bag;
}
