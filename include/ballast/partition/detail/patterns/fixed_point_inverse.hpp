// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PATTERNS_FIXED_POINT_INVERSE_HPP
#define BALLAST_PARTITION_DETAIL_PATTERNS_FIXED_POINT_INVERSE_HPP

#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/patterns/pattern_list.hpp>
#include <ballast/partition/detail/patterns/simplex_number.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace ballast::inline v0::detail {

/// The inverse of a square matrix whose columns are exchanged one by one.
///
/// Each exchange adds an error of 2^-28 and more where what it divides by is small, so the user
/// looks from time to time how large the errors have become, and builds the inverse anew.
///
/// Complexity  replace: O(rows^2). 8 rows^2 bytes of scratch.
class fixed_point_inverse {
 public:
  fixed_point_inverse(std::size_t most_rows, workspace::frame& scratch)
      : numbers_(scratch.take<std::int64_t>(most_rows * most_rows))
  {}

  /// Starts from the identity matrix.
  void reset(std::size_t rows) noexcept
  {
    rows_ = rows;
    std::fill_n(numbers_.begin(), rows * rows, 0);
    for (std::size_t row = 0; row < rows; ++row) {
      numbers_[row * rows + row] = simplex_number::one;
    }
    largest_ = simplex_number::one;
  }

  /// One column of the inverse.
  [[nodiscard]] std::span<std::int64_t const> column(std::size_t index) const noexcept
  {
    return numbers_.subspan(index * rows_, rows_);
  }

  void copy_row(std::size_t row, std::span<std::int64_t> into) const noexcept
  {
    for (std::size_t at = 0; at < rows_; ++at) { into[at] = numbers_[at * rows_ + row]; }
  }

  /// The inverse times a column that has these entries.
  void times(std::span<pattern_entry const> entries, std::span<std::int64_t> into) const noexcept
  {
    std::fill_n(into.begin(), rows_, 0);
    for (auto const [kind, count] : entries) {
      std::int64_t const* const from = numbers_.data() + kind * rows_;
      for (std::size_t row = 0; row < rows_; ++row) {
        into[row] += from[row] * static_cast<std::int64_t>(count);
      }
    }
  }

  /// Replaces the matrix column of one row. Returns false where numbers become too large; then the
  /// inverse is lost.
  ///
  /// Expects     step is the inverse times the new column, and step[row] is not 0
  [[nodiscard]] bool replace(std::size_t row, std::span<std::int64_t> step) noexcept
  {
    std::int64_t const by = step[row];
    std::int64_t steepest = 0;
    for (std::size_t at = 0; at < rows_; ++at) {
      steepest = std::max(steepest, std::abs(step[at]));
    }
    if (steepest >= simplex_number::limit) { return false; }
    step[row] = 0;  // for the loops, so that they leave this row as it is
    std::int64_t grown = 0;
    for (std::size_t at = 0; at < rows_; ++at) {
      std::int64_t* const to = numbers_.data() + at * rows_;
      if (to[row] == 0) { continue; }
      int128 const wide = simplex_number::quotient(to[row], by);
      if (wide >= simplex_number::limit || wide <= -simplex_number::limit) { return false; }
      auto const in_row = static_cast<std::int64_t>(wide);
      int128 const change = static_cast<int128>(std::abs(in_row)) * steepest;
      grown = std::max({grown, std::abs(in_row),
                        static_cast<std::int64_t>(change >> simplex_number::fraction_bits) + 1});
      if (change < int128{1} << 62) {
        for (std::size_t other = 0; other < rows_; ++other) {
          to[other] -=
              (in_row * step[other] + simplex_number::one / 2) >> simplex_number::fraction_bits;
        }
      } else if (grown < simplex_number::limit) {
        for (std::size_t other = 0; other < rows_; ++other) {
          to[other] -= simplex_number::product(in_row, step[other]);
        }
      } else {
        return false;
      }
      to[row] = in_row;
    }
    step[row] = by;
    return stays_small(grown);
  }

 private:
  [[nodiscard]] bool stays_small(std::int64_t grown) noexcept
  {
    largest_ += grown;
    if (largest_ < simplex_number::limit) { return true; }
    largest_ = 0;
    for (std::int64_t const number : numbers_.first(rows_ * rows_)) {
      largest_ = std::max(largest_, std::abs(number));
    }
    return largest_ < simplex_number::limit;
  }

  std::span<std::int64_t> numbers_;  // by column
  std::size_t rows_ = 0;
  std::int64_t largest_ = 0;  // no number is larger
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PATTERNS_FIXED_POINT_INVERSE_HPP
