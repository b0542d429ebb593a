// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_LEAST_FINISH_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_LEAST_FINISH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/partition/cost_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The sum of some loads or costs, dimension by dimension.
template <std::size_t D>
[[nodiscard]] cost_vector<D> sum_of(std::span<cost_vector<D> const> vectors) noexcept
{
  cost_vector<D> total{};
  for (cost_vector<D> const& each : vectors) {
    for (std::size_t d = 0; d < D; ++d) { total[d] += each[d]; }
  }
  return total;
}

/// When the last bin finishes, in the dimension in which it is latest.
template <std::size_t D>
[[nodiscard]] ratio finish_of(cost_vector_problem<D> const& problem,
                              std::span<cost_vector<D> const> loads) noexcept
{
  ratio latest;
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    cost_units const largest = *std::max_element(loads[bin].begin(), loads[bin].end());
    latest = std::max(latest, ratio{largest, problem.speed(bin)});
  }
  return latest;
}

/// A time before which no plan finishes, at little expense: the mean load per speed, or the largest
/// single cost on the fastest bin; the most of all dimensions.
///
/// Expects     total is the sum of all costs and of what bins have at the start; bins >= 1.
/// Ensures     (1) with bins of one speed it is a whole load over that speed
/// Complexity  O(D n + m)
template <std::size_t D>
[[nodiscard]] ratio least_finish(cost_vector_problem<D> const& problem, cost_vector<D> const& total,
                                 std::size_t bins) noexcept
{
  std::uint32_t fastest = 1;
  auto speed = static_cast<std::int64_t>(bins);
  if (!problem.speeds.empty()) {
    fastest = *std::max_element(problem.speeds.begin(), problem.speeds.end());
    speed = 0;
    for (std::uint32_t const each : problem.speeds) { speed += each; }
  }
  cost_units largest = 0;
  for (cost_vector<D> const& cost : problem.costs) {
    largest = std::max(largest, *std::max_element(cost.begin(), cost.end()));
  }
  cost_units const work = *std::max_element(total.begin(), total.end());
  ratio const alone{largest, fastest};
  if (!problem.one_speed()) { return std::max(alone, ratio{work, speed}); }
  auto const count = static_cast<cost_units>(bins);
  return std::max(alone, ratio{work / count + (work % count != 0 ? 1 : 0), fastest});
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_LEAST_FINISH_HPP
