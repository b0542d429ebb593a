// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_VECTOR_LOWER_BOUND_HPP
#define BALLAST_PARTITION_VECTORS_VECTOR_LOWER_BOUND_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/lower_bound.hpp>
#include <ballast/partition/priced_sample.hpp>
#include <ballast/partition/vectors/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// A makespan that no plan gets below: in every plan, some bin has at least this load in some
/// dimension.
///
/// It is the larger of two: what `makespan_lower_bound` says of each dimension by itself; and what it
/// says of the sums over all dimensions, divided by their number, since some dimension of a bin
/// carries at least the mean of all. The second is stronger where samples that are heavy in
/// different dimensions have to share a bin.
///
/// Expects     a valid vector_problem; bins >= 1, all empty.
/// Ensures     (1) no assignment of samples to bins has a smaller makespan
/// Complexity  O((D n + m) log m); 40 n + 44 m bytes of scratch.
template <std::size_t D>
[[nodiscard]] cost_units vector_lower_bound(vector_problem<D> const& problem, std::size_t bins,
                                            workspace& memory)
{
  BALLAST_EXPECTS(bins >= 1);
  std::size_t const samples = problem.costs.size();
  auto scratch = memory.open();
  std::span<cost_units> const costs = scratch.take<cost_units>(samples);
  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(samples);
  std::span<tokens> const lengths = scratch.take<tokens>(samples);
  std::span<std::uint32_t> const ones = scratch.take<std::uint32_t>(bins);
  std::fill(lengths.begin(), lengths.end(), 0);  // samples fit every bin
  std::fill(ones.begin(), ones.end(), 1);
  auto const bound_of_costs = [&] {
    descending_order_into(heaviest_first, costs, memory);
    partition_problem const one{costs, lengths, heaviest_first, ones, ones};
    return makespan_lower_bound(one, memory).numerator;  // speeds are 1: so is the denominator
  };

  cost_units bound = 0;
  cost_units room = no_cost - 1;  // for the sum of everything
  for (std::size_t d = 0; d < D; ++d) {
    std::transform(problem.costs.begin(), problem.costs.end(), costs.begin(),
                   [d](cost_vector<D> const& cost) { return cost[d]; });
    bound = std::max(bound, bound_of_costs());
    for (cost_units const cost : costs) { room -= std::min(room, cost); }
  }
  if constexpr (D > 1) {
    if (room == 0) { return bound; }  // the sums might overflow
    std::transform(problem.costs.begin(), problem.costs.end(), costs.begin(),
                   [](cost_vector<D> const& cost) {
                     cost_units sum = 0;
                     for (cost_units const part : cost) { sum += part; }
                     return sum;
                   });
    constexpr auto dimensions = static_cast<cost_units>(D);
    cost_units const sum = bound_of_costs();
    bound = std::max(bound, sum / dimensions + (sum % dimensions != 0 ? 1 : 0));
  }
  return bound;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_VECTOR_LOWER_BOUND_HPP
