// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_SETTLE_OTHERS_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_SETTLE_OTHERS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/vectors/least_finish.hpp>
#include <ballast/partition/detail/vectors/refine_vectors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// Makes small, one after the other, the largest loads of the dimensions that do not bind. The one
/// that binds, in which the plan ends last, is settled: its bins keep to when it ends. A search
/// lowers the others until the latest of these binds, which is settled too, and so on.
///
/// Shapes      starts[m]: what bags have at the start
/// Expects     a plan that keeps to its capacities.
/// Ensures     (1) the times at which dimensions finish, the latest first, do not become later in
///                 the first that changes
/// Complexity  D - 1 searches; 16 D bytes of scratch per sample and per bag.
template <std::size_t D>
void settle_others(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                   std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                   std::uint64_t work_per_sample, workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_vector<D>> const costs = scratch.take<cost_vector<D>>(owner.size());
  std::span<cost_vector<D>> const settled = scratch.take<cost_vector<D>>(owner.size());
  std::span<cost_vector<D>> const room = scratch.take<cost_vector<D>>(loads.size());
  std::copy(problem.costs.begin(), problem.costs.end(), costs.begin());
  std::fill(settled.begin(), settled.end(), cost_vector<D>{});
  std::fill(room.begin(), room.end(), cost_vector<D>{});
  cost_vector_problem<D> others = problem;
  others.costs = costs;
  for (std::size_t left = D - 1; left > 0; --left) {
    finishes<D> const latest = finishes_of<D>(problem, loads);
    auto const binding =
        static_cast<std::size_t>(std::max_element(latest.begin(), latest.end()) - latest.begin());
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      settled[sample][binding] += std::exchange(costs[sample][binding], 0);
    }
    for (std::size_t bin = 0; bin < loads.size(); ++bin) {
      cost_units const load = std::exchange(loads[bin][binding], 0);
      room[bin][binding] += work_until(latest[binding], problem.speed(bin)) - load;
    }
    search_vectors<D>(others, loads, owner, work_per_sample, memory, /*random=*/false,
                      {settled, room});
  }
  std::copy(starts.begin(), starts.end(), loads.begin());
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    for (std::size_t d = 0; d < D; ++d) {
      loads[to_index(owner[sample])][d] += problem.costs[sample][d];
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_SETTLE_OTHERS_HPP
