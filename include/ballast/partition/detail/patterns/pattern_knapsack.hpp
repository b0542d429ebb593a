// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_KNAPSACK_HPP
#define BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_KNAPSACK_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The sets of items that are worth most and fit a room, for every room and the first so many
/// items.
///
/// Usage       clear(), then add() the items one by one.
/// Expects     (items + 1) * (room + 1) numbers fit the table; the items are worth less than 2^31
///             together.
/// Complexity  add: O(room), in a loop without branches. 4 bytes of scratch per number of the
///             table.
/// Source      R. Bellman, "Dynamic Programming", Princeton University Press, 1957.
class pattern_knapsack {
 public:
  pattern_knapsack(std::size_t numbers, std::size_t items, workspace::frame& scratch)
      : worth_(scratch.take<std::int32_t>(numbers)), costs_(scratch.take<std::uint32_t>(items))
  {}

  [[nodiscard]] bool has_room_for(std::size_t items, cost_units room) const noexcept
  {
    return static_cast<std::size_t>(room) < worth_.size() / (items + 1);
  }

  void clear(cost_units room) noexcept
  {
    width_ = static_cast<std::size_t>(room) + 1;
    count_ = 0;
    std::fill_n(worth_.begin(), width_, 0);
  }

  /// Expects     1 <= cost <= room; worth >= 0
  void add(cost_units cost, std::int32_t worth) noexcept
  {
    auto const own = static_cast<std::size_t>(cost);
    std::int32_t const* const without = worth_.data() + count_ * width_;
    std::int32_t* const with = worth_.data() + (count_ + 1) * width_;
    std::copy_n(without, own, with);
    std::size_t const rooms = width_ - own;
    for (std::size_t left = 0; left < rooms; ++left) {
      with[left + own] = std::max(without[left + own], without[left] + worth);
    }
    costs_[count_++] = static_cast<std::uint32_t>(cost);
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }

  [[nodiscard]] std::int32_t most_worth() const noexcept
  {
    return worth_[count_ * width_ + width_ - 1];
  }

  /// Calls take(item) for the items of a best set among those that have `last` and items before it,
  /// `last` first, then downwards.
  template <class Take>
  void best_set_with(std::size_t last, Take const& take) const
  {
    take(last);
    std::size_t left = width_ - 1 - costs_[last];
    for (std::size_t item = last; item-- > 0;) {
      std::int32_t const* const without = worth_.data() + item * width_;
      if (without[left] == without[width_ + left]) { continue; }
      take(item);
      left -= costs_[item];
    }
  }

 private:
  std::span<std::int32_t> worth_;  // [items][room]
  std::span<std::uint32_t> costs_;
  std::size_t width_ = 1;
  std::size_t count_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_KNAPSACK_HPP
