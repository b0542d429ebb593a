// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_REFINE_VECTORS_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_REFINE_VECTORS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/cost_vector_lower_bound.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/vectors/enumerate_vectors.hpp>
#include <ballast/partition/detail/vectors/fill_vectors_by_density.hpp>
#include <ballast/partition/detail/vectors/least_finish.hpp>
#include <ballast/partition/detail/vectors/place_vectors_within_capacity.hpp>
#include <ballast/partition/detail/vectors/vector_rooms.hpp>
#include <ballast/partition/detail/vectors/vector_search.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Exchanges samples, as `vector_search` does, with work_per_sample pairs to look at per sample and
/// as if there were 100 samples more; from random exchanges on as well, unless told not to.
template <std::size_t D>
void search_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
                    std::span<bag_id> owner, std::uint64_t work_per_sample, workspace& memory,
                    bool random = true, settled_loads<D> const& settled = {})
{
  auto scratch = memory.open();
  ratio const target = least_finish<D>(problem, sum_of<D>(loads), loads.size());
  work_budget work(work_per_sample * (owner.size() + 100));
  vector_search<D>(problem, loads, owner, work, scratch, memory, settled).run(target, random);
}

/// Searches also from plans in which slow bins hold what is little work for its weight, and keeps
/// the best plan. That work is what a sample costs in one dimension, and a little of what it costs
/// in others: without that the slow bins would get what is heavy there. Where that ends far from
/// the bound, work may not follow from weight at all: at last it begins with the plan that is made
/// by weight alone, with as much work as all these starts had.
template <std::size_t D>
void try_dense_starts(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                      std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                      std::uint64_t work_per_sample, workspace& memory)
{
  ratio const bound = cost_vector_lower_bound<D>(problem, loads.size(), memory, starts);
  auto const is_near = [&](int part) {  // of the bound, as a power of 2: no further above it
    ratio const finish = finish_of<D>(problem, loads);
    return finish <=
           ratio{bound.numerator + std::min(bound.numerator >> part, no_cost - bound.numerator),
                 bound.denominator};
  };
  auto scratch = memory.open();
  std::span<cost_units> const work = scratch.take<cost_units>(owner.size());
  std::span<cost_vector<D>> const other_loads = scratch.take<cost_vector<D>>(loads.size());
  std::span<bag_id> const other_owner = scratch.take<bag_id>(owner.size());
  std::span<priced_sample> const by_weight = scratch.take<priced_sample>(owner.size());
  auto const search_on = [&](std::uint64_t work_of_each) {
    search_vectors<D>(problem, other_loads, other_owner, work_of_each, memory);
    if (finish_of<D>(problem, other_loads) < finish_of<D>(problem, loads)) {
      std::copy(other_loads.begin(), other_loads.end(), loads.begin());
      std::copy(other_owner.begin(), other_owner.end(), owner.begin());
    }
  };
  for (std::size_t start = 0; start < 4 * D && !is_near(11); ++start) {
    std::size_t const dimension = start / 4;
    int const others = start % 2 == 0 ? 4 : 3;  // as a power of 2: what other dimensions count
    auto const choice = start % 4 < 2 ? dense_choice::speed : dense_choice::slack;
    std::transform(problem.costs.begin(), problem.costs.end(), work.begin(),
                   [dimension, others](cost_vector<D> const& cost) {
                     cost_units sum = cost[dimension] / 2;  // so that the sums below fit
                     for (std::size_t d = 0; d < D; ++d) {
                       if (d != dimension) { sum += cost[d] / cost_units{2 * D} >> others; }
                     }
                     return sum;
                   });
    if (fill_vectors_by_density<D>(problem, work, choice, bound, starts, other_loads, other_owner,
                                   memory)) {
      search_on(work_per_sample);
    }
  }
  if (is_near(4)) { return; }
  descending_order_into(by_weight, problem.weights, memory);
  if (fill_vectors_by_weight<D>(problem, starts, by_weight, other_loads, other_owner, memory)) {
    search_on(4 * D * work_per_sample);
  }
}

/// Improves a plan by several quantities until its last bag finishes at the mean or the work is
/// spent. Returns a time before which no plan finishes, or 0 where it has proven none.
///
/// Where the plan overruns capacities, or leaves samples without a bag, the search begins with one
/// that does not: `place_vectors_within_capacity`. Where capacities leave what it finds more than
/// 1/2048 above the bound, it begins anew up to 4 D times, with plans in which slow bags hold what
/// is little work for its weight: `fill_vectors_by_density`; 1/16 above it, also with one that is
/// made by weight alone. With few samples it tries all plans at last, until it has looked at 256
/// work_per_sample bags: `enumerate_vectors`.
///
/// Shapes      starts[m]: what bags have at the start; loads[m], owner[n].
/// Ensures     (1) those of `refine` for several quantities
template <std::size_t D>
ratio refine_vectors(cost_vector_problem<D> const& problem, std::span<cost_vector<D> const> starts,
                     std::span<cost_vector<D>> loads, std::span<bag_id> owner,
                     std::uint64_t work_per_sample, workspace& memory)
{
  constexpr std::size_t few = 16;
  if (!problem.capacities.empty() && !keeps_to_capacities<D>(problem, owner, memory) &&
      !place_vectors_within_capacity<D>(problem, starts, loads, owner, memory)) {
    return {};
  }
  if (work_per_sample == 0) { return {}; }
  search_vectors<D>(problem, loads, owner, work_per_sample, memory);
  if (!problem.capacities.empty()) {
    try_dense_starts<D>(problem, starts, loads, owner, work_per_sample, memory);
  }
  if (owner.empty() || owner.size() > few) { return {}; }
  return enumerate_vectors<D>(problem, starts, loads, owner, 256 * work_per_sample, memory);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_REFINE_VECTORS_HPP
