// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_DETAIL_VISIBLE_BARS_HPP
#define BALLAST_REPORT_DETAIL_VISIBLE_BARS_HPP

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// Several bars of a row that are drawn as one.
template <class Bar>
struct visible_bar {
  std::span<Bar const* const> of;  ///< at least one
  double start = 0;
  double end = 0;
};

/// Calls draw(visible_bar) for the bars of a row: each for itself, or several neighbours where these
/// are shorter than `thinnest` even together, so that a row has a bounded number of them.
///
/// Expects     bars are sorted by start.
/// Ensures     (1) every bar is in one of them, in order
///             (2) one is of several bars only if it is shorter than `thinnest`; two that follow
///                 each other reach at least that far together
/// Complexity  O(bars).
template <class Bar, class Draw>
void for_each_visible_bar(std::span<Bar const* const> bars, double thinnest, Draw const& draw)
{
  for (std::size_t first = 0; first < bars.size();) {
    double const start = bars[first]->start;
    double end = start;
    std::size_t past = first;
    for (; past < bars.size(); ++past) {
      double const next_end = bars[past]->start + bars[past]->duration;
      if (past > first && next_end - start >= thinnest) { break; }
      end = std::max(end, next_end);
    }
    draw(visible_bar<Bar>{bars.subspan(first, past - first), start, end});
    first = past;
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_REPORT_DETAIL_VISIBLE_BARS_HPP
