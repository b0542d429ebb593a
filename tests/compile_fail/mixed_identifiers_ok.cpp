// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/ids.hpp>

bool same_place(ballast::rank_id rank, ballast::rank_id other)
{
  return rank == other;
}
