// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_STAGE_TIMES_OF_HPP
#define BALLAST_RUNTIME_DETAIL_STAGE_TIMES_OF_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/runtime/scheduler_setup.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Splits what a replica takes for a microbatch over its stages, by their layers.
///
/// Shapes      stages[module.layers.size()]
/// Ensures     the times of all stages add up to `whole`
inline void stage_times_of(std::span<stage_time> stages, scheduled_module const& module,
                           stage_time const& whole)
{
  std::uint64_t const all = module.all_layers();
  std::uint64_t below = 0;
  stage_time taken;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    below += module.layers[stage];
    auto const part = [&](time_units time) {
      return static_cast<time_units>(static_cast<uint128>(time) * below / all);
    };
    stage_time const next{part(whole.forward), part(whole.backward)};
    stages[stage] = {next.forward - taken.forward, next.backward - taken.backward};
    taken = next;
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_STAGE_TIMES_OF_HPP
