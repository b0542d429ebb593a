// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_STAGE_LEAD_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_STAGE_LEAD_HPP

#include <ballast/core/ids.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ballast::inline v0::detail {

/// How many forwards a stage is ahead of its backwards: it does backward k right after forward
/// k + lead, or after the last one. Nothing where the stage is not alone on its rank, has no
/// backward, or does its passes in another order.
///
/// In 1F1B it is the number of stages behind, in GPipe that of microbatches less one.
[[nodiscard]] inline std::optional<std::size_t> lead_of(compiled_schedule const& schedule,
                                                        stage_id stage)
{
  auto const& [rank, backward] = schedule.stages()[stage];
  if (!backward || schedule.stages().stages_on(rank).size() > 1) { return std::nullopt; }
  std::size_t forwards = 0;
  std::size_t backwards = 0;
  std::size_t lead = 0;
  for (std::uint32_t const number : schedule.tasks_on(rank)) {
    auto const& [position, of, direction] = schedule.tasks()[number];
    std::size_t& done = direction == pass::forward ? forwards : backwards;
    if (direction == pass::backward && backwards == 0) { lead = forwards - 1; }
    if (position != done || (direction == pass::backward &&
                             forwards != std::min(schedule.microbatches(), backwards + lead + 1))) {
      return std::nullopt;
    }
    ++done;
  }
  return lead;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_STAGE_LEAD_HPP
