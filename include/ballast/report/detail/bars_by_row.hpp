// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_DETAIL_BARS_BY_ROW_HPP
#define BALLAST_REPORT_DETAIL_BARS_BY_ROW_HPP

#include <ballast/core/detail/counting_sort.hpp>
#include <ballast/core/detail/heap_sort.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/span_of.hpp>

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
      : first_(rows + 1, 0), numbers_(bars.size())
  {
    for (Bar const& bar : bars) { ++first_[row_of(bar) + 1]; }
    counting_sort(
        mutable_span_of(first_), bars.size(),
        [&](std::size_t number) { return row_of(bars[number]); },
        [this](std::size_t number, std::size_t place) { numbers_[place] = number; });
    for (std::size_t row = 0; row < rows; ++row) {
      auto numbers = mutable_span_of(numbers_, first_[row], first_[row + 1] - first_[row]);
      heap_sort(numbers, [&](std::size_t a, std::size_t b) {
        return precedes(bars[a].start, bars[b].start, a, b);
      });
    }
  }

  [[nodiscard]] std::span<std::size_t const> operator[](std::size_t row) const
  {
    return span_of(numbers_, first_[row], first_[row + 1] - first_[row]);
  }

 private:
  std::vector<std::size_t> first_;  // of each row and the end, in numbers_
  std::vector<std::size_t> numbers_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_REPORT_DETAIL_BARS_BY_ROW_HPP
