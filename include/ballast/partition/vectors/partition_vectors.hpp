// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_PARTITION_VECTORS_HPP
#define BALLAST_PARTITION_VECTORS_PARTITION_VECTORS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/vectors/concepts.hpp>
#include <ballast/partition/vectors/vector_lower_bound.hpp>
#include <ballast/partition/vectors/vector_plan.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <ranges>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ballast::inline v0 {

namespace detail {

template <class Projection, class Samples>
using projected_costs = std::remove_cvref_t<
    std::invoke_result_t<Projection const&, std::ranges::range_reference_t<Samples>>>;

/// Why one of a sample's costs cannot be planned, if so; `total` is that of the samples before it.
[[nodiscard]] inline result<void> check_cost(std::size_t sample, std::size_t dimension,
                                             cost_units cost, cost_units total)
{
  if (cost >= 0 && cost != no_cost && cost <= no_cost - 1 - total) { return {}; }
  std::string const why = cost < 0          ? "is negative; correct the cost model"
                          : cost == no_cost ? "is none; correct the sample or use a coarser unit"
                                            : "brings the total above 63 bits; use a coarser unit";
  return fail(error_code::out_of_range, sample,
              "the cost of sample " + std::to_string(sample) + " in dimension " +
                  std::to_string(dimension) + " " + why);
}

}  // namespace detail

/// A callable, or a pointer to a member, that returns the `cost_vector` of a sample.
template <class Projection, class Samples>
concept vector_projection =
    std::ranges::forward_range<Samples> &&
    std::invocable<Projection const&, std::ranges::range_reference_t<Samples>> &&
    requires { std::tuple_size<detail::projected_costs<Projection, Samples>>::value; } &&
    std::same_as<detail::projected_costs<Projection, Samples>,
                 cost_vector<std::tuple_size_v<detail::projected_costs<Projection, Samples>>>>;

/// How many costs such a projection returns for each sample.
template <class Projection, class Samples>
  requires vector_projection<Projection, Samples>
inline constexpr std::size_t dimensions_of =
    std::tuple_size_v<detail::projected_costs<Projection, Samples>>;

/// Puts samples in bins so that the largest load of any bin in any dimension is small: microbatches
/// whose encoder time and LLM time are both even, in the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; 1 <= bins < 2^32, identical and empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     costs_of(sample) returns the D costs of the sample, all in one unit of time. A
///             sample that is a cost_vector is its own costs. The policy does what
///             vector_partition_policy says of it.
/// Ensures     (1) those of vector_plan
///             (2) the plan depends on nothing but the arguments, so every rank finds the same one
///             (3) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      out_of_range: sample `position` has a negative cost or none, or the costs overflow
///             in a dimension; infeasible: there is no bin. The plan is then unspecified.
/// Complexity  O(n) calls of costs_of, the policy, D + 1 radix sorts and O((D n + m) log m) for the
///             bound.
/// Source      the problem for encoder and LLM: DFLOP, a data-driven framework for multimodal LLM
///             training pipelines, its online microbatch scheduler.
template <std::size_t D, std::ranges::forward_range Samples, vector_partition_policy<D> Policy,
          vector_projection<Samples> CostsOf = std::identity>
  requires(dimensions_of<CostsOf, Samples> == D)
[[nodiscard]] result<void> partition_vectors_into(vector_plan<D>& plan, workspace& memory,
                                                  Samples&& samples, std::size_t bins,
                                                  Policy const& policy,
                                                  CostsOf const& costs_of = {})
{
  constexpr std::uint64_t limit = std::uint64_t{1} << 32;
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (count >= limit || bins >= limit) {
    return fail(error_code::out_of_range, 0,
                "a step has more than 2^32 - 1 samples or bins; split it");
  }
  if (bins == 0) {
    return fail(error_code::infeasible, 0, "there are no bins to place samples in; ask for some");
  }
  plan.costs.resize(count);
  cost_vector<D> total{};
  std::size_t next = 0;
  for (auto&& sample : samples) {
    cost_vector<D> const costs = std::invoke(costs_of, sample);
    for (std::size_t d = 0; d < D; ++d) {
      if (auto checked = detail::check_cost(next, d, costs[d], total[d]); !checked) {
        return checked;
      }
      total[d] += costs[d];
    }
    plan.costs[next++] = costs;
  }

  plan.owner.assign(count, to_id<bin_id>(bins));  // no bin, until the policy has run
  plan.loads.assign(bins, {});
  vector_problem<D> const problem{plan.costs};
  policy(problem, std::span(plan.loads), std::span(plan.owner), memory);
  plan.samples.regroup(plan.owner, bins);

  // A policy that is wrong ends the program here: its plan would be taken for a certified one.
  plan.makespan = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    cost_vector<D> load{};
    for (sample_id const sample : plan.samples[to_id<bin_id>(bin)]) {
      for (std::size_t d = 0; d < D; ++d) { load[d] += plan.costs[to_index(sample)][d]; }
    }
    BALLAST_EXPECTS(plan.loads[bin] == load);
    plan.makespan = std::max(plan.makespan, *std::max_element(load.begin(), load.end()));
  }
  plan.lower_bound = vector_lower_bound(problem, bins, memory);
  return {};
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition_vectors(samples, 64, vector_refine{}, encoder_and_llm_time);
template <std::ranges::forward_range Samples, class Policy,
          vector_projection<Samples> CostsOf = std::identity>
  requires vector_partition_policy<Policy, dimensions_of<CostsOf, Samples>>
[[nodiscard]] auto partition_vectors(Samples&& samples, std::size_t bins, Policy const& policy,
                                     CostsOf const& costs_of = {})
    -> result<vector_plan<dimensions_of<CostsOf, Samples>>>
{
  vector_plan<dimensions_of<CostsOf, Samples>> plan;
  workspace memory;
  result<void> const done = ballast::partition_vectors_into(
      plan, memory, std::forward<Samples>(samples), bins, policy, costs_of);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_PARTITION_VECTORS_HPP
