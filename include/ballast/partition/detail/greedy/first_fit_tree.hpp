// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_GREEDY_FIRST_FIT_TREE_HPP
#define BALLAST_PARTITION_DETAIL_GREEDY_FIRST_FIT_TREE_HPP

#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Bins in a row by the room they have left: every node of a binary tree knows the most room below
/// it, so one descent finds the first bin with enough.
///
/// Ensures     (1) first_with(weight) is the first bin whose room is at least weight, or the number
///                 of bins if no bin has that much
/// Complexity  O(bins) to fill, O(log bins) to find and to take; at most 32 bytes of scratch per
///             bin.
/// Source      D. S. Johnson, "Near-Optimal Bin Packing Algorithms", PhD thesis, MIT, 1973.
class first_fit_tree {
 public:
  first_fit_tree(std::size_t bins, workspace::frame& scratch)
      : bins_(bins),
        leaves_(std::bit_ceil(std::max<std::size_t>(bins, 1))),
        room_(scratch.take<std::int64_t>(2 * leaves_))
  {}

  /// Gives every bin the room that `room_of(bin)` returns, which is not negative.
  template <class RoomOf>
  void fill(RoomOf const& room_of)
  {
    for (std::size_t bin = 0; bin < leaves_; ++bin) {
      room_[leaves_ + bin] = bin < bins_ ? static_cast<std::int64_t>(room_of(bin)) : no_bin;
    }
    for (std::size_t node = leaves_; node-- > 1;) { room_[node] = most_below(node); }
  }

  /// Expects that weight is not negative.
  [[nodiscard]] std::size_t first_with(std::int64_t weight) const noexcept
  {
    if (room_[1] < weight) { return bins_; }
    std::size_t node = 1;
    while (node < leaves_) { node = 2 * node + (room_[2 * node] < weight ? 1 : 0); }
    return node - leaves_;
  }

  /// Takes room of a bin that has it.
  void take(std::size_t bin, std::int64_t weight) noexcept
  {
    std::size_t node = leaves_ + bin;
    room_[node] -= weight;
    while (node > 1) {
      node /= 2;
      std::int64_t const most = most_below(node);
      if (room_[node] == most) { break; }
      room_[node] = most;
    }
  }

  [[nodiscard]] std::int64_t room(std::size_t bin) const noexcept { return room_[leaves_ + bin]; }

 private:
  static constexpr std::int64_t no_bin = -1;

  [[nodiscard]] std::int64_t most_below(std::size_t node) const noexcept
  {
    return std::max(room_[2 * node], room_[2 * node + 1]);
  }

  std::size_t bins_;
  std::size_t leaves_;
  std::span<std::int64_t> room_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_GREEDY_FIRST_FIT_TREE_HPP
