// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/ids.hpp>

ballast::rank_id next(ballast::rank_id rank)
{
  return ballast::to_id<ballast::rank_id>(ballast::to_index(rank) + 1);
}
