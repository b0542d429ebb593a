// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_PARTITION_GRID_HPP
#define BALLAST_PARTITION_GRID_PARTITION_GRID_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/grid/concepts.hpp>
#include <ballast/partition/grid/detail/check_grid.hpp>
#include <ballast/partition/grid/detail/grid_cells.hpp>
#include <ballast/partition/grid/detail/grid_step.hpp>
#include <ballast/partition/grid/detail/keep_homes.hpp>
#include <ballast/partition/grid/detail/search_cells.hpp>
#include <ballast/partition/grid/detail/slot_range.hpp>
#include <ballast/partition/grid/detail/slot_shares.hpp>
#include <ballast/partition/grid/grid_lower_bound.hpp>
#include <ballast/partition/grid/grid_options.hpp>
#include <ballast/partition/grid/grid_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <ranges>
#include <span>
#include <utility>

namespace ballast::inline v0 {

namespace detail {

/// Runs the policy with so many slots. Fills the plan's shape, items' owners and bound where it
/// found a plan.
template <grid_policy Policy>
[[nodiscard]] bool fill_grid(grid_plan& plan, std::span<cell_id> owner, grid_step const& step,
                             std::size_t slots, grid_options const& options, Policy const& policy,
                             workspace& memory)
{
  if (slots >= (std::size_t{1} << 32) / step.problem.ranks()) { return false; }
  auto scratch = memory.open();
  auto const laid_out = scratch.take<grid_slot>(slots);
  if (slots < step.fewest()) { return false; }
  grid_problem problem = step.problem;
  problem.slots = laid_out;
  auto const filled = [&] {
    return write_slots(step, options, laid_out) && policy(problem, owner, memory);
  };
  share_slots(step, slots);
  if (!filled() &&
      (step.kinds.size() == 1 ||
       search_shares(step, options, slots, memory) != plan_search::found || !filled())) {
    return false;
  }

  // A policy that is wrong ends the program here: its cells would be taken for safe.
  grid_cells cells(problem, owner, scratch);
  cells.recount();
  BALLAST_EXPECTS(cells.is_valid(),
                  "the policy left a sample without a cell, or a cell with a "
                  "number of samples that its slot does not take");
  for (std::size_t cell = 0; cell < problem.cells(); ++cell) {
    BALLAST_EXPECTS(cells.weights[cell] <= problem.most_weights[cell % problem.ranks()],
                    "the policy put a weight of ", cells.weights[cell], " in cell ", cell,
                    ", above its cap");
  }
  for (std::size_t item = 0; item < owner.size(); ++item) {
    BALLAST_EXPECTS(cells.slot_of(cells.cell_of(item)).kind == problem.kinds[item],
                    "the policy put an item in a slot of another kind");
  }
  plan.microbatches = slots;
  plan.makespan = cells.makespan();
  plan.lower_bound = grid_lower_bound(problem, memory);
  BALLAST_EXPECTS(plan.lower_bound <= plan.makespan, "no plan gets below ", plan.lower_bound,
                  ", and the policy's has ", plan.makespan);
  plan.kinds.clear();
  if (options.kinds.empty()) { return true; }
  for (grid_slot const& slot : laid_out) { plan.kinds.push_back(step.kinds[slot.kind].key); }
  return true;
}

}  // namespace detail

/// Decides which rank computes which samples in which of its microbatches, for trainers that add up
/// gradients over several microbatches a step, as many on every rank: the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; options: arrays of n or empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     cost_of(sample) returns what the sample costs, weight_of(sample) what it takes of a
///             cell's cap, as its tokens; both are integers. A sample that is a number is its own
///             weight. The policy does what grid_policy says.
/// Ensures     (1) those of grid_plan
///             (2) the options are kept: every rank has as many cells; no cell weighs more than
///                 its cap, has another number of samples than asked for, samples of two kinds, or
///                 a part of samples that stay together
///             (3) a number of microbatches that is not given is the least that is found, and
///                 plan.fewest_microbatches says below which there is no plan, and plan.decided
///                 what asks for so many
///             (4) the plan depends on nothing but the arguments, so every rank finds the same one
///             (5) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      out_of_range: there are 0 ranks or 0 microbatches, options are out of range, sample
///             `position` has a negative weight or cost, or they overflow; infeasible: sample
///             `position` or the samples that stay together with it are above every cap; or no plan
///             was found, with a number of microbatches that is too small (the sentence says the
///             least found), or with any. The sentence says whether none exists or the search gave
///             up; in small grids it hardly ever does. The plan is then unspecified.
/// Complexity  O(n) calls of cost_of and weight_of, radix sorts of both, the policy (once, or
///             O(log K) times where it does not find a plan at once), and the bound; with samples
///             that stay together, kinds or homes O(n log n).
template <std::ranges::forward_range Samples, grid_policy Policy,
          integer_projection<Samples> CostOf, integer_projection<Samples> WeightOf = std::identity>
[[nodiscard]] result<void> partition_grid_into(grid_plan& plan, workspace& memory,
                                               Samples&& samples, std::size_t ranks,
                                               grid_options const& options, Policy const& policy,
                                               CostOf const& cost_of,
                                               WeightOf const& weight_of = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (auto checked = detail::check_grid(options, count, ranks); !checked) { return checked; }
  plan.ranks = ranks;
  plan.meet = options.meet;
  plan.costs.resize(count);
  plan.weights.resize(count);
  std::size_t next = 0;
  cost_units total_cost = 0;
  std::int64_t total_weight = 0;
  for (auto&& sample : samples) {
    auto const weight =
        detail::rounded_weight(next, detail::saturated(std::invoke(weight_of, sample)),
                               options.weight_multiple, total_weight);
    if (!weight) { return tl::unexpected(weight.error()); }
    cost_units const cost = detail::saturated(std::invoke(cost_of, sample));
    if (auto checked = detail::check_cost({next}, cost, total_cost); !checked) { return checked; }
    total_cost += cost;
    total_weight += *weight;
    plan.costs[next] = cost;
    plan.weights[next++] = *weight;
  }

  auto scratch = memory.open();
  auto const step = detail::read_grid(detail::span_of(plan.costs), detail::span_of(plan.weights),
                                      ranks, options, scratch, memory);
  if (!step) { return tl::unexpected(step.error()); }
  auto const owner = scratch.take<cell_id>(step->problem.costs.size());
  auto const fill = [&](std::size_t slots) {
    return detail::fill_grid(plan, owner, *step, slots, options, policy, memory);
  };
  plan.fewest_microbatches = step->fewest();
  if (!options.microbatches || !fill(*options.microbatches)) {
    detail::slot_range const range(*step, options, count);
    std::size_t const found = range.find(fill);
    if (found == 0) {
      bool const proven = range.has_no_plan(*step, options, memory);
      return fail(error_code::infeasible, 0, "no plan for ", detail::counted(count, "sample"),
                  " on ", detail::counted(ranks, "rank"), " ", proven ? "exists" : "was found",
                  " that keeps to options' caps, counts, groups and kinds",
                  options.multiple_of > 1 ? ", with as many microbatches as asked for" : "",
                  options.fill_cells ? " and has a sample in every cell" : "",
                  proven ? "" : ", and the search gave up before it had tried all",
                  "; relax one of them");
    }
    if (options.microbatches) {
      bool const proven =
          detail::slot_range::is_without_plan(*step, options, *options.microbatches, memory);
      return fail(error_code::infeasible, 0, "no plan with ",
                  detail::counted(*options.microbatches, "microbatch"), " ",
                  proven ? "exists" : "was found in a search that gave up", "; the least found is ",
                  found, ", and no plan has fewer than ", plan.fewest_microbatches,
                  "; give that many, or none");
    }
    if (plan.microbatches != found && !fill(found)) { return fail(error_code::infeasible, 0, ""); }
  }

  plan.decided = step->decide(plan.microbatches, options);
  plan.owner.resize(count);
  std::span<cell_id> const owners = detail::mutable_span_of(plan.owner);
  for (std::size_t sample = 0; sample < count; ++sample) {
    owners[sample] = owner[step->item_of[sample]];
  }
  auto const& caps = step->problem.most_weights;
  bool const one_cap = std::all_of(caps.begin(), caps.end(),
                                   [&caps](std::int64_t cap) { return cap == caps.front(); });
  if (!options.home.empty() && one_cap) {
    std::size_t const at_once = options.meet == grid_meeting::step ? plan.microbatches : 1;
    for (std::size_t slot = 0; slot < plan.microbatches; slot += at_once) {
      detail::keep_homes(owners, options.home, detail::span_of(plan.weights), ranks, slot,
                         slot + at_once, memory);
    }
  }
  std::size_t const cells = ranks * plan.microbatches;
  plan.loads.assign(cells, 0);
  plan.filled.assign(cells, 0);
  std::int64_t moved = 0;
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::size_t const cell = to_index(owners[sample]);
    plan.loads[cell] += plan.costs[sample];
    plan.filled[cell] += plan.weights[sample];
    bool const leaves = !options.home.empty() && to_index(options.home[sample]) != cell % ranks;
    moved += leaves ? plan.weights[sample] : 0;
  }
  plan.moved = moved == 0 ? ratio{} : ratio{moved, total_weight};
  plan.samples.collect(detail::span_of(plan.owner), cells);
  return {};
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition_grid(lengths, 64, {.most_weight = 16'384}, refine_grid{}, cost);
template <std::ranges::forward_range Samples, grid_policy Policy,
          integer_projection<Samples> CostOf, integer_projection<Samples> WeightOf = std::identity>
[[nodiscard]] result<grid_plan> partition_grid(Samples&& samples, std::size_t ranks,
                                               grid_options const& options, Policy const& policy,
                                               CostOf const& cost_of,
                                               WeightOf const& weight_of = {})
{
  grid_plan plan;
  workspace memory;
  result<void> const done = ballast::partition_grid_into(
      plan, memory, std::forward<Samples>(samples), ranks, options, policy, cost_of, weight_of);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_GRID_PARTITION_GRID_HPP
