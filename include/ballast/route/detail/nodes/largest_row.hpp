// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_NODES_LARGEST_ROW_HPP
#define BALLAST_ROUTE_DETAIL_NODES_LARGEST_ROW_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// The largest of many numbers that change one by one: a tournament.
///
/// Ensures     (1) of equal numbers the one with the lowest index is `index()`
///             (2) all are `least` until they are set
/// Complexity  construction O(n), set O(log n), all else O(1).
class largest_row {
 public:
  static constexpr tokens least = -1;

  largest_row(std::size_t rows, workspace::frame& scratch)
      : leaves_(std::bit_ceil(std::max<std::size_t>(rows, 1))),
        winners_(scratch.take<std::size_t>(2 * leaves_)),
        values_(scratch.take<tokens>(leaves_))
  {
    clear();
  }

  void clear()
  {
    std::fill(values_.begin(), values_.end(), least);
    for (std::size_t leaf = 0; leaf < leaves_; ++leaf) { winners_[leaves_ + leaf] = leaf; }
    for (std::size_t at = leaves_ - 1; at >= 1; --at) { winners_[at] = winners_[2 * at]; }
  }

  void set(std::size_t row, tokens value)
  {
    values_[row] = value;
    for (std::size_t at = (leaves_ + row) / 2; at >= 1; at /= 2) {
      std::size_t const left = winners_[2 * at];
      std::size_t const right = winners_[2 * at + 1];
      winners_[at] = values_[right] > values_[left] ? right : left;
    }
  }

  [[nodiscard]] tokens operator[](std::size_t row) const { return values_[row]; }

  [[nodiscard]] std::size_t index() const { return winners_[1]; }
  [[nodiscard]] tokens value() const { return values_[winners_[1]]; }

 private:
  std::size_t leaves_;
  std::span<std::size_t> winners_;  // of each subtree; the root is 1
  std::span<tokens> values_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_NODES_LARGEST_ROW_HPP
