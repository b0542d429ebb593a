// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/vectors/earliest_vectors.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>

namespace ballast::inline v0 {

/// A makespan that no plan gets below: in every plan, some bag has at least this load per speed in
/// some dimension.
///
/// It is the larger of two: what `makespan_lower_bound` says of each dimension by itself; and what
/// it says of the sums over all dimensions, divided by their number, since some dimension of a bag
/// carries at least the mean of all. The second is stronger where samples that are heavy in
/// different dimensions have to share a bag.
///
/// Shapes      starting_loads[bags], or empty where bags start empty.
/// Expects     a valid cost_vector_problem of so many bags, at least 1.
/// Ensures     (1) no plan in which samples fit their bags has a smaller makespan
/// Complexity  O((D n + m) log m); 60 n + 84 m bytes of scratch.
template <std::size_t D>
[[nodiscard]] ratio cost_vector_lower_bound(cost_vector_problem<D> const& problem, std::size_t bags,
                                            workspace& memory,
                                            std::span<cost_vector<D> const> starting_loads = {})
{
  BALLAST_EXPECTS(bags >= 1);
  std::size_t const samples = problem.costs.size();
  auto scratch = memory.open();
  std::span<cost_units> const costs = scratch.take<cost_units>(samples);
  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(samples);
  std::span<cost_units> const starts = scratch.take<cost_units>(starting_loads.size());
  partition_problem one = detail::one_quantity_of(problem, bags, scratch);
  one.costs = costs;
  one.heaviest_first = heaviest_first;
  auto const take_each = [&](auto const& part) {
    std::transform(problem.costs.begin(), problem.costs.end(), costs.begin(), part);
    std::transform(starting_loads.begin(), starting_loads.end(), starts.begin(), part);
  };
  auto const bound_of_costs = [&] {
    descending_order_into(heaviest_first, costs, memory);
    return makespan_lower_bound(one, memory, starts);
  };

  ratio bound{0, one.speeds.front()};
  cost_units room = no_cost - 1;  // for the sum of everything
  for (std::size_t d = 0; d < D; ++d) {
    take_each([d](cost_vector<D> const& each) { return each[d]; });
    bound = std::max(bound, bound_of_costs());
    for (cost_units const cost : costs) { room -= std::min(room, cost); }
    for (cost_units const start : starts) { room -= std::min(room, start); }
  }
  if constexpr (D > 1) {
    if (room == 0) { return bound; }  // the sums might overflow
    take_each([](cost_vector<D> const& each) {
      return std::accumulate(each.begin(), each.end(), cost_units{0});
    });
    constexpr auto dimensions = static_cast<cost_units>(D);
    ratio mean = bound_of_costs();
    // With bags of one speed, some dimension of a bag carries a whole number of units.
    bool const rounds_up = problem.one_speed() && mean.numerator % dimensions != 0;
    mean.numerator = mean.numerator / dimensions + (rounds_up ? 1 : 0);
    bound = std::max(bound, mean);
  }
  return bound;
}

}  // namespace ballast::inline v0
