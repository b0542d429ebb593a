// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_PLACE_VECTORS_WITHIN_CAPACITY_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_PLACE_VECTORS_WITHIN_CAPACITY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/capacity/place_within_capacity.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>
#include <ballast/partition/detail/vectors/fill_vectors_evenly.hpp>
#include <ballast/partition/detail/vectors/weights_alone.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Whether every sample has a bin and no bin weighs more than its capacity.
template <std::size_t D>
[[nodiscard]] bool keeps_to_capacities(cost_vector_problem<D> const& problem,
                                       std::span<bag_id const> owner, workspace& memory)
{
  auto scratch = memory.open();
  std::span<std::int64_t> const room = scratch.take<std::int64_t>(problem.capacities.size());
  std::copy(problem.capacities.begin(), problem.capacities.end(), room.begin());
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const bin = to_index(owner[sample]);
    if (bin >= room.size() || problem.weights[sample] > room[bin]) { return false; }
    room[bin] -= problem.weights[sample];
  }
  return true;
}

/// Makes a plan from nothing, heaviest weight first, each sample in the bin with room that then
/// finishes earliest. Returns whether all samples found room.
///
/// Shapes      starts[m], loads[m], owner[n]; by_weight[n]: `descending_order_into` of the weights.
template <std::size_t D>
bool fill_vectors_by_weight(cost_vector_problem<D> const& problem,
                            std::span<cost_vector<D> const> starts,
                            std::span<priced_sample const> by_weight,
                            std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                            workspace& memory)
{
  auto scratch = memory.open();
  std::copy(starts.begin(), starts.end(), loads.begin());
  earliest_vectors<D> open(problem, loads, scratch);
  return std::all_of(by_weight.begin(), by_weight.end(), [&](priced_sample each) {
    std::size_t const sample = to_index(each.sample);
    std::size_t const bin = open.earliest(sample);
    if (bin == loads.size()) { return false; }
    open.add(sample, bin);
    owner[sample] = to_id<bag_id>(bin);
    for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += problem.costs[sample][d]; }
    return true;
  });
}

/// Makes a plan from nothing that keeps to the capacities: with work and weight even, by weight to
/// the bin that finishes earliest, by weight to the fullest bin with room, and at last by a search
/// of all fillings. Returns whether it did.
///
/// Shapes      starts[m]: what bins have at the start, loads[m], owner[n].
/// Expects     a problem with capacities.
/// In, out     where it found no plan, samples without room have no bin.
/// Ensures     (1) no bin is above its capacity, and loads and owners belong together
///             (2) where a plan exists and the search ends within its 300,000 steps, it finds one
/// Complexity  O(D n m + n log n) and the steps of the search
template <std::size_t D>
bool place_vectors_within_capacity(cost_vector_problem<D> const& problem,
                                   std::span<cost_vector<D> const> starts,
                                   std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                                   workspace& memory)
{
  if (fill_vectors_evenly<D>(problem, starts, loads, owner, memory)) { return true; }

  std::size_t const bins = loads.size();
  auto scratch = memory.open();
  auto const add = [&](std::size_t sample, std::size_t bin) {
    owner[sample] = to_id<bag_id>(bin);
    for (std::size_t d = 0; d < D; ++d) { loads[bin][d] += problem.costs[sample][d]; }
  };
  std::span<priced_sample> const by_weight = scratch.take<priced_sample>(owner.size());
  descending_order_into(by_weight, problem.weights, memory);
  if (fill_vectors_by_weight<D>(problem, starts, by_weight, loads, owner, memory)) { return true; }

  constexpr std::uint64_t steps = 300'000;
  work_budget nodes(steps);
  partition_problem const alone = weights_alone(problem, bins, scratch);
  std::span<cost_units> const no_loads = scratch.take<cost_units>(bins);
  std::span<cost_units> const no_starts = scratch.take<cost_units>(bins);
  std::span<bag_id> const bag_of = scratch.take<bag_id>(owner.size());
  std::fill(no_loads.begin(), no_loads.end(), 0);
  std::fill(no_starts.begin(), no_starts.end(), 0);
  std::fill(bag_of.begin(), bag_of.end(), to_id<bag_id>(bins));
  bags_with_room const bags(alone, no_loads, bag_of, scratch);
  bool const found = bags.fill(by_weight, room_choice::tightest) ||
                     search_all_fillings(alone, bags, no_starts, by_weight, nodes, memory);
  std::copy(starts.begin(), starts.end(), loads.begin());
  std::fill(owner.begin(), owner.end(), to_id<bag_id>(bins));
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    if (to_index(bag_of[sample]) < bins) { add(sample, to_index(bag_of[sample])); }
  }
  return found;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_PLACE_VECTORS_WITHIN_CAPACITY_HPP
