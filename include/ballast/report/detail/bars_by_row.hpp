// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_DETAIL_BARS_BY_ROW_HPP
#define BALLAST_REPORT_DETAIL_BARS_BY_ROW_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/jagged.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// The numbers of the bars of each row of a timeline: by start, and of equal starts by number.
///
/// Complexity  O(bars log bars + rows).
class bars_by_row {
 public:
  /// Expects     row_of(bar) < rows.
  template <class Bar, class RowOf>
  bars_by_row(std::vector<Bar> const& bars, std::size_t rows, RowOf row_of)
  {
    numbers_.fill(rows, [&](auto const& visit) {
      for (std::size_t number = 0; number < bars.size(); ++number) {
        visit(row_of(bars[number]), number);
      }
    });
    for (std::size_t row = 0; row < rows; ++row) {
      auto const numbers = numbers_.row(row);
      std::sort(numbers.begin(), numbers.end(), [&](std::size_t a, std::size_t b) {
        return precedes(bars[a].start, bars[b].start, a, b);
      });
    }
  }

  [[nodiscard]] std::span<std::size_t const> operator[](std::size_t row) const
  {
    return numbers_[row];
  }

 private:
  jagged<std::size_t, std::size_t> numbers_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_REPORT_DETAIL_BARS_BY_ROW_HPP
