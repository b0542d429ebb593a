// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DISTTRAIN_MAKESPAN_HPP
#define BALLAST_PARALLELISM_DISTTRAIN_MAKESPAN_HPP

#include <ballast/core/quantities.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// What a unit, a module on GPUs of its own, takes of a step.
///
/// Units       those of the step.
struct unit_time {
  time_units microbatch = 0;  ///< a stage's time for a microbatch, forward and backward
  time_units once = 0;  ///< once a step: until its pipeline is full, and what follows the last

  friend bool operator==(unit_time const&, unit_time const&) = default;
};

/// The time of a step of units that follow each other: each fills its pipeline, then the slowest
/// one sets the pace of the other microbatches.
///
/// Units       those of the times; no_cost where they do not fit.
/// Expects     microbatches >= 1, no time is negative.
/// Ensures     (1) sum of `once` + (microbatches - 1) x the longest `microbatch`
/// Complexity  O(units).
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025, section
///             4: once is pp t / vpp.
[[nodiscard]] constexpr time_units disttrain_makespan(std::span<unit_time const> units,
                                                      std::uint64_t microbatches) noexcept
{
  uint128 step = 0;
  time_units slowest = 0;
  for (unit_time const& each : units) {
    step += static_cast<std::uint64_t>(each.once);
    slowest = std::max(slowest, each.microbatch);
  }
  step += static_cast<uint128>(microbatches - 1) * static_cast<std::uint64_t>(slowest);
  return step < static_cast<uint128>(no_cost) ? static_cast<time_units>(step) : no_cost;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_DISTTRAIN_MAKESPAN_HPP
