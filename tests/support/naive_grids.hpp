// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_NAIVE_GRIDS_HPP
#define BALLAST_TESTS_SUPPORT_NAIVE_GRIDS_HPP

#include "seqlen_balancing.hpp"

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace ballast_test {

using lengths_of_cells = std::vector<std::vector<ballast::tokens>>;  // slot x ranks + rank

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

/// Samples of each rank, dealt by differencing, as many to each where that is possible.
inline lengths_of_cells dealt_evenly(std::span<ballast::tokens const> lengths, std::size_t ranks)
{
  lengths_of_cells own(ranks);
  auto const owner = seqlen_balanced_partitions(lengths, ranks, lengths.size() % ranks == 0);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    own[to_index(owner[i])].push_back(lengths[i]);
  }
  return own;
}

/// What trainers of reinforcement learning do today, with samples dealt evenly: each rank counts
/// the microbatches that first fit needs for its samples, all take the largest count, and each
/// rearranges its samples into that many sets of nearly equal sums, whose cap nobody looks at.
inline lengths_of_cells first_fit_rearranged(std::span<ballast::tokens const> lengths,
                                             std::size_t ranks, ballast::tokens cap)
{
  using ballast::tokens;
  lengths_of_cells const own = dealt_evenly(lengths, ranks);
  std::size_t count = 1;
  for (auto const& each : own) {
    std::vector<tokens> bins;
    for (tokens const length : each) {
      auto const bin = std::ranges::find_if(bins, [&](tokens sum) { return sum + length <= cap; });
      if (bin == bins.end()) {
        bins.push_back(length);
      } else {
        *bin += length;
      }
    }
    count = std::max(count, bins.size());
  }
  lengths_of_cells cells(ranks * count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto const owner = seqlen_balanced_partitions(own[rank], count, false);
    for (std::size_t i = 0; i < owner.size(); ++i) {
      cells[to_index(owner[i]) * ranks + rank].push_back(own[rank][i]);
    }
  }
  return cells;
}

/// The other way: each rank packs its samples by first fit decreasing, and where it has fewer rows
/// than the others, rows of several samples are split in two until it has as many.
inline lengths_of_cells first_fit_with_split_rows(std::span<ballast::tokens const> lengths,
                                                  std::size_t ranks, ballast::tokens cap)
{
  using ballast::tokens;
  std::vector<lengths_of_cells> rows(ranks);
  lengths_of_cells own = dealt_evenly(lengths, ranks);
  std::size_t count = 1;
  auto const sum = [](std::vector<tokens> const& row) {
    return std::reduce(row.begin(), row.end(), tokens{0});
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::ranges::sort(own[rank], std::greater{});
    for (tokens const length : own[rank]) {
      auto const row = std::ranges::find_if(
          rows[rank], [&](auto const& each) { return sum(each) + length <= cap; });
      if (row == rows[rank].end()) {
        rows[rank].push_back({length});
      } else {
        row->push_back(length);
      }
    }
    count = std::max(count, rows[rank].size());
  }
  lengths_of_cells cells(ranks * count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    while (rows[rank].size() < count) {
      auto const longest = std::ranges::max_element(
          rows[rank], {}, [](std::vector<tokens> const& row) { return row.size(); });
      if (longest == rows[rank].end() || longest->size() < 2) { break; }
      auto const half = longest->begin() + static_cast<std::ptrdiff_t>(longest->size() / 2);
      std::vector<tokens> const second(half, longest->end());
      longest->erase(half, longest->end());
      rows[rank].push_back(second);
    }
    for (std::size_t slot = 0; slot < rows[rank].size(); ++slot) {
      cells[slot * ranks + rank] = rows[rank][slot];
    }
  }
  return cells;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_NAIVE_GRIDS_HPP
