// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_LEAST_FINISH_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_LEAST_FINISH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/cost_vector.hpp>

#include <algorithm>
#include <array>
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

/// A time for each quantity.
template <std::size_t D>
using finishes = std::array<ratio, D>;

/// When the last bin finishes, in each dimension.
template <std::size_t D>
[[nodiscard]] finishes<D> finishes_of(cost_vector_problem<D> const& problem,
                                      std::span<cost_vector<D> const> loads) noexcept
{
  finishes<D> latest{};
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    for (std::size_t d = 0; d < D; ++d) {
      latest[d] = std::max(latest[d], ratio{loads[bin][d], problem.speed(bin)});
    }
  }
  return latest;
}

/// When the last bin finishes, in the dimension in which it is latest.
template <std::size_t D>
[[nodiscard]] ratio finish_of(cost_vector_problem<D> const& problem,
                              std::span<cost_vector<D> const> loads) noexcept
{
  finishes<D> const latest = finishes_of<D>(problem, loads);
  return *std::max_element(latest.begin(), latest.end());
}

/// Times before which no plan finishes in a dimension, at little expense: the mean load per speed,
/// or the largest single cost on the fastest bin.
///
/// Expects     total is the sum of all costs and of what bins have at the start; bins >= 1.
/// Ensures     (1) with bins of one speed each is a whole load over that speed
/// Complexity  O(D n + m)
template <std::size_t D>
[[nodiscard]] finishes<D> least_finishes(cost_vector_problem<D> const& problem,
                                         cost_vector<D> total, std::size_t bins) noexcept
{
  std::uint32_t fastest = 1;
  auto speed = static_cast<std::int64_t>(bins);
  if (!problem.speeds.empty()) {
    fastest = *std::max_element(problem.speeds.begin(), problem.speeds.end());
    speed = 0;
    for (std::uint32_t const each : problem.speeds) { speed += each; }
  }
  cost_vector<D> largest{};
  for (cost_vector<D> const& cost : problem.costs) {
    for (std::size_t d = 0; d < D; ++d) { largest[d] = std::max(largest[d], cost[d]); }
  }
  finishes<D> least{};
  for (std::size_t d = 0; d < D; ++d) {
    ratio mean{total[d], speed};
    if (problem.one_speed()) {
      auto const count = static_cast<cost_units>(bins);
      mean = {total[d] / count + (total[d] % count != 0 ? 1 : 0), fastest};
    }
    least[d] = std::max(ratio{largest[d], fastest}, mean);
  }
  return least;
}

/// The most of them, before which no plan finishes.
template <std::size_t D>
[[nodiscard]] ratio least_finish(cost_vector_problem<D> const& problem, cost_vector<D> const& total,
                                 std::size_t bins) noexcept
{
  finishes<D> const least = least_finishes<D>(problem, total, bins);
  return *std::max_element(least.begin(), least.end());
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_LEAST_FINISH_HPP
