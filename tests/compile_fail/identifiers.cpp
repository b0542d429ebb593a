// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>

using ballast::bag_id;
using ballast::rank_id;

#if defined(ARITHMETIC)
// EXPECT: (no match for|invalid operands).*rank_id
rank_id next(rank_id rank)
{
  return rank + 1;
}
#elif defined(MIXED)
// EXPECT: (no match for|invalid operands).*rank_id.*bag_id
bool same_place(rank_id rank, bag_id bag)
{
  return rank == bag;
}
#else
rank_id next(rank_id rank)
{
  return ballast::to_id<rank_id>(ballast::to_index(rank) + 1);
}
bool same_place(rank_id rank, rank_id other)
{
  return rank == other;
}
#endif
