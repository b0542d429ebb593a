// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_RISE_AND_FALL_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_RISE_AND_FALL_HPP

#include <ballast/core/ids.hpp>

#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// Writes an order that rises to the longest microbatch and falls again: of an ascending order each
/// `every`-th goes to the end, the first of them last, and the others to the beginning.
///
/// A pipeline fills with short microbatches and drains with short ones, and the more ranks it has, the
/// more of them it needs at both ends.
///
/// Expects     `ascending` and `order` are of one length and do not overlap; every > 0
inline void rise_and_fall(std::span<microbatch_id const> ascending, std::span<microbatch_id> order,
                          std::size_t every)
{
  std::size_t rising = 0;
  std::size_t falling = order.size();
  for (std::size_t each = 0; each < ascending.size(); ++each) {
    order[(each + 1) % every == 0 ? --falling : rising++] = ascending[each];
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_RISE_AND_FALL_HPP
