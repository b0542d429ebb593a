// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_MOVE_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_MOVE_HPP

#include <ballast/core/ids.hpp>
#include <ballast/pipeline/detail/orders/microbatch_kinds.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// A small change of an order: two microbatches are swapped, or one moves to another position, or a
/// block of two to five that follow each other.
struct order_move {
  std::size_t from = 0;  ///< the first of a block
  std::size_t to = 0;    ///< where the first of a block is afterwards
  bool swaps = false;
  std::size_t block = 1;

  void apply(std::span<microbatch_id> order) const
  {
    auto const at = [order](std::size_t position) {
      return order.begin() + static_cast<std::ptrdiff_t>(position);
    };
    if (swaps) {
      std::iter_swap(at(from), at(to));
    } else if (from < to) {
      std::rotate(at(from), at(from + block), at(to + block));
    } else {
      std::rotate(at(to), at(from), at(from + block));
    }
  }

  /// Whether the order is another one afterwards where microbatches of a kind are equal. O(l).
  [[nodiscard]] bool changes(std::span<microbatch_id const> order,
                             microbatch_kinds const& kinds) const
  {
    auto const kind_at = [&](std::size_t position) { return kinds.of[to_index(order[position])]; };
    if (swaps) { return kind_at(from) != kind_at(to); }
    // Rotating a range by `block`, in either direction, changes nothing if each of its kinds comes
    // again `block` positions later.
    std::size_t const low = std::min(from, to);
    std::size_t const count = std::max(from, to) + block - low;
    for (std::size_t each = 0; each < count; ++each) {
      std::size_t const next = each + block < count ? each + block : each + block - count;
      if (kind_at(low + each) != kind_at(low + next)) { return true; }
    }
    return false;
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_MOVE_HPP
