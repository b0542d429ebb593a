// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_MOVE_HPP
#define BALLAST_PIPELINE_DETAIL_ORDERS_ORDER_MOVE_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/pipeline/detail/orders/microbatch_kinds.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// A small change of an order: two microbatches are swapped, or one moves to another position, or a
/// block of two to five that follow each other.
struct order_move {
  std::size_t from = 0;  ///< the first of a block
  std::size_t to = 0;    ///< where the first of a block is afterwards
  bool swaps = false;
  std::size_t block = 1;

  /// Expects at least two microbatches. Of twenty moves nine swap, nine move one microbatch and two
  /// a block. A quarter goes to a near position, since what a microbatch waits for in a pipeline
  /// are its neighbours.
  [[nodiscard]] static order_move draw(random_source& random, std::size_t microbatches)
  {
    constexpr std::uint64_t near = 8;
    constexpr std::uint64_t longest_block = 5;
    // One random word is enough: a number below `bound` is the whole part of bound x word / 2^64,
    // and the fraction gives the next number.
    std::uint64_t word = random();
    auto const below = [&word](std::uint64_t bound) {
      auto const product = static_cast<uint128>(word) * bound;
      word = static_cast<std::uint64_t>(product);
      return static_cast<std::uint64_t>(product >> 64);
    };
    std::uint64_t const kind = below(20);
    std::uint64_t const block =
        kind < 18 || microbatches == 2
            ? 1
            : 2 + below(std::min<std::uint64_t>(longest_block, microbatches - 1) - 1);
    std::uint64_t const farthest = microbatches - block;
    std::uint64_t const distance = 1 + below(below(4) == 0 ? std::min(near, farthest) : farthest);
    auto const low = static_cast<std::size_t>(below(farthest + 1 - distance));
    auto const high = low + static_cast<std::size_t>(distance);
    bool const upwards = below(2) == 0;
    return {upwards ? low : high, upwards ? high : low, kind < 9, static_cast<std::size_t>(block)};
  }

  /// The same for microbatches of which some are equal: a swap goes to the next position with
  /// another kind, the first following the last, and a move that changes nothing is drawn again, up
  /// to seven times. Expects two kinds or more.
  [[nodiscard]] static order_move draw(random_source& random, std::span<microbatch_id const> order,
                                       microbatch_kinds const& kinds)
  {
    auto const kind_at = [&](std::size_t position) { return kinds.of[to_index(order[position])]; };
    order_move move = draw(random, order.size());
    for (int again = 0; again < 7 && !move.swaps && !move.changes(order, kinds); ++again) {
      move = draw(random, order.size());
    }
    while (move.swaps && kind_at(move.from) == kind_at(move.to)) {
      move.to = move.to + 1 == order.size() ? 0 : move.to + 1;
    }
    return move;
  }

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
