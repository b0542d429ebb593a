// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DFLOP_MAKESPAN_HPP
#define BALLAST_PARALLELISM_DFLOP_MAKESPAN_HPP

#include <ballast/core/quantities.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// The time of a pipeline's step: every microbatch takes the slowest stage's time on each stage.
///
/// Units       those of `slowest`; no_cost where they do not fit.
/// Expects     microbatches >= 1, stages >= 1, slowest >= 0.
/// Ensures     (1) (microbatches + stages - 1) slowest
/// Source      H. An et al., "DFLOP: A Data-driven Framework for Multimodal LLM Training Pipeline
///             Optimization", arXiv:2603.25120, 2026, Algorithm 1.
[[nodiscard]] constexpr time_units dflop_makespan(std::uint64_t microbatches, std::uint64_t stages,
                                                  time_units slowest) noexcept
{
  uint128 const step =
      static_cast<uint128>(microbatches + stages - 1) * static_cast<std::uint64_t>(slowest);
  return step < static_cast<uint128>(no_cost) ? static_cast<time_units>(step) : no_cost;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_DFLOP_MAKESPAN_HPP
