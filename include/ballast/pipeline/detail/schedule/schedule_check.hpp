// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_SCHEDULE_SCHEDULE_CHECK_HPP
#define BALLAST_PIPELINE_DETAIL_SCHEDULE_SCHEDULE_CHECK_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/detail/schedule/task_list.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

/// Whether a schedule can be carried out, and in which order it can be looked at.
namespace ballast::inline v0::detail {

/// Tasks of which each needs the next and the last needs the first, given how many needs of each
/// task are not met: those at which ranks are stuck, and what these wait for.
[[nodiscard]] inline std::vector<std::uint32_t> find_cycle(stage_graph const& stages,
                                                           task_list const& list,
                                                           std::span<std::uint32_t const> unmet)
{
  auto const stuck_at = [&](std::uint32_t task) {
    auto const rank = to_index(stages[list.tasks[task].stage].rank);
    auto first = static_cast<std::uint32_t>(list.first_of_rank[rank]);
    while (unmet[first] == 0) { ++first; }
    return first;
  };
  auto const needed = [&](std::uint32_t task) {
    std::uint32_t next = task;
    for_each_need(stages, list, task, [&](std::uint32_t other) {
      if (unmet[other] > 0) { next = other; }
    });
    return next;
  };
  std::uint32_t task = 0;
  while (unmet[task] == 0) { ++task; }
  for (std::vector<bool> seen(unmet.size(), false); !seen[task]; task = stuck_at(needed(task))) {
    seen[task] = true;
  }
  std::vector<std::uint32_t> cycle;
  do {
    cycle.push_back(task);
    std::uint32_t const next = needed(task);
    task = stuck_at(next);
    if (task != next) { cycle.push_back(next); }
  } while (task != cycle.front());
  return cycle;
}

/// A cycle in words: at most 16 tasks of it.
[[nodiscard]] inline std::string text_of(stage_graph const& stages, task_list const& list,
                                         std::span<std::uint32_t const> cycle)
{
  constexpr std::size_t most_named = 16;
  std::string text = text_of(list.tasks[cycle.front()]);
  std::size_t const named = std::min(cycle.size(), most_named);
  for (std::size_t at = 0; at + 1 < named; ++at) {
    text.append(at == 0 ? " " : ", which ")
        .append(comes_after(stages, list, cycle[at], cycle[at + 1]) ? "comes after " : "waits for ")
        .append(text_of(list.tasks[cycle[at + 1]]));
  }
  text += ", which ";
  if (named < cycle.size()) {
    text += "needs " + std::to_string(cycle.size() - named) + " more, the last of which ";
  }
  return text
      .append(comes_after(stages, list, cycle.back(), cycle.front()) ? "comes after "
                                                                     : "waits for ")
      .append(text_of(list.tasks[cycle.front()]));
}

/// The numbers of all tasks, each after those that it needs.
[[nodiscard]] inline result<std::vector<std::uint32_t>> sort_tasks(stage_graph const& stages,
                                                                   task_list const& list)
{
  std::size_t const count = list.tasks.size();
  std::vector<std::uint32_t> unmet(count, 0);
  std::vector<std::size_t> first(count + 1, 0);  // of the tasks that need each, in `dependents`
  for (std::uint32_t task = 0; task < count; ++task) {
    for_each_need(stages, list, task, [&](std::uint32_t other) {
      ++unmet[task];
      ++first[other + 1];
    });
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> dependents(first.back());
  std::vector<std::size_t> next(first.begin(), first.end() - 1);
  for (std::uint32_t task = 0; task < count; ++task) {
    for_each_need(stages, list, task,
                  [&](std::uint32_t other) { dependents[next[other]++] = task; });
  }

  std::vector<std::uint32_t> sorted;
  sorted.reserve(count);
  for (std::uint32_t task = 0; task < count; ++task) {
    if (unmet[task] == 0) { sorted.push_back(task); }
  }
  for (std::size_t done = 0; done < sorted.size(); ++done) {
    for (std::size_t place = first[sorted[done]]; place < first[sorted[done] + 1]; ++place) {
      if (--unmet[dependents[place]] == 0) { sorted.push_back(dependents[place]); }
    }
  }
  if (sorted.size() == count) { return sorted; }
  auto const cycle = find_cycle(stages, list, unmet);
  return fail(error_code::infeasible, to_index(stages[list.tasks[cycle.front()].stage].rank),
              "the schedule deadlocks: " + text_of(stages, list, cycle) +
                  "; have a rank do earlier what others wait for");
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_SCHEDULE_SCHEDULE_CHECK_HPP
