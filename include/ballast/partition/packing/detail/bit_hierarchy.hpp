// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_BIT_HIERARCHY_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_BIT_HIERARCHY_HPP

#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// A set of small numbers that knows its next member: a bit for each number, a bit above that for
/// each word of 64 that is not zero, and so on up to one word.
///
/// Expects     numbers below `size`, which is at most 2^24: four levels.
/// Complexity  O(log_64 size), at most four words, for all but the constructor, which clears size /
///             8 bytes.
class bit_hierarchy {
 public:
  static constexpr std::size_t none = ~std::size_t{0};

  bit_hierarchy(std::size_t size, workspace::frame& scratch)
  {
    do {
      size = (size + 63) / 64;
      auto const level = scratch.take<std::uint64_t>(size);
      std::fill(level.begin(), level.end(), 0);
      levels_[height_++] = level;
    } while (size > 1);
  }

  [[nodiscard]] bool contains(std::size_t number) const noexcept
  {
    return (levels_[0][number / 64] >> (number % 64) & 1) != 0;
  }

  void insert(std::size_t number) noexcept
  {
    for (std::size_t level = 0; level < height_; ++level, number /= 64) {
      std::uint64_t& word = levels_[level][number / 64];
      bool const known = word != 0;
      word |= std::uint64_t{1} << (number % 64);
      if (known) { break; }
    }
  }

  void erase(std::size_t number) noexcept
  {
    for (std::size_t level = 0; level < height_; ++level, number /= 64) {
      std::uint64_t& word = levels_[level][number / 64];
      word &= ~(std::uint64_t{1} << (number % 64));
      if (word != 0) { break; }
    }
  }

  /// The least member that is not below `number`, or none: up to a word with a member further on,
  /// then down along the first members.
  [[nodiscard]] std::size_t first_from(std::size_t number) const noexcept
  {
    for (std::size_t level = 0; level < height_; ++level) {
      if (number / 64 >= levels_[level].size()) { break; }
      std::uint64_t const further =
          levels_[level][number / 64] & (~std::uint64_t{0} << (number % 64));
      if (further != 0) {
        number = number / 64 * 64 + static_cast<std::size_t>(std::countr_zero(further));
        while (level-- > 0) {
          number = number * 64 + static_cast<std::size_t>(std::countr_zero(levels_[level][number]));
        }
        return number;
      }
      number = number / 64 + 1;
    }
    return none;
  }

  /// Which of the 64 numbers from `number` on are members, the first of them in the lowest bit.
  [[nodiscard]] std::uint64_t window(std::size_t number) const noexcept
  {
    std::span<std::uint64_t> const words = levels_[0];
    std::size_t const shift = number % 64;
    std::uint64_t const low = words[number / 64] >> shift;
    bool const inside = shift == 0 || number / 64 + 1 == words.size();
    return inside ? low : low | words[number / 64 + 1] << (64 - shift);
  }

 private:
  std::array<std::span<std::uint64_t>, 4> levels_;
  std::size_t height_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_BIT_HIERARCHY_HPP
