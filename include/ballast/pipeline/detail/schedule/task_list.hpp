// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_SCHEDULE_TASK_LIST_HPP
#define BALLAST_PIPELINE_DETAIL_SCHEDULE_TASK_LIST_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/units.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

/// The tasks of a schedule, found complete, and what each of them needs.
namespace ballast::inline v0::detail {

inline constexpr std::uint32_t no_task = std::numeric_limits<std::uint32_t>::max();

/// The tasks of all ranks, rank after rank, and where to find each.
struct task_list {
  std::size_t microbatches = 0;
  std::vector<pipeline_task> tasks;
  std::vector<std::size_t> first_of_rank;  ///< of ranks + 1
  std::vector<std::uint32_t> at;           ///< by number_of; no_task where there is none

  [[nodiscard]] std::size_t number_of(pipeline_task const& task) const noexcept
  {
    return (2 * to_index(task.stage) + (task.pass == pass::backward ? 1 : 0)) * microbatches +
           task.position;
  }
  [[nodiscard]] std::uint32_t find(pipeline_task const& task) const { return at[number_of(task)]; }
};

[[nodiscard]] inline std::string text_of(pipeline_task const& task)
{
  return std::string(task.pass == pass::forward ? "forward " : "backward ") +
         std::to_string(task.position) + " on stage " + std::to_string(to_index(task.stage));
}

/// Errors  those of compiled_schedule, except that a schedule that deadlocks is listed.
[[nodiscard]] inline result<task_list> list_tasks(stage_graph const& stages,
                                                  pipeline_schedule const& schedule)
{
  if (schedule.ranks.size() != stages.ranks()) {
    return fail(error_code::infeasible, 0,
                "the schedule is for " + std::to_string(schedule.ranks.size()) +
                    " pipeline ranks and the stages are on " + std::to_string(stages.ranks()) +
                    "; write one list of tasks per rank");
  }
  std::size_t listed = 0;
  for (auto const& tasks : schedule.ranks) { listed += tasks.size(); }
  if (listed < schedule.microbatches) {
    return fail(error_code::infeasible, 0,
                "the schedule lists " + std::to_string(listed) + " tasks for " +
                    std::to_string(schedule.microbatches) +
                    " microbatches; every stage does a forward of each");
  }
  if (auto const fits = check_microbatches(stages, schedule.microbatches); !fits) {
    return tl::unexpected(fits.error());
  }
  task_list list;
  list.microbatches = schedule.microbatches;
  list.at.assign(2 * stages.stages() * list.microbatches, no_task);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    list.first_of_rank.push_back(list.tasks.size());
    for (pipeline_task const& task : schedule.ranks[rank]) {
      auto const refuse = [&](error_code code, std::string_view why) {
        return fail(
            code, rank,
            "pipeline rank " + std::to_string(rank) + " does " + text_of(task) + std::string(why));
      };
      if (task.position >= list.microbatches || to_index(task.stage) >= stages.stages()) {
        return refuse(error_code::out_of_range, ", which does not exist; leave it out");
      }
      if (to_index(stages[task.stage].rank) != rank) {
        return refuse(error_code::infeasible, ", which is on another rank; move it there");
      }
      if (task.pass == pass::backward && !stages[task.stage].backward) {
        return refuse(error_code::infeasible, ", which has no backward; leave it out");
      }
      std::uint32_t& place = list.at[list.number_of(task)];
      if (place != no_task) { return refuse(error_code::infeasible, " twice; leave one out"); }
      place = static_cast<std::uint32_t>(list.tasks.size());
      list.tasks.push_back(task);
    }
  }
  list.first_of_rank.push_back(list.tasks.size());
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    auto const& [rank, backward] = stages[to_id<stage_id>(stage)];
    for (pass const way : {pass::forward, pass::backward}) {
      if (way == pass::backward && !backward) { continue; }
      for (std::uint32_t position = 0; position < list.microbatches; ++position) {
        pipeline_task const task{position, to_id<stage_id>(stage), way};
        if (list.find(task) == no_task) {
          return fail(error_code::infeasible, to_index(rank),
                      "pipeline rank " + std::to_string(to_index(rank)) + " never does " +
                          text_of(task) + "; add it");
        }
      }
    }
  }
  return list;
}

/// Calls `found(task, transfer)` for what a task waits for: first the one before it on its rank.
template <class Found>
void for_each_wait(stage_graph const& stages, task_list const& list, std::uint32_t task,
                   Found const& found)
{
  pipeline_task const& waiting = list.tasks[task];
  if (task != list.first_of_rank[to_index(stages[waiting.stage].rank)]) {
    found(task - 1, time_units{0});
  }
  bool const forward = waiting.pass == pass::forward;
  for (stage_link const& link :
       forward ? stages.links_into(waiting.stage) : stages.links_out_of(waiting.stage)) {
    std::uint32_t const other =
        list.find({waiting.position, forward ? link.from : link.to, waiting.pass});
    found(other, link.transfer);
  }
}

/// Whether a rank does one task before another.
[[nodiscard]] inline bool comes_after(stage_graph const& stages, task_list const& list,
                                      std::uint32_t later, std::uint32_t earlier)
{
  return earlier < later &&
         stages[list.tasks[earlier].stage].rank == stages[list.tasks[later].stage].rank;
}

/// Calls `found(task)` for what must be done before a task: what it waits for and, before a
/// backward, its own forward, which is no wait in a sound schedule since its rank has done it.
template <class Found>
void for_each_need(stage_graph const& stages, task_list const& list, std::uint32_t task,
                   Found const& found)
{
  auto const& [position, stage, way] = list.tasks[task];
  if (way == pass::backward) { found(list.find({position, stage, pass::forward})); }
  for_each_wait(stages, list, task, [&](std::uint32_t other, time_units) { found(other); });
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_SCHEDULE_TASK_LIST_HPP
