// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PIPELINE_PIPELINE_WORDS_HPP
#define BALLAST_RUNTIME_DETAIL_PIPELINE_PIPELINE_WORDS_HPP

#include <ballast/core/random.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/topology/process_grid.hpp>

#include <cstddef>
#include <cstdint>

/// What ranks compare of a pipeline: a word that differs where it does.
namespace ballast::inline v0::detail {

[[nodiscard]] inline std::uint64_t word_of(process_grid const& grid)
{
  digest all;
  for (std::uint32_t module = 0; module < grid.size(); ++module) {
    auto const [data, pipeline, tensor] = grid[module];
    all.add(data).add(pipeline).add(tensor);
  }
  return all.value();
}

[[nodiscard]] inline std::uint64_t word_of(compiled_schedule const& schedule)
{
  digest all;
  stage_graph const& stages = schedule.stages();
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    auto const& [rank_of_stage, backward, part] = stages[to_id<stage_id>(stage)];
    all.add(std::uint64_t{to_index(rank_of_stage)} << 1U | (backward ? 1U : 0U));
  }
  for (stage_link const& link : stages.links()) {
    all.add(std::uint64_t{to_index(link.from)} << 32U | to_index(link.to));
  }
  for (pipeline_task const& task : schedule.tasks()) {
    all.add(std::uint64_t{task.position} << 32U | to_index(task.stage) << 1U |
            (task.pass == pass::forward ? 0U : 1U));
  }
  return all.value();
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PIPELINE_PIPELINE_WORDS_HPP
