// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_FILL_VECTORS_BY_DENSITY_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_FILL_VECTORS_BY_DENSITY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>
#include <ballast/partition/detail/vectors/weights_alone.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Which bin gets the samples of most work per weight: the one that can still do most work per
/// weight that it can still hold, or the one that is fastest for what it holds, as long as it has
/// time.
enum class dense_choice : std::uint8_t { slack, speed };

/// Makes a plan from nothing in which slow bins hold much that is little work: samples of most work
/// per weight first, each to the bin of this choice. By slack it is `fill_by_density` in several
/// dimensions: a bin can do what it can in the fullest of them. By speed, slow bins get nothing but
/// what fast ones cannot hold, which is best where fast bins then have time left.
///
/// Where bins hold the same but are not equally fast, or cost grows faster than weight, this is
/// what exchanges do not find: a slow bin would have to give one long sample for many short ones.
///
/// Shapes      work[n]: what counts as the work of each sample; starts[m]: what bins have at the
///             start, loads[m], owner[n].
/// Expects     a problem with capacities; `finish` is when bins should be done.
/// In, out     where a sample finds no room, it and those after it have no bin.
/// Ensures     (1) no bin gets above its capacity, and equal bins are taken by number
///             (2) it returns whether all samples found room
/// Complexity  O(n log n + D n m)
template <std::size_t D>
bool fill_vectors_by_density(cost_vector_problem<D> const& problem,
                             std::span<cost_units const> work, dense_choice choice, ratio finish,
                             std::span<cost_vector<D> const> starts,
                             std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                             workspace& memory)
{
  std::size_t const bins = loads.size();
  auto scratch = memory.open();
  std::copy(starts.begin(), starts.end(), loads.begin());
  std::fill(owner.begin(), owner.end(), to_id<bag_id>(bins));
  partition_problem alone = weights_alone(problem, bins, scratch);
  alone.costs = work;
  cheapest_cover const cover(alone, scratch);
  std::span<cost_units> const limits = scratch.take<cost_units>(bins);
  std::span<cost_units> const left = scratch.take<cost_units>(bins);  // in the fullest dimension
  std::span<std::int64_t> const room = scratch.take<std::int64_t>(bins);
  std::copy(problem.capacities.begin(), problem.capacities.end(), room.begin());
  auto const add = [&](std::size_t sample, std::size_t bin) {
    owner[sample] = to_id<bag_id>(bin);
    for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += problem.costs[sample][d]; }
    left[bin] = limits[bin] - *std::max_element(loads[bin].begin(), loads[bin].end());
    room[bin] -= problem.weights[sample];
  };
  for (std::size_t bin = 0; bin < bins; ++bin) {
    limits[bin] = work_until(finish, problem.speed(bin));
    left[bin] = limits[bin] - *std::max_element(loads[bin].begin(), loads[bin].end());
  }

  earliest_vectors<D> open(problem, loads, scratch);
  auto const place_earliest = [&](std::size_t sample) {
    std::size_t const bin = open.earliest(sample);
    if (bin == bins) { return false; }
    open.add(sample, bin);
    add(sample, bin);
    return true;
  };
  auto const is_in_time = [&](std::size_t sample, std::size_t bin) {
    for (std::size_t d = 0; d < D; ++d) {
      if (loads[bin][d] + problem.costs[sample][d] > limits[bin]) { return false; }
    }
    return true;
  };
  auto const keeps_pace = [&](std::size_t a, std::size_t b) {  // the speed of a, the capacity of b
    return choice == dense_choice::slack
               ? uint128{0}
               : uint128{problem.speed(a)} * static_cast<std::uint64_t>(problem.capacities[b]);
  };
  auto const rooms = [&](std::size_t a, std::size_t b) {  // the work of a, the weight of b
    return uint128{static_cast<std::uint64_t>(left[a])} * static_cast<std::uint64_t>(room[b]);
  };
  for (std::size_t place = cover.order().size(); place-- > 0;) {
    std::size_t const sample = cover.order()[place];
    std::size_t best = bins;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      if (room[bin] < problem.weights[sample] || !is_in_time(sample, bin)) { continue; }
      if (best < bins && !precedes(keeps_pace(best, bin), keeps_pace(bin, best), rooms(best, bin),
                                   rooms(bin, best))) {
        continue;
      }
      if (problem.fits(sample, bin)) { best = bin; }
    }
    if (best < bins) {
      open.add(sample, best);
      add(sample, best);
    } else if (!place_earliest(sample)) {
      return false;
    }
  }
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    if (problem.weights[sample] == 0 && !place_earliest(sample)) { return false; }
  }
  return true;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_FILL_VECTORS_BY_DENSITY_HPP
