// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/packing/packing_plan.hpp>

#include <functional>
#include <iterator>
#include <ranges>

namespace ballast::inline v0 {

namespace detail {

/// Why this sample cannot be packed, if so; `total` is the weight of those before it.
[[nodiscard]] inline result<void> check_weight(std::size_t sample, std::int64_t weight,
                                               std::int64_t capacity, std::int64_t total)
{
  auto const refuse = [&](error_code code, std::string const& why) {
    return fail(code, sample, "sample ", sample, " of weight ", weight, why);
  };
  if (weight < 0) { return refuse(error_code::out_of_range, " is negative; correct its weight"); }
  if (weight > capacity) {
    return refuse(error_code::infeasible, concat(" is above the capacity of a bin, ", capacity,
                                                 "; split it, leave it out or raise the capacity"));
  }
  if (weight > std::numeric_limits<std::int64_t>::max() - 1 - total) {
    return refuse(error_code::out_of_range,
                  " brings the total above 63 bits; use a coarser unit or pack fewer samples");
  }
  return {};
}

}  // namespace detail

/// Packs samples into as few bins of one capacity as the policy finds, and says how few there could
/// be: microbatches of at most so many tokens, in the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; n = 0 gives no bins.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     weight_of(sample) returns an integer: what the sample takes of the capacity, as its
///             tokens. A sample that is a number is its own weight. The policy does what
///             packing_policy says.
/// Ensures     (1) those of packing_plan
///             (2) the plan depends on nothing but the arguments, so every rank finds the same one
///             (3) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      infeasible: sample `position` is heavier than the capacity; out_of_range: sample
///             `position` has a negative weight or the weights overflow, or the capacity is
///             negative. The plan is then unspecified.
/// Complexity  O(n) calls of weight_of, a radix sort, the policy, O(n) for the bound.
template <std::ranges::forward_range Samples, packing_policy Policy,
          integer_projection<Samples> WeightOf = std::identity>
[[nodiscard]] result<void> pack_to_capacity_into(packing_plan& plan, workspace& memory,
                                                 Samples&& samples, std::int64_t capacity,
                                                 Policy const& policy,
                                                 WeightOf const& weight_of = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (count >= (std::uint64_t{1} << 32)) {
    return fail(error_code::out_of_range, 0, "a step has more than 2^32 - 1 samples; split it");
  }
  if (capacity < 0) {
    return fail(error_code::out_of_range, 0, "a bin cannot hold ", capacity,
                "; give the most that it holds");
  }
  plan.capacity = capacity;
  plan.weights.resize(count);
  std::int64_t total = 0;
  std::size_t next = 0;
  for (auto&& sample : samples) {
    auto const weight = detail::saturated(std::invoke(weight_of, sample));
    if (auto checked = detail::check_weight(next, weight, capacity, total); !checked) {
      return checked;
    }
    plan.weights[next++] = weight;
    total += weight;
  }

  auto scratch = memory.open();
  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(count);
  descending_order_into(heaviest_first, detail::span_of(plan.weights), memory);
  packing_problem const problem{detail::span_of(plan.weights), heaviest_first, capacity};
  plan.lower_bound = packing_lower_bound(problem);
  plan.owner.resize(count);
  auto const [bins, proven] =
      run_policy(policy, problem, detail::mutable_span_of(plan.owner), memory);
  plan.lower_bound = std::max(plan.lower_bound, proven);

  // A policy that is wrong ends the program here: its bins would be taken for safe.
  plan.samples.collect(detail::span_of(plan.owner), bins);
  plan.loads.assign(bins, 0);
  for (std::size_t sample = 0; sample < count; ++sample) {
    plan.loads[to_index(plan.owner[sample])] += plan.weights[sample];
  }
  for (std::size_t bin = 0; bin < bins; ++bin) {
    BALLAST_EXPECTS(!plan.samples[to_id<bag_id>(bin)].empty(), "the policy left bin ", bin, " of ",
                    bins, " empty");
    BALLAST_EXPECTS(plan.loads[bin] <= capacity, "the policy put a weight of ", plan.loads[bin],
                    " in bin ", bin, ", which holds ", capacity);
  }
  BALLAST_EXPECTS(proven <= bins, "the policy says that no packing has fewer than ",
                  detail::counted(proven, "bin"), ", and fills ", bins);
  return {};
}

/// The same, once: returns a new plan.
///
///     auto const microbatches = pack_to_capacity(lengths, 8192, best_fit_decreasing{});
template <std::ranges::forward_range Samples, packing_policy Policy,
          integer_projection<Samples> WeightOf = std::identity>
[[nodiscard]] result<packing_plan> pack_to_capacity(Samples&& samples, std::int64_t capacity,
                                                    Policy const& policy,
                                                    WeightOf const& weight_of = {})
{
  packing_plan plan;
  workspace memory;
  result<void> const done = ballast::pack_to_capacity_into(
      plan, memory, std::forward<Samples>(samples), capacity, policy, weight_of);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0
