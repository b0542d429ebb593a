// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_DETAIL_PLAN_PADDED_HPP
#define BALLAST_PARTITION_PADDED_DETAIL_PLAN_PADDED_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/padded/detail/fill_padded.hpp>
#include <ballast/partition/padded/detail/padded_bounds.hpp>
#include <ballast/partition/padded/detail/padded_cells.hpp>
#include <ballast/partition/padded/detail/padded_problem.hpp>
#include <ballast/partition/padded/detail/search_padded.hpp>
#include <ballast/partition/padded/detail/shift_padded.hpp>
#include <ballast/partition/padded/detail/two_length_sum.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What was found for a padded step: the makespan is no_cost where there is no plan, and the bound
/// is no_cost where none exists.
struct found_padded {
  std::vector<cell_id> owner;
  cost_units makespan = no_cost;
  cost_units lower_bound = 0;
};

/// Samples from the costliest to the cheapest alone, of equal ones the lower number first.
template <class Problem>
[[nodiscard]] std::vector<std::uint32_t> costliest_first(Problem const& problem)
{
  std::vector<std::uint32_t> order(problem.lengths.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&problem](std::uint32_t a, std::uint32_t b) {
    cost_units const one = problem.alone(a);
    cost_units const other = problem.alone(b);
    return one > other || (one == other && a < b);
  });
  return order;
}

/// Fills orders evenly, keeps the best, shifts samples, and searches small steps whole. The bound is
/// the mean of what all batches cost at least, for one length or both, or the least largest batch,
/// for one. It stops at a makespan of `enough`.
///
/// Expects     check_padded has no objection.
template <class Problem>
[[nodiscard]] found_padded plan_padded(Problem const& problem, std::uint64_t work_per_sample,
                                       cost_units enough = 0)
{
  constexpr std::size_t few = 16;  // samples: of more, the search of all plans hardly ends
  constexpr std::uint64_t work_of_few = 200'000;
  std::size_t const count = problem.lengths.size();
  found_padded found{std::vector<cell_id>(count), no_cost, 0};
  std::vector<std::uint32_t> const order = costliest_first(problem);
  std::vector<cost_units> costs;
  costs.reserve(count);
  for (std::uint32_t const sample : order) { costs.push_back(problem.alone(sample)); }
  cost_units const largest_batch = least_largest_padded(costs, problem.cells());
  cost_units const sum = std::max(least_padded_sum(costs).within(problem.cells()),
                                  two_length_sum(problem).within(problem.cells()));
  auto const ranks = static_cast<cost_units>(problem.ranks);
  found.lower_bound = std::max(sum / ranks + (sum % ranks == 0 ? 0 : 1), largest_batch);
  std::vector<std::uint32_t> batch_of(count);
  std::vector<cell_id> tried(count);
  padded_cells<Problem> cells(problem);
  padded_orders_of(problem, [&](std::vector<std::uint32_t> const& runs) {
    if (found.makespan <= std::max(found.lower_bound, enough)) { return; }
    if (!fill_evenly(problem, runs, largest_batch, batch_of)) { return; }
    deal_batches(problem, batch_of, tried);
    cells.assign(tried);
    if (cells.makespan() >= found.makespan) { return; }
    found.makespan = cells.makespan();
    found.owner = tried;
  });
  if (found.makespan != no_cost) {
    found.makespan = shift_padded(problem, order, work_per_sample * count,
                                  std::max(found.lower_bound, enough), found.owner);
  }
  if (found.makespan > std::max(found.lower_bound, enough) && count <= few) {
    padded_search<Problem> search(problem, order, work_of_few);
    if (search.improve(found.makespan, found.owner)) { found.lower_bound = found.makespan; }
  }
  return found;
}

/// The same, also where no order fits the cells within the cap: first the heaviest cell is made
/// lighter, as if weights were costs and cells ranks. At last, padding that does no rank any good is
/// saved.
template <class CostOf, class WeightOf>
[[nodiscard]] found_padded plan_padded_within(padded_problem<CostOf, WeightOf> const& problem,
                                              std::uint64_t work_per_sample)
{
  std::uint64_t const work = work_per_sample * problem.lengths.size();
  found_padded found = plan_padded(problem, work_per_sample);
  if (found.makespan == no_cost && found.lower_bound != no_cost) {
    constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
    padded_problem<WeightOf, WeightOf> const lighter{
        problem.lengths, problem.cells(), 1, no_limit, problem.weight_of, problem.weight_of};
    found_padded light = plan_padded(lighter, work_per_sample);
    if (light.lower_bound > problem.most_weight) { found.lower_bound = no_cost; }
    if (light.makespan > problem.most_weight) { return found; }
    found.owner = std::move(light.owner);  // cells have the numbers that they have in the grid
    found.makespan =
        shift_padded(problem, costliest_first(problem), work, found.lower_bound, found.owner);
  }
  if (found.makespan == no_cost) { return found; }
  found.makespan = save_padding(problem, work, found.owner);
  return found;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PADDED_DETAIL_PLAN_PADDED_HPP
