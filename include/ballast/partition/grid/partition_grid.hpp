// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/grid/grid_plan.hpp>

#include <functional>
#include <iterator>

namespace ballast::inline v0 {

namespace detail {

/// Why a grid cannot be planned, whatever its samples are, if so.
[[nodiscard]] BALLAST_ONCE result<void> check_microbatches(microbatches const& given,
                                                           std::size_t samples,
                                                           bag_layout const& bags,
                                                           placement_limits const& limits);

/// Plans a grid of samples whose costs are in the plan: what of partition_grid_into() knows nothing of
/// the types of samples and cost model.
///
/// Errors      as partition_grid_into.
[[nodiscard]] BALLAST_ONCE result<void> plan_grid(grid_plan& plan, workspace& memory,
                                                  sample_lengths const& lengths,
                                                  bag_layout const& bags, microbatches const& given,
                                                  placement_limits const& limits);

}  // namespace detail

/// Decides which bag computes which samples in which of its microbatches, for trainers that add up
/// gradients over several microbatches a step, as many on every bag: the form for a training loop.
/// Limits are those of a cell, what a bag computes in one microbatch.
///
/// Shapes      samples[n] of any type, n < 2^32; limits: arrays of n or empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     cost_of(sample) returns what the sample costs, length_of(sample) how many of its tokens
///             a bag splits; both are integers. A sample that is a number is its own length.
/// Ensures     (1) those of grid_plan
///             (2) every bag has as many cells; each keeps all limits together, and what stays
///                 together is in one; a slot has samples of one kind
///             (3) a number of microbatches that is not given is the least that is found, and
///                 plan.fewest_microbatches says below which there is no plan, and plan.decided
///                 what asks for so many
///                 where bags meet in every microbatch, without kinds, soft caps and counts but
///                 at_most and multiple_of, and with `then` only without limits, slots may stay
///                 empty: no plan is longer than one of fewer microbatches
///             (4) the plan depends on nothing but the arguments, so every rank finds the same one
///             (5) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      out_of_range: those of partition_into; microbatches are 0 or out of range;
///             infeasible: sample `position` or the samples that stay together with it are above
///             every cap; or no plan was found, with a number of microbatches that is too small (the
///             sentence says the least found), or with any. The sentence says whether none exists or
///             the search gave up; in small grids it hardly ever does. The plan is then unspecified.
/// Complexity  O(n) calls of cost_of and length_of, radix sorts, and, within one cap on bags of one
///             speed, O(n (log n + log R) + K R log R), once or O(log K) times; otherwise, and in
///             grids small enough to be tried whole, microbatches.work steps of a search as well.
template <std::ranges::forward_range Samples, integer_projection<Samples> CostOf,
          integer_projection<Samples> LengthOf>
[[nodiscard]] result<void> partition_grid_into(grid_plan& plan, workspace& memory,
                                               Samples&& samples, bag_layout const& bags,
                                               microbatches const& slots, CostOf const& cost_of,
                                               LengthOf const& length_of,
                                               placement_limits const& limits = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (auto checked = detail::check_limits(limits, count, bags.size(), bags.gpus()); !checked) {
    return checked;
  }
  if (auto checked = detail::check_microbatches(slots, count, bags, limits); !checked) {
    return checked;
  }
  plan.costs.resize(count);
  auto scratch = memory.open();
  detail::sample_prices<cost_units, CostOf> prices{cost_of, plan.costs};
  auto const lengths = detail::read_samples(samples, count, bags, length_of, scratch, prices);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  auto planned = detail::plan_grid(plan, memory, *lengths, bags, slots, limits);
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  return planned;
}

/// The same for samples that are numbers: their own lengths.
template <std::ranges::forward_range Samples, integer_projection<Samples> CostOf>
  requires integer_projection<std::identity, Samples>
[[nodiscard]] result<void> partition_grid_into(grid_plan& plan, workspace& memory,
                                               Samples&& samples, bag_layout const& bags,
                                               microbatches const& slots, CostOf const& cost_of,
                                               placement_limits const& limits = {})
{
  return ballast::partition_grid_into(plan, memory, std::forward<Samples>(samples), bags, slots,
                                      cost_of, std::identity{}, limits);
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition_grid(lengths, one_gpu_bags(64), {}, cost, {.most_per_gpu = 16'384});
template <std::ranges::forward_range Samples, integer_projection<Samples> CostOf,
          integer_projection<Samples> LengthOf>
[[nodiscard]] result<grid_plan> partition_grid(Samples&& samples, bag_layout const& bags,
                                               microbatches const& slots, CostOf const& cost_of,
                                               LengthOf const& length_of,
                                               placement_limits const& limits = {})
{
  grid_plan plan;
  workspace memory;
  result<void> const done = ballast::partition_grid_into(
      plan, memory, std::forward<Samples>(samples), bags, slots, cost_of, length_of, limits);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

/// The same for samples that are numbers: their own lengths.
template <std::ranges::forward_range Samples, integer_projection<Samples> CostOf>
  requires integer_projection<std::identity, Samples>
[[nodiscard]] result<grid_plan> partition_grid(Samples&& samples, bag_layout const& bags,
                                               microbatches const& slots, CostOf const& cost_of,
                                               placement_limits const& limits = {})
{
  return ballast::partition_grid(std::forward<Samples>(samples), bags, slots, cost_of,
                                 std::identity{}, limits);
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/partition/grid/detail/plan_grid.hpp>
#endif
