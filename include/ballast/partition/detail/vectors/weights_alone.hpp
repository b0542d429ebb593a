// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_WEIGHTS_ALONE_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_WEIGHTS_ALONE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/cost_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The problem of weights alone, as that of a policy of one dimension: no sample costs anything.
///
/// Ensures     (1) a sample fits the bags of this problem that it fits as bins, and a plan keeps to
///                 the capacities of both or of none
template <std::size_t D>
[[nodiscard]] partition_problem weights_alone(cost_vector_problem<D> const& problem,
                                              std::size_t bins, workspace::frame& scratch)
{
  std::size_t const samples = problem.costs.size();
  std::span<cost_units> const costs = scratch.take<cost_units>(samples);
  std::fill(costs.begin(), costs.end(), 0);
  partition_problem alone{costs, problem.lengths, {}, problem.gpus, problem.speeds};
  if (problem.gpus.empty()) { alone.lengths = costs; }  // samples of no tokens fit everywhere
  std::span<std::uint32_t> const ones = scratch.take<std::uint32_t>(bins);
  std::fill(ones.begin(), ones.end(), 1);
  if (problem.gpus.empty()) { alone.gpus = ones; }
  if (problem.speeds.empty()) { alone.speeds = ones; }
  alone.weights = problem.weights;
  alone.capacities = problem.capacities;
  return alone;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_WEIGHTS_ALONE_HPP
