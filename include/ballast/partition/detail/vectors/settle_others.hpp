// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_SETTLE_OTHERS_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_SETTLE_OTHERS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/vectors/least_finish.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The dimension that binds: in which the plan ends last; of several the first.
template <std::size_t D>
[[nodiscard]] std::size_t binding_dimension(cost_vector_problem<D> const& problem,
                                            std::span<cost_vector<D> const> loads) noexcept
{
  std::size_t binding = 0;
  ratio latest;
  for (std::size_t d = 0; d < D; ++d) {
    for (std::size_t bin = 0; bin < loads.size(); ++bin) {
      ratio const finish{loads[bin][d], problem.speed(bin)};
      if (finish > latest) {
        latest = finish;
        binding = d;
      }
    }
  }
  return binding;
}

/// Makes the largest load of the dimensions that do not bind small, where the one that binds stays
/// at or below the makespan: that one becomes a weight, and the makespan a capacity. Capacities of
/// the step's own leave no place for that, and the plan stays as it is.
///
/// Shapes      starts[m]: what bags have at the start
/// Expects     search(problem, starts, loads, owner) improves a plan that keeps to its capacities.
/// Ensures     (1) the makespan does not grow, nor does the largest load of the other dimensions
/// Complexity  the search and O(D (n + m)); 8 (D + 1) bytes of scratch per sample, twice per bag.
template <std::size_t D, class Search>
void settle_others(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                   std::span<cost_vector<D>> loads, std::span<bag_id> owner, workspace& memory,
                   Search const& search)
{
  if (D == 1 || owner.empty() || !problem.capacities.empty()) { return; }
  std::size_t const binding = binding_dimension<D>(problem, loads);
  ratio const makespan = finish_of<D>(problem, loads);
  auto scratch = memory.open();
  std::span<cost_vector<D>> const costs = scratch.take<cost_vector<D>>(owner.size());
  std::span<std::int64_t> const weights = scratch.take<std::int64_t>(owner.size());
  std::span<std::int64_t> const capacities = scratch.take<std::int64_t>(loads.size());
  std::span<cost_vector<D>> const other_starts = scratch.take<cost_vector<D>>(loads.size());
  std::copy(problem.costs.begin(), problem.costs.end(), costs.begin());
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    weights[sample] = costs[sample][binding];
    costs[sample][binding] = 0;
  }
  std::copy(starts.begin(), starts.end(), other_starts.begin());
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    capacities[bin] = work_until(makespan, problem.speed(bin)) - starts[bin][binding];
    other_starts[bin][binding] = 0;
    loads[bin][binding] = 0;
  }
  cost_vector_problem<D> others = problem;
  others.costs = costs;
  others.weights = weights;
  others.capacities = capacities;
  search(others, other_starts, loads, owner);
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    loads[bin][binding] = starts[bin][binding];
  }
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    loads[to_index(owner[sample])][binding] += weights[sample];
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_SETTLE_OTHERS_HPP
