// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_COMPILED_SCHEDULE_HPP
#define BALLAST_PIPELINE_COMPILED_SCHEDULE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/detail/schedule/task_list.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// A schedule that cannot deadlock, with its tasks in an order in which they can be simulated one
/// after the other: a task comes after all that it waits for.
///
/// A task waits for the one before it on its rank, for the same pass on the stages that feed its
/// stage (backward: that its stage feeds) and a backward for its own forward, which its rank has
/// done before.
///
/// Ensures     (1) every microbatch has one forward on every stage and one backward on every stage
///             that has a backward
///             (2) waits_for(t) are tasks before t
///             (3) tasks_before(k) tasks come first that depend on positions below k only: they can
///                 be simulated once the first k microbatches of an order are known
/// Complexity  make: O(tasks + waits).
class compiled_schedule {
 public:
  /// Errors   infeasible: the schedule deadlocks (the message names the tasks that need each
  ///          other), or lacks or repeats a task, or has one on another rank than its stage's or
  ///          one that its stage does not have, or has a list too few or too many; out_of_range: a
  ///          task names a microbatch or stage that does not exist, or there are 2^31 tasks or
  ///          more. position is the pipeline rank, of the first task in the message.
  [[nodiscard]] static result<compiled_schedule> make(stage_graph const& stages,
                                                      pipeline_schedule const& schedule)
  {
    auto const list = detail::list_tasks(stages, schedule);
    if (!list) { return tl::unexpected(list.error()); }
    detail::task_list const& listed = *list;
    auto const in_order = detail::sort_tasks(stages, listed);
    if (!in_order) { return tl::unexpected(in_order.error()); }
    std::vector<std::uint32_t> const& sorted = *in_order;

    compiled_schedule compiled(stages, schedule.microbatches);
    std::size_t const count = listed.tasks.size();
    std::vector<std::uint32_t> level(count);  // the highest position that a task depends on
    for (std::uint32_t const task : sorted) {
      level[task] = listed.tasks[task].position;
      for (task_wait const& wait : listed.waits_for(task)) {
        level[task] = std::max(level[task], level[wait.task]);
      }
    }
    jagged<std::size_t, std::uint32_t> of_levels;
    of_levels.fill(schedule.microbatches, [&](auto const& visit) {
      for (std::uint32_t const task : sorted) { visit(std::size_t{level[task]}, task); }
    });
    compiled.tasks_before_.assign(of_levels.offsets().begin(), of_levels.offsets().end());
    std::vector<std::uint32_t> number(count);  // of a listed task, among the compiled ones
    for (std::uint32_t at = 0; at < count; ++at) { number[of_levels.values()[at]] = at; }
    for (std::uint32_t const task : of_levels.values()) {
      compiled.tasks_.push_back(listed.tasks[task]);
      for (auto const& [other, transfer] : listed.waits_for(task)) {
        compiled.waits_.push_back({number[other], transfer});
      }
      compiled.waits_.end_row();
    }
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      for (std::size_t task = listed.first_of_rank[rank]; task < listed.first_of_rank[rank + 1];
           ++task) {
        compiled.of_ranks_.push_back(number[task]);
      }
      compiled.of_ranks_.end_row();
    }
    return compiled;
  }

  /// The schedule that a policy writes for so many microbatches.
  ///
  /// Errors   those of the policy, and those above.
  template <schedule_policy Policy>
  [[nodiscard]] static result<compiled_schedule> make(stage_graph const& stages,
                                                      Policy const& policy,
                                                      std::size_t microbatches)
  {
    auto const schedule = policy(stages, microbatches);
    if (!schedule) { return tl::unexpected(schedule.error()); }
    return make(stages, *schedule);
  }

  [[nodiscard]] stage_graph const& stages() const noexcept { return stages_; }
  [[nodiscard]] std::size_t microbatches() const noexcept { return microbatches_; }

  /// Every task after those that it waits for.
  [[nodiscard]] std::span<pipeline_task const> tasks() const noexcept
  {
    return detail::span_of(tasks_);
  }

  /// First the task before it on its rank, if there is one, with no transfer.
  [[nodiscard]] std::span<task_wait const> waits_for(std::size_t task) const
  {
    BALLAST_EXPECTS(task < tasks_.size(), "task ", task, " of a schedule of ",
                    detail::counted(tasks_.size(), "task"));
    return waits_[task];
  }

  /// How many of tasks() depend on the first `positions` microbatches of an order only.
  [[nodiscard]] std::size_t tasks_before(std::size_t positions) const
  {
    BALLAST_EXPECTS(positions <= microbatches_, "the first ",
                    detail::counted(positions, "microbatch"), " of a schedule of ", microbatches_);
    return tasks_before_[positions];
  }

  /// The numbers of a rank's tasks, in the order in which it does them.
  [[nodiscard]] std::span<std::uint32_t const> tasks_on(pipeline_rank rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < stages_.ranks(), "rank ", rank, " of a schedule of ",
                    detail::counted(stages_.ranks(), "rank"));
    return of_ranks_[rank];
  }

  friend bool operator==(compiled_schedule const&, compiled_schedule const&) = default;

 private:
  compiled_schedule(stage_graph stages, std::size_t microbatches)
      : stages_(std::move(stages)), microbatches_(microbatches)
  {}

  stage_graph stages_;
  std::size_t microbatches_;
  std::vector<pipeline_task> tasks_;
  jagged<std::size_t, task_wait> waits_;  // of each task
  std::vector<std::size_t> tasks_before_;
  jagged<pipeline_rank, std::uint32_t> of_ranks_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_COMPILED_SCHEDULE_HPP
