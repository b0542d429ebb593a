// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_BOUND_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_BOUND_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The least GPU time of a sequence in the classes that take at most `limit`.
struct least_area {
  std::size_t first_class = 0;  ///< of these; the number of classes where there is none
  uint128 area = 0;
  cost_units shortest = no_cost;  ///< time in any class
  cost_units longest = 0;         ///< time in a class that it may go to
};

[[nodiscard]] inline least_area least_area_of(shard_problem const& problem, std::size_t sample,
                                              cost_units limit)
{
  least_area least{problem.classes.size(), ~uint128{0}};
  for (std::size_t at = 0; at < problem.classes.size(); ++at) {
    cost_units const time = problem.time(sample, at);
    if (time == no_cost) { continue; }
    least.shortest = std::min(least.shortest, time);
    least.longest = std::max(least.longest, time);
    if (time > limit) { continue; }
    least.first_class = std::min(least.first_class, at);
    least.area = std::min(least.area, static_cast<uint128>(static_cast<std::uint64_t>(time)) *
                                          problem.classes[at].shape.gpus);
  }
  return least;
}

/// GPUs in groups of the degree of each class or more.
inline void find_covered_gpus(shard_problem const& problem, std::span<std::uint64_t> covered)
{
  std::fill(covered.begin(), covered.end(), std::uint64_t{0});
  for (std::size_t group = 0; group < problem.groups.size(); ++group) {
    std::uint32_t const above = problem.parent[group];
    bool const is_topmost = above == no_shard_group || problem.class_of[above] == no_shard_group;
    if (problem.class_of[group] != no_shard_group && is_topmost) {
      covered[problem.class_of[group]] += problem.groups[group].gpus;
    }
  }
  for (std::size_t at = covered.size(); at > 1; --at) { covered[at - 2] += covered[at - 1]; }
}

/// A makespan that no plan is below.
///
/// It is the smallest limit for which GPU time suffices: every sequence takes at least that of the
/// cheapest class of those that memory and the limit admit, and what may only go to groups of k
/// GPUs and more has the GPUs of such groups alone. So it is at least the total of the cheapest by
/// the number of GPUs, and the longest sequence at its best degree.
///
/// Expects     every sequence has a class.
/// Complexity  O(n classes), and O(classes log(time)) for each sequence that takes longer in a
///             class than the total of the cheapest by the number of GPUs.
[[nodiscard]] inline cost_units shard_lower_bound(shard_problem const& problem,
                                                  workspace::frame& scratch)
{
  std::size_t const classes = problem.classes.size();
  std::span<std::uint64_t> const covered = scratch.take<std::uint64_t>(classes);
  find_covered_gpus(problem, covered);

  cost_units low = 0;
  uint128 total = 0;
  for (std::size_t sample = 0; sample < problem.samples(); ++sample) {
    least_area const least = least_area_of(problem, sample, no_cost - 1);
    low = std::max(low, least.shortest);
    total += least.area;
  }
  low = std::max(low, static_cast<cost_units>((total + problem.gpus - 1) / problem.gpus));

  // What no limit from `low` on restricts is added up once.
  std::span<uint128> const always = scratch.take<uint128>(classes);
  std::span<uint128> const area = scratch.take<uint128>(classes);
  std::span<std::uint32_t> const restricted = scratch.take<std::uint32_t>(problem.samples());
  std::fill(always.begin(), always.end(), uint128{0});
  std::size_t count = 0;
  for (std::uint32_t const sample : problem.by_length) {
    least_area const least = least_area_of(problem, sample, low);
    if (least.longest > low) {
      restricted[count++] = sample;
    } else {
      always[least.first_class] += least.area;
    }
  }
  auto const suffices = [&](cost_units limit) {
    std::copy(always.begin(), always.end(), area.begin());
    for (std::uint32_t const sample : restricted.first(count)) {
      least_area const least = least_area_of(problem, sample, limit);
      area[least.first_class] += least.area;  // there is one: no limit is below its shortest time
    }
    uint128 sum = 0;
    for (std::size_t at = classes; at > 0; --at) {
      sum += area[at - 1];
      auto const most = static_cast<uint128>(covered[at - 1]) * static_cast<std::uint64_t>(limit);
      if (sum > most) { return false; }
    }
    return true;
  };

  // Steps that double find a limit that suffices, bisection finds the smallest.
  cost_units high = low;
  for (cost_units step = std::max<cost_units>(1, low / 64); !suffices(high); step *= 2) {
    low = high + 1;
    high = no_cost - high > 2 * step ? high + step : no_cost - 1;
    if (step > no_cost / 8) { step /= 2; }
  }
  while (low < high) {
    cost_units const middle = low + (high - low) / 2;
    if (suffices(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_BOUND_HPP
