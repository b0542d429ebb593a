// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast_test {

/// What a step takes with these cells: the largest sum of a rank, and the sum over slots of their
/// largest cells.
struct grid_makespans {
  ballast::tokens step = std::numeric_limits<ballast::tokens>::max();
  ballast::tokens microbatch = std::numeric_limits<ballast::tokens>::max();
};

/// Forty lines that a user writes instead of a planner, for costs that are tokens: slot after slot,
/// the height is the longest sample left or (1 + 0.005 t) x rest / (ranks x slots left), never above
/// the cap; heaviest first to the emptiest rank that stays below it; 40 values of t, and the best
/// for each makespan. Then slots, highest first, give their rows to ranks, heaviest row to the
/// emptiest rank. Infinite where no t places all.
inline grid_makespans naive_grid(std::vector<ballast::tokens> lengths, std::size_t ranks,
                                 std::size_t slots, ballast::tokens cap)
{
  using ballast::tokens;
  std::ranges::sort(lengths, std::greater{});
  grid_makespans best;
  for (int t = 0; t < 40; ++t) {
    std::vector<tokens> left = lengths;
    std::vector<std::vector<tokens>> rows(slots, std::vector<tokens>(ranks, 0));
    for (std::size_t slot = 0; slot < slots && !left.empty(); ++slot) {
      auto const rest = static_cast<double>(std::reduce(left.begin(), left.end(), tokens{0}));
      auto const mean = rest / static_cast<double>(ranks * (slots - slot));
      double const height =
          std::min(std::max(static_cast<double>(left.front()), (1 + 0.005 * t) * mean),
                   static_cast<double>(cap));
      std::vector<tokens> later;
      for (tokens const length : left) {
        auto const emptiest = std::ranges::min_element(rows[slot]);
        if (static_cast<double>(*emptiest + length) <= height) {
          *emptiest += length;
        } else {
          later.push_back(length);
        }
      }
      left = later;
    }
    if (!left.empty()) { continue; }
    std::ranges::sort(rows, std::greater{}, [](auto const& row) { return std::ranges::max(row); });
    std::vector<tokens> sums(ranks, 0);
    tokens high = 0;
    for (auto& row : rows) {
      high += std::ranges::max(row);
      std::ranges::sort(row, std::greater{});
      std::vector<std::size_t> order(ranks);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::sort(order, {}, [&](std::size_t rank) { return std::pair(sums[rank], rank); });
      for (std::size_t place = 0; place < ranks; ++place) { sums[order[place]] += row[place]; }
    }
    best.step = std::min(best.step, std::ranges::max(sums));
    best.microbatch = std::min(best.microbatch, high);
  }
  return best;
}

}  // namespace ballast_test
