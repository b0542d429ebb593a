// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_INTERLEAVED_ONE_FORWARD_ONE_BACKWARD_HPP
#define BALLAST_PIPELINE_INTERLEAVED_ONE_FORWARD_ONE_BACKWARD_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// Interleaved 1F1B: every rank has v stages of a chain, its chunks, and the idle time at both ends
/// of a step shrinks to one v-th.
///
/// Microbatches go in groups of p, the number of ranks. A rank does the forwards of a group through
/// its first chunk, then through its second and so on, and its backwards from the last chunk to the
/// first. Rank r begins to alternate after 2 (p - r - 1) + (v - 1) p forwards, or p - r - 1 where
/// v = 1. A stage without backward leaves its backwards out.
///
/// Ensures     (1) for microbatches that are a multiple of p it is the schedule of Megatron-Core,
///             which in early versions did all forwards first for p of them; with v = 1 it is
///             one_forward_one_backward
///             (2) for other numbers, which Megatron-Core refuses, there are as many groups as fit,
///             with p or more microbatches in each and as equal as can be, larger ones first; in
///             the sum above the size of the largest stands instead of p. Fewer microbatches than
///             ranks are one group
///             (3) it never deadlocks: numbered 2 (x + r), forward x of rank r is above, and
///             numbered 2 (y + w) + 2 r + 1 with w the sum above, backward y is above all tasks
///             that it waits for, since groups have p or more; a group of fewer is one of p without
///             its last ones
/// Errors      infeasible: the stages are not chain_of_stages(v * p, p), and stage `position` is
///             the first that differs; out_of_range: there would be 2^31 tasks or more.
/// Complexity  O(tasks).
/// Source      D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters
///             Using Megatron-LM", SC 2021, section 2.2.
struct interleaved_one_forward_one_backward {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    if (auto const fits = detail::check_microbatches(stages, microbatches); !fits) {
      return tl::unexpected(fits.error());
    }
    std::size_t const ranks = stages.ranks();
    std::size_t const chunks = stages.stages() / ranks;
    if (std::size_t const alien = first_outside_chain(stages); alien < stages.stages()) {
      return fail(error_code::infeasible, alien, "stage ", alien, " of ", stages.stages(),
                  " does not continue a chain that deals equally many stages to each of ", ranks,
                  " ranks in turn, which the interleaved schedule is for; use 1F1B or GPipe");
    }

    struct visit {
      std::uint32_t position;
      std::size_t chunk;
    };
    std::size_t const groups = std::max<std::size_t>(1, microbatches / ranks);
    std::vector<visit> visits;  // forwards in order, or backwards with chunks counted from the last
    std::size_t first = 0;
    for (std::size_t group = 0; group < groups; ++group) {
      std::size_t const end = first + microbatches / groups + (group < microbatches % groups);
      for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        for (std::size_t at = first; at < end; ++at) {
          visits.push_back({static_cast<std::uint32_t>(at), chunk});
        }
      }
      first = end;
    }
    std::size_t const largest = (microbatches + groups - 1) / groups;

    pipeline_schedule schedule{microbatches, {}};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto& tasks = schedule.ranks.emplace_back();
      std::size_t const below = ranks - rank - 1;
      auto const stage = [&](std::size_t chunk) { return to_id<stage_id>(chunk * ranks + rank); };
      detail::alternate_passes(
          visits.size(), chunks == 1 ? below : 2 * below + (chunks - 1) * largest,
          [&](std::size_t turn) {
            auto const [position, chunk] = visits[turn];
            tasks.push_back({position, stage(chunk), pass::forward});
          },
          [&](std::size_t turn) {
            auto const [position, chunk] = visits[turn];
            stage_id const of = stage(chunks - 1 - chunk);
            if (stages[of].backward) { tasks.push_back({position, of, pass::backward}); }
          });
    }
    return schedule;
  }
  friend bool operator==(interleaved_one_forward_one_backward const&,
                         interleaved_one_forward_one_backward const&) = default;

 private:
  /// The number of stages where all are as chain_of_stages deals them, equally many to each rank.
  [[nodiscard]] static std::size_t first_outside_chain(stage_graph const& stages)
  {
    std::size_t const whole = stages.stages() / stages.ranks() * stages.ranks();
    for (std::size_t stage = 0; stage < whole; ++stage) {
      auto const fed_by = stages.links_into(to_id<stage_id>(stage));
      bool const linked =
          stage == 0 ? fed_by.empty() : fed_by.size() == 1 && to_index(fed_by[0].from) == stage - 1;
      if (!linked || to_index(stages[to_id<stage_id>(stage)].rank) != stage % stages.ranks()) {
        return stage;
      }
    }
    return whole;
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_INTERLEAVED_ONE_FORWARD_ONE_BACKWARD_HPP
