// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_ONE_FORWARD_ONE_BACKWARD_HPP
#define BALLAST_PIPELINE_ONE_FORWARD_ONE_BACKWARD_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// Calls forward(k) and backward(k) for all k below `count`: backward k after forward k + `ahead`,
/// or after the last one.
template <class Forward, class Backward>
void alternate_passes(std::size_t count, std::size_t ahead, Forward const& forward,
                      Backward const& backward)
{
  for (std::size_t turn = 0; turn < count + ahead; ++turn) {
    if (turn < count) { forward(turn); }
    if (turn >= ahead) { backward(turn - ahead); }
  }
}

}  // namespace detail

/// 1F1B: as many forwards as it takes to reach the last stage, then a backward after every forward,
/// then the backwards that are left.
///
/// A stage from which the farthest stage that it feeds is d stages away, transfers not counted, has
/// done d forwards more than backwards when the alternation begins. A stage without backward does
/// its forwards one after the other, a transfer its only pass.
///
/// Ensures     (1) a stage with a backward keeps at most d + 1 microbatches in memory
///             (2) it never deadlocks, whatever the links: numbered 2 k - d, forward k of a stage
///             is above, and numbered 2 k + d + 1, backward k is above all tasks that it waits for,
///             since d falls along every link; a transfer's tasks are between those of the stages
///             that it joins
/// Errors      infeasible: pipeline rank `position` has several stages; out_of_range: there would
///             be 2^31 tasks or more.
/// Complexity  O(tasks + links).
/// Source      D. Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training",
///             SOSP 2019 (the order); S. Fan et al., "DAPPLE: A Pipelined Data Parallel Approach
///             for Training Large Models", PPoPP 2021 (with a flush at the end of the step).
struct one_forward_one_backward {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    if (auto const fits = detail::check_microbatches(stages, microbatches); !fits) {
      return tl::unexpected(fits.error());
    }
    std::vector<std::size_t> depth(stages.stages(), 0);  // stages to the farthest one it feeds
    for (std::size_t stage = stages.stages(); stage-- > 0;) {
      for (auto const& [from, to, transfer] : stages.links_out_of(to_id<stage_id>(stage))) {
        std::size_t const step = stages[to].part == model_part::transfer ? 0 : 1;
        depth[stage] = std::max(depth[stage], depth[to_index(to)] + step);
      }
    }
    pipeline_schedule schedule{microbatches, {}};
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      auto const of_rank = stages.stages_on(to_id<pipeline_rank>(rank));
      if (of_rank.size() > 1) {
        return fail(error_code::infeasible, rank, "pipeline rank ", rank, " has ",
                    detail::counted(of_rank.size(), "stage"),
                    ", and 1F1B is for one; use the interleaved schedule or GPipe");
      }
      stage_id const stage = of_rank.front();
      auto& tasks = schedule.ranks.emplace_back();
      auto const add = [&](std::size_t turn, pass direction) {
        tasks.push_back({static_cast<std::uint32_t>(turn), stage, direction});
      };
      detail::alternate_passes(
          microbatches, depth[to_index(stage)],
          [&](std::size_t turn) {
            if (stages[stage].has_forward()) { add(turn, pass::forward); }
          },
          [&](std::size_t turn) {
            if (stages[stage].backward) { add(turn, pass::backward); }
          });
    }
    return schedule;
  }
  friend bool operator==(one_forward_one_backward const&,
                         one_forward_one_backward const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_ONE_FORWARD_ONE_BACKWARD_HPP
