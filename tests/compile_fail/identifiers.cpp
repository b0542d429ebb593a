// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>

using ballast::bag_id;
using ballast::rank_id;

#if defined(ARITHMETIC)
// EXPECT: (use of deleted function|overload resolution selected deleted operator).*\+
rank_id next(rank_id rank)
{
  return rank + 1;
}
#elif defined(MIXED)
// EXPECT: (use of deleted function|overload resolution selected deleted operator).*==
bool same_place(rank_id rank, bag_id bag)
{
  return rank == bag;
}
#elif defined(INDEX_OF_ANOTHER_KIND)
// EXPECT: use of deleted|selected deleted operator
bag_id owner_of(ballast::id_vector<ballast::sample_id, bag_id> const& owners, rank_id rank)
{
  return owners[rank];
}
#else
bag_id owner_of(ballast::id_vector<ballast::sample_id, bag_id> const& owners, ballast::sample_id at)
{
  return owners[at];
}
rank_id next(rank_id rank)
{
  return ballast::to_id<rank_id>(ballast::to_index(rank) + 1);
}
bool same_place(rank_id rank, rank_id other)
{
  return rank == other;
}
#endif
