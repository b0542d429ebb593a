// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/pipeline/schedule.hpp>

#include "test.hpp"

#include <ballast/pipeline/stage_graph.hpp>

namespace ballast_test {

/// A task as something that can be a key.
using task_key = std::tuple<ballast::stage_id, ballast::pass, std::uint32_t>;

[[nodiscard]] inline task_key key_of(ballast::pipeline_task const& task)
{
  return {task.stage, task.pass, task.position};
}

/// What a task waits for on other ranks, and on its own before it, from the definition.
[[nodiscard]] inline std::vector<task_key> needs_of(ballast::stage_graph const& stages,
                                                    ballast::pipeline_task const& task)
{
  std::vector<task_key> needs;
  for (ballast::stage_link const& link : stages.links()) {
    if (task.pass == ballast::pass::forward && link.to == task.stage) {
      needs.emplace_back(link.from, task.pass, task.position);
    }
    if (task.pass == ballast::pass::backward && link.from == task.stage) {
      needs.emplace_back(link.to, task.pass, task.position);
    }
  }
  if (task.pass == ballast::pass::backward) {
    needs.emplace_back(task.stage, ballast::pass::forward, task.position);
  }
  return needs;
}

/// Oracle: lets every rank do its next task when what that needs is done, until none can.
[[nodiscard]] inline bool deadlocks(ballast::stage_graph const& stages,
                                    ballast::pipeline_schedule const& schedule)
{
  std::set<task_key> done;
  std::vector<std::size_t> next(schedule.ranks.size(), 0);
  bool progress = true;
  while (progress) {
    progress = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      auto const& tasks = schedule.ranks[rank];
      while (next[rank] < tasks.size() &&
             std::ranges::all_of(
                 needs_of(stages, tasks[next[rank]]),
                 [&](task_key const& need) { return done.contains(need); })) {
        done.insert(key_of(tasks[next[rank]++]));
        progress = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] < schedule.ranks[rank].size()) { return true; }
  }
  return false;
}

/// Every task that the stages have, once and on the rank of its stage, and no deadlock.
inline void expect_sound(ballast::stage_graph const& stages,
                         ballast::pipeline_schedule const& schedule, std::size_t microbatches)
{
  ASSERT_EQ(schedule.microbatches, microbatches);
  ASSERT_EQ(schedule.ranks.size(), stages.ranks());
  std::set<task_key> seen;
  std::size_t tasks = 0;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (ballast::pipeline_task const& task : schedule.ranks[rank]) {
      ASSERT_LT(task.position, microbatches);
      ASSERT_EQ(ballast::to_index(stages[task.stage].rank), rank);
      ASSERT_TRUE(task.pass == ballast::pass::forward || stages[task.stage].backward);
      seen.insert(key_of(task));
      ++tasks;
    }
  }
  std::size_t expected = 0;
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    expected += microbatches * (stages[ballast::to_id<ballast::stage_id>(stage)].backward ? 2 : 1);
  }
  ASSERT_EQ(seen.size(), expected);
  ASSERT_EQ(tasks, expected);
  ASSERT_FALSE(deadlocks(stages, schedule));
}

/// The most microbatches whose forward a stage has done and whose backward it has not.
[[nodiscard]] inline std::size_t most_in_memory(std::vector<ballast::pipeline_task> const& tasks,
                                                ballast::stage_id stage)
{
  std::size_t held = 0;
  std::size_t most = 0;
  for (ballast::pipeline_task const& task : tasks) {
    if (task.stage != stage) { continue; }
    held = task.pass == ballast::pass::forward ? held + 1 : held - 1;
    most = std::max(most, held);
  }
  return most;
}

}  // namespace ballast_test
