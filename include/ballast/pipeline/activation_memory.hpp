// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_ACTIVATION_MEMORY_HPP
#define BALLAST_PIPELINE_ACTIVATION_MEMORY_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/pipeline_timeline.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// How many bytes of activations a rank keeps from some time on.
struct memory_level {
  time_units since = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(memory_level const&, memory_level const&) = default;
};

/// The activations that a rank keeps while a schedule runs.
struct rank_memory {
  std::uint64_t peak_bytes = 0;
  std::vector<memory_level> levels;  ///< by time; bytes change at each; the last is 0
  friend bool operator==(rank_memory const&, rank_memory const&) = default;
};

/// How much memory the activations of a simulated schedule take, rank by rank.
///
/// The activations of a microbatch are on a stage from the start of its forward to the end of its
/// backward. A stage without backward keeps them for as long as the forward takes: its output is
/// counted where it is an input, by the stages that it feeds, and so is what a transfer sends.
///
/// Shapes      order[microbatches]; bytes[microbatches x stages], microbatch by microbatch.
/// Expects     timeline is what simulate() finds for the schedule and the order; the bytes of all
///             tasks of a rank together fit 64 bits.
/// Ensures     (1) one per pipeline rank
///             (2) levels tell what is kept at every time; before the first it is nothing
///             (3) peak_bytes is the most that is kept at once when the rank does its tasks one
///             after the other. It depends on their order and not on times, and is the highest
///             level, unless tasks that take no time hide that one.
/// Complexity  O(tasks).
[[nodiscard]] inline std::vector<rank_memory> activation_memory(
    compiled_schedule const& schedule, pipeline_timeline const& timeline,
    std::span<microbatch_id const> order, std::span<std::uint64_t const> bytes)
{
  stage_graph const& stages = schedule.stages();
  BALLAST_EXPECTS(timeline.start.size() == schedule.tasks().size(),
                  "the timeline has the starts of ", detail::counted(timeline.start.size(), "task"),
                  ", and the schedule ", schedule.tasks().size());
  BALLAST_EXPECTS(timeline.end.size() == schedule.tasks().size(), "the timeline has the ends of ",
                  detail::counted(timeline.end.size(), "task"), ", and the schedule ",
                  schedule.tasks().size());
  BALLAST_EXPECTS(order.size() == schedule.microbatches(), "the order has ",
                  detail::counted(order.size(), "microbatch"), ", and the schedule ",
                  schedule.microbatches());
  BALLAST_EXPECTS(bytes.size() == schedule.microbatches() * stages.stages(), "`bytes` has ",
                  detail::counted(bytes.size(), "entry"), " for ",
                  detail::counted(schedule.microbatches(), "microbatch"), " on ",
                  detail::counted(stages.stages(), "stage"));
  std::vector<rank_memory> memory(stages.ranks());
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    auto& [peak, levels] = memory[rank];
    std::uint64_t kept = 0;
    auto const record = [&levels, &kept](time_units now) {
      if (!levels.empty() && levels.back().since == now) { levels.pop_back(); }
      if (kept != (levels.empty() ? 0 : levels.back().bytes)) { levels.push_back({now, kept}); }
    };
    for (std::uint32_t const task : schedule.tasks_on(to_id<pipeline_rank>(rank))) {
      auto const& [position, stage, direction] = schedule.tasks()[task];
      if (stages[stage].part == model_part::transfer) { continue; }
      std::uint64_t const size =
          bytes[to_index(order[position]) * stages.stages() + to_index(stage)];
      if (direction == pass::forward) {
        kept += size;
        peak = std::max(peak, kept);
        record(timeline.start[task]);
      }
      if (direction == pass::backward || !stages[stage].backward) {
        kept -= size;
        record(timeline.end[task]);
      }
    }
  }
  return memory;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_ACTIVATION_MEMORY_HPP
