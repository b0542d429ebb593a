// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_DETAIL_PLAN_VECTORS_HPP
#define BALLAST_PARTITION_VECTORS_DETAIL_PLAN_VECTORS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/capacity/out_of_capacity.hpp>
#include <ballast/partition/detail/joint_samples.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/detail/weights_alone.hpp>
#include <ballast/partition/vectors/vector_lower_bound.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// Takes the costs of one more sample. The total enters as that of the samples before it.
template <std::size_t D>
[[nodiscard]] result<void> add_costs(cost_vector<D>& total, named_sample of,
                                     cost_vector<D> const& costs)
{
  for (std::size_t d = 0; d < D; ++d) {
    of.dimension = static_cast<int>(d);
    if (auto checked = check_cost(of, costs[d], total[d]); !checked) { return checked; }
    total[d] += costs[d];
  }
  return {};
}

/// Prices the samples that read_samples reads, in D dimensions.
template <std::size_t D, class CostsOf>
struct vector_prices {
  CostsOf const& costs_of;
  std::span<cost_vector<D>> costs;
  cost_vector<D> total{};  ///< of the samples so far

  template <class Sample>
  [[nodiscard]] result<void> operator()(std::size_t at, Sample& sample,
                                        tokens length = named_sample::no_length)
  {
    costs[at] = std::invoke(costs_of, sample);
    return add_costs<D>(total, {at, length}, costs[at]);
  }
};

/// Checks what a policy did. A policy that is wrong ends the program here, since its plan would be
/// taken for a certified one. Where there are capacities, a policy may have found no room.
///
/// Errors      infeasible: a sample has no bin, or a bin is above its capacity.
template <std::size_t D>
[[nodiscard]] result<void> check_vector_policy(vector_problem<D> const& problem,
                                               planned_items const& items,
                                               std::span<bin_id const> owner,
                                               std::span<cost_vector<D> const> loads,
                                               workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_vector<D>> const recomputed = scratch.take<cost_vector<D>>(loads.size());
  std::span<std::int64_t> const held = scratch.take<std::int64_t>(problem.capacities.size());
  std::fill(recomputed.begin(), recomputed.end(), cost_vector<D>{});
  std::fill(held.begin(), held.end(), 0);
  auto const no_room = [&](std::size_t item) {
    return out_of_capacity(weights_alone(problem, loads.size(), scratch), items, item,
                           "vector_refine{}");
  };
  for (std::size_t item = 0; item < owner.size(); ++item) {
    std::size_t const bin = to_index(owner[item]);
    if (!held.empty() && bin == loads.size()) { return no_room(item); }
    BALLAST_EXPECTS(bin != loads.size(), "the policy left sample ", items.sample_of(item),
                    " without a bin");
    BALLAST_EXPECTS(bin < loads.size(), "the policy put sample ", items.sample_of(item), " in bin ",
                    bin, " of ", loads.size());
    BALLAST_EXPECTS(problem.fits(item, bin), "the policy put sample ", items.sample_of(item),
                    " of ", problem.lengths[item], " tokens in bag ", bin, " of ",
                    problem.gpus[bin], " GPUs");
    for (std::size_t d = 0; d < D; ++d) { recomputed[bin][d] += problem.costs[item][d]; }
    if (held.empty()) { continue; }
    held[bin] += problem.weights[item];
    if (held[bin] > problem.capacities[bin]) { return no_room(item); }
  }
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    for (std::size_t d = 0; d < D; ++d) {
      BALLAST_EXPECTS(loads[bin][d] == recomputed[bin][d], "the policy says that bin ", bin,
                      " has a load of ", loads[bin][d], " in dimension ", d,
                      ", and its samples make it ", recomputed[bin][d]);
    }
  }
  return {};
}

/// Runs a policy on samples, or on sets of them that stay together, each as if it were one, and
/// says the best lower bound that is known.
///
/// Shapes      own_lengths[n], or empty where samples have none or those of the problem.
/// Expects     `samples` is a valid vector_problem without weights or capacities; `weights` are
///             empty where nothing limits the bins. Constraints are checked.
/// In, out     loads[m] enters as 0, owner[n] unspecified.
/// Out         bound
/// Errors      infeasible: sample `position`, of those that stay together the first, found no bin
///             with room, or fits none together with them.
template <std::size_t D, vector_partition_policy<D> Policy>
[[nodiscard]] result<void> plan_vectors(vector_problem<D> const& samples,
                                        std::span<tokens const> own_lengths,
                                        std::span<std::int64_t const> weights,
                                        partition_constraints const& constraints,
                                        Policy const& policy, std::span<cost_vector<D>> loads,
                                        std::span<bin_id> owner, ratio& bound, workspace& memory)
{
  auto scratch = memory.open();
  vector_problem<D> problem = samples;
  problem.weights = weights;
  std::span<std::int64_t> const capacities = scratch.take<std::int64_t>(
      constraints.most_per_gpu == constraints.no_limit ? 0 : loads.size());
  for (std::size_t bin = 0; bin < capacities.size(); ++bin) {
    std::int64_t const gpus = samples.gpus.empty() ? 1 : samples.gpus[bin];
    bool const endless = constraints.most_per_gpu > std::numeric_limits<std::int64_t>::max() / gpus;
    capacities[bin] = endless ? constraints.no_limit : constraints.most_per_gpu * gpus;
  }
  problem.capacities = capacities;

  partition_problem const alone = weights_alone(problem, loads.size(), scratch);
  planned_items items{alone.costs, alone.lengths, alone.weights};
  items.joint_lengths = own_lengths;
  std::span<bin_id> item_owner = owner;
  std::span<std::uint32_t> const item_of = scratch.take<std::uint32_t>(constraints.together.size());
  if (!constraints.together.empty()) {
    items = join_samples(constraints.together, items, item_of, scratch);
    std::span<cost_vector<D>> const costs = scratch.take<cost_vector<D>>(items.costs.size());
    std::fill(costs.begin(), costs.end(), cost_vector<D>{});
    for (std::size_t sample = 0; sample < item_of.size(); ++sample) {
      for (std::size_t d = 0; d < D; ++d) { costs[item_of[sample]][d] += samples.costs[sample][d]; }
    }
    problem.costs = costs;
    problem.lengths = samples.lengths.empty() ? samples.lengths : items.lengths;
    problem.weights = items.weights;
    item_owner = scratch.take<bin_id>(costs.size());
  }
  std::fill(item_owner.begin(), item_owner.end(), to_id<bin_id>(loads.size()));
  policy(problem, loads, item_owner, memory);
  if (auto checked = check_vector_policy<D>(problem, items, item_owner, loads, memory); !checked) {
    return checked;
  }
  for (std::size_t sample = 0; sample < item_of.size(); ++sample) {
    owner[sample] = item_owner[item_of[sample]];
  }
  bound = vector_bound(problem, loads.size(), memory);
  return {};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_VECTORS_DETAIL_PLAN_VECTORS_HPP
