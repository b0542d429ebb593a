// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_DETAIL_SHIFT_PADDED_HPP
#define BALLAST_PARTITION_PADDED_DETAIL_SHIFT_PADDED_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/partition/padded/detail/padded_cells.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Moves single samples to other cells where all batches together then cost less and no rank has
/// more than the makespan, until none does or `looks` cells were looked at. Returns the makespan.
template <class Problem>
[[nodiscard]] cost_units save_padding(Problem const& problem, std::uint64_t looks,
                                      std::span<cell_id> owner)
{
  padded_cells<Problem> cells(problem);
  cells.assign(owner);
  cost_units const makespan = cells.makespan();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      for (std::size_t to = 0; to < problem.cells(); ++to) {
        if (looks == 0) { break; }
        --looks;
        std::size_t const from = cells.cell_of(sample);
        if (from == to) { continue; }
        auto const joined = cells.with(sample, to);
        cost_units const less = cells.growth(from, cells.without(sample));
        cost_units const more = cells.growth(to, joined);
        std::size_t const rank = to % problem.ranks;
        cost_units const load =
            cells.loads()[rank] + more + (from % problem.ranks == rank ? less : 0);
        if (less + more >= 0 || load > makespan || !cells.fits(joined)) { continue; }
        cells.move(sample, to);
        moved = true;
      }
    }
  }
  std::copy(cells.owner().begin(), cells.owner().end(), owner.begin());
  return cells.makespan();
}

/// Moves samples between cells, or swaps two, at random, so that the sum of the fourth powers of the
/// ranks' loads falls, which brings down the largest and the sum of all. A change that makes it
/// larger is kept too where it is no larger than some hundred changes before. Writes the plan with
/// the least makespan, of those that it looks at once per n changes, and returns it; `enough` ends
/// the search.
///
/// Expects     owner is a plan within the cap; order: samples of like cost, which share batches
///             best, are near each other.
/// Complexity  O(steps), and O(samples of a cell) where a longest sample leaves it.
/// Source      E. K. Burke, Y. Bykov, "The late acceptance hill-climbing heuristic", European Journal
///             of Operational Research 258(1), 2017.
template <class Problem>
[[nodiscard]] cost_units shift_padded(Problem const& problem, std::span<std::uint32_t const> order,
                                      std::uint64_t steps, cost_units enough,
                                      std::span<cell_id> owner)
{
  std::size_t const count = problem.lengths.size();
  padded_cells<Problem> cells(problem);
  cells.assign(owner);
  cost_units least = cells.makespan();
  if (count < 2 || problem.cells() < 2) { return least; }

  std::size_t const reach = std::min(count - 1, std::max<std::size_t>(count / 8, 8));

  // Loads as 22-bit fractions of the first makespan: those of at most 16 times it count.
  auto const power = [scale = static_cast<uint128>(least) + 1](cost_units load) {
    uint128 const part =
        std::min<uint128>((static_cast<uint128>(load) << 22U) / scale, uint128{1} << 26U);
    return part * part * part * part;
  };
  uint128 sum = 0;
  for (cost_units const load : cells.loads()) { sum += power(load); }
  std::vector<uint128> late(std::max<std::uint64_t>(steps / 400, 1), sum);
  random_source random(1);
  for (std::uint64_t step = 0; step < steps && least > enough; ++step) {
    if (step % count == 0 && cells.makespan() < least) {
      least = cells.makespan();
      std::copy(cells.owner().begin(), cells.owner().end(), owner.begin());
    }
    auto const place = static_cast<std::size_t>(random.below(count));
    std::size_t const away = static_cast<std::size_t>(random.below(2 * reach)) + count - reach;
    bool const swaps = random.below(2) == 0;
    std::size_t const sample = order[place];
    std::size_t const other = order[(place + away) % count];
    std::size_t const from = cells.cell_of(sample);
    std::size_t const to = cells.cell_of(other);
    if (from == to) { continue; }
    auto const left = swaps ? cells.with_instead(other, sample) : cells.without(sample);
    auto const joined = swaps ? cells.with_instead(sample, other) : cells.with(sample, to);
    if (!cells.fits(left) || !cells.fits(joined)) { continue; }
    std::size_t const rank = from % problem.ranks;
    std::size_t const others = to % problem.ranks;
    cost_units const less = cells.growth(from, left);
    cost_units const more = cells.growth(to, joined);
    cost_units const load = cells.loads()[rank];
    uint128 changed = sum - power(load);
    if (rank == others) {
      changed += power(load + less + more);
    } else {
      cost_units const their_load = cells.loads()[others];
      changed = changed - power(their_load) + power(load + less) + power(their_load + more);
    }
    uint128& before = late[step % late.size()];
    if (changed <= sum || changed <= before) {
      if (swaps) {
        cells.swap(sample, other);
      } else {
        cells.move(sample, to);
      }
      sum = changed;
    }
    before = std::min(before, sum);
  }
  if (cells.makespan() < least) {
    least = cells.makespan();
    std::copy(cells.owner().begin(), cells.owner().end(), owner.begin());
  }
  return least;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PADDED_DETAIL_SHIFT_PADDED_HPP
