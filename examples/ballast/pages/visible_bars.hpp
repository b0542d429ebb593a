// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace pages {

/// The numbers of the bars of each row of a timeline: by start, and of equal starts by number.
///
/// Expects     row_of(bar) < rows.
template <class Bar, class RowOf>
[[nodiscard]] std::vector<std::vector<std::size_t>> bars_by_row(std::vector<Bar> const& bars,
                                                                std::size_t rows, RowOf row_of)
{
  std::vector<std::vector<std::size_t>> numbers(rows);
  for (std::size_t bar = 0; bar < bars.size(); ++bar) { numbers[row_of(bars[bar])].push_back(bar); }
  for (auto& row : numbers) {
    std::ranges::sort(row, {},
                      [&bars](std::size_t bar) { return std::pair(bars[bar].start, bar); });
  }
  return numbers;
}

/// Several bars of a row that are drawn as one.
struct visible_bar {
  std::span<std::size_t const> of;  ///< their numbers, at least one
  double start = 0;
  double end = 0;
};

/// Calls draw(visible_bar) for the bars of a row, of which `row` has the numbers by start.
/// Neighbours that together are shorter than `thinnest` are drawn as one, so that the number of
/// bars that a row draws is bounded.
///
/// Ensures     (1) every bar is in exactly one visible bar, in order
///             (2) a visible bar of several bars is shorter than `thinnest`; two visible bars that
///                 follow each other are together at least that long
template <class Bar, class Draw>
void for_each_visible_bar(std::vector<Bar> const& bars, std::span<std::size_t const> row,
                          double thinnest, Draw const& draw)
{
  for (std::size_t first = 0; first < row.size();) {
    double const start = bars[row[first]].start;
    double end = start;
    std::size_t past = first;
    for (; past < row.size(); ++past) {
      double const next_end = bars[row[past]].start + bars[row[past]].duration;
      if (past > first && next_end - start >= thinnest) { break; }
      end = std::max(end, next_end);
    }
    draw(visible_bar{row.subspan(first, past - first), start, end});
    first = past;
  }
}

}  // namespace pages
