// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_GPIPE_HPP
#define BALLAST_PIPELINE_GPIPE_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// GPipe: all forwards, then all backwards. Simple, and every stage keeps all microbatches in
/// memory.
///
/// A rank with several stages does all forwards of its lowest one, then of the next, and the
/// backwards from its highest stage down.
///
/// Ensures     (1) it never deadlocks, whatever the stages: a forward waits for tasks of lower
///             stages, or of its own stage at lower positions; a backward waits for forwards, and
///             for backwards of higher stages, or of its own stage at lower positions
///             (2) backwards are done in the order of the forwards; the paper's figure has them in
///             reverse, which takes as long where all microbatches take equally long
/// Errors      out_of_range: there would be 2^31 tasks or more.
/// Complexity  O(tasks).
/// Source      Y. Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline
///             Parallelism", NeurIPS 2019; several stages per rank: J. Lamy-Poirier, "Breadth-First
///             Pipeline Parallelism", MLSys 2023.
struct gpipe {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    if (auto const fits = detail::check_microbatches(stages, microbatches); !fits) {
      return tl::unexpected(fits.error());
    }
    pipeline_schedule schedule{microbatches, {}};
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      auto& tasks = schedule.ranks.emplace_back();
      auto const pass_all = [&](stage_id stage, pass direction) {
        for (std::uint32_t position = 0; position < microbatches; ++position) {
          tasks.push_back({position, stage, direction});
        }
      };
      std::span<stage_id const> const of_rank = stages.stages_on(to_id<pipeline_rank>(rank));
      for (stage_id const stage : of_rank) {
        if (stages[stage].has_forward()) { pass_all(stage, pass::forward); }
      }
      for (std::size_t left = of_rank.size(); left-- > 0;) {
        if (stages[of_rank[left]].backward) { pass_all(of_rank[left], pass::backward); }
      }
    }
    return schedule;
  }
  friend bool operator==(gpipe const&, gpipe const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_GPIPE_HPP
