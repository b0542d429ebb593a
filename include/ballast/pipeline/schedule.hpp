// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace ballast::inline v0 {

/// The passes of a microbatch through a stage. Where the backward of a stage is in two parts,
/// `backward` is the gradients of its inputs, and `weights` those of its weights.
enum class pass : std::uint8_t { forward, backward, weights };

/// One pass of one microbatch through one stage. The schedule only knows the position of the
/// microbatch; an order says which microbatch is there. So one schedule serves all orders.
struct pipeline_task {
  std::uint32_t position = 0;
  stage_id stage{};
  ballast::pass pass = ballast::pass::forward;
  friend bool operator==(pipeline_task const&, pipeline_task const&) = default;
};

/// A task that must be done before another one.
struct task_wait {
  std::uint32_t task = 0;   ///< its number
  time_units transfer = 0;  ///< from its end until the waiting task can start
  friend bool operator==(task_wait const&, task_wait const&) = default;
};

/// What each pipeline rank does, in order: plain data, so that a trainer can write its own.
///
/// compiled_schedule::make checks it.
struct pipeline_schedule {
  std::size_t microbatches = 0;
  std::vector<std::vector<pipeline_task>> ranks;  ///< the tasks of each rank, first to last
  friend bool operator==(pipeline_schedule const&, pipeline_schedule const&) = default;
};

namespace detail {

inline constexpr std::size_t stage_passes = 3;

/// A column is a pass on a stage.
[[nodiscard]] inline std::size_t column_of(stage_id stage, pass direction) noexcept
{
  return stage_passes * to_index(stage) + static_cast<std::size_t>(direction);
}

[[nodiscard]] inline std::size_t column_of(pipeline_task const& task) noexcept
{
  return column_of(task.stage, task.pass);
}

[[nodiscard]] inline bool has_pass(pipeline_stage const& stage, pass direction) noexcept
{
  return direction == pass::forward    ? stage.has_forward()
         : direction == pass::backward ? stage.backward
                                       : stage.weights;
}

/// Calls visit(column, transfer) for each column whose task of a microbatch ends before that of this
/// one begins, and how long before: first for the pass before it on its stage.
template <class Visit>
void for_each_need(stage_graph const& stages, std::size_t column, Visit const& visit)
{
  auto const stage = to_id<stage_id>(column / stage_passes);
  auto const direction = static_cast<pass>(column % stage_passes);
  auto const need = [&](stage_id other, pass of, time_units transfer) {
    if (has_pass(stages[other], of)) { visit(column_of(other, of), transfer); }
  };
  if (!has_pass(stages[stage], direction)) { return; }
  if (direction == pass::weights) {
    need(stage, pass::backward, 0);
  } else if (direction == pass::forward) {
    for (auto const& [from, to, transfer] : stages.links_into(stage)) {
      need(from, direction, transfer);
    }
  } else {
    need(stage, pass::forward, 0);
    for (auto const& [from, to, transfer] : stages.links_out_of(stage)) {
      need(to, direction, transfer);
    }
  }
}

/// Whether a schedule of so many microbatches has fewer than 2^31 tasks, so that 32 bits are enough
/// to number them.
[[nodiscard]] inline result<void> check_microbatches(stage_graph const& stages,
                                                     std::size_t microbatches)
{
  constexpr std::size_t most_tasks = std::size_t{1} << 31;
  if (microbatches < most_tasks / stage_passes / stages.stages()) { return {}; }
  return fail(error_code::out_of_range, 0, "a schedule of ", counted(microbatches, "microbatch"),
              " on ", counted(stages.stages(), "stage"),
              " has 2^31 tasks or more; use fewer microbatches");
}

}  // namespace detail

/// Writes the schedule of some number of microbatches for the stages of a model.
///
/// Errors      infeasible: the policy has no schedule for such stages; out_of_range: there would be
///             2^31 tasks or more.
template <class P>
concept schedule_policy = requires(P const policy, stage_graph const& stages, std::size_t count) {
  { policy(stages, count) } -> std::same_as<result<pipeline_schedule>>;
};

namespace detail {

// The tasks of a schedule, checked to be complete, what each of them needs, and an order in which
// all of them can be done.

inline constexpr std::uint32_t no_task = std::numeric_limits<std::uint32_t>::max();

/// The tasks of all ranks, rank after rank, where to find each, and what each needs.
struct task_list {
  std::size_t microbatches = 0;
  std::vector<pipeline_task> tasks;
  std::vector<std::size_t> first_of_rank;  ///< of ranks + 1
  std::vector<std::uint32_t> at;           ///< by number_of; no_task where there is none
  jagged<std::size_t, task_wait> needs;    ///< of each task

  [[nodiscard]] std::size_t number_of(pipeline_task const& task) const noexcept
  {
    return column_of(task) * microbatches + task.position;
  }
  [[nodiscard]] std::uint32_t find(pipeline_task const& task) const { return at[number_of(task)]; }

  /// What must be done before a task: before a backward its own forward and before a weights pass
  /// its own backward, which are no waits in a schedule without deadlock since their rank has done
  /// them; then what it waits for.
  [[nodiscard]] std::span<task_wait const> needs_of(std::uint32_t task) const
  {
    return needs[task];
  }
  /// What a task waits for: first the one before it on its rank, if there is one.
  [[nodiscard]] std::span<task_wait const> waits_for(std::uint32_t task) const
  {
    return needs_of(task).subspan(own_before(tasks[task]) != no_task ? 1 : 0);
  }

  /// The forward of a backward, and the backward of a weights pass; no_task for a forward, or where
  /// the stage has none.
  [[nodiscard]] std::uint32_t own_before(pipeline_task const& task) const
  {
    if (task.pass == pass::forward) { return no_task; }
    return find(
        {task.position, task.stage, task.pass == pass::weights ? pass::backward : pass::forward});
  }
};

[[nodiscard]] inline std::string text_of(pipeline_task const& task)
{
  constexpr std::array<std::string_view, stage_passes> names{"forward ", "backward ",
                                                             "weights pass "};
  return concat(names[static_cast<std::size_t>(task.pass)], task.position, " on stage ",
                to_index(task.stage));
}

/// Fills in what each task of a list needs. Expects that its tasks are complete.
inline void find_needs(task_list& list, stage_graph const& stages)
{
  for (std::uint32_t task = 0; task < list.tasks.size(); ++task) {
    auto const& [position, stage, direction] = list.tasks[task];
    bool const forward = direction == pass::forward;
    if (std::uint32_t const own = list.own_before(list.tasks[task]); own != no_task) {
      list.needs.push_back({own, 0});
    }
    if (task != list.first_of_rank[to_index(stages[stage].rank)]) {
      list.needs.push_back({task - 1, 0});
    }
    if (direction == pass::weights) {
      list.needs.end_row();
      continue;
    }
    for (stage_link const& link : forward ? stages.links_into(stage) : stages.links_out_of(stage)) {
      stage_id const other = forward ? link.from : link.to;
      std::uint32_t const awaited = list.find({position, other, direction});
      if (awaited != no_task) { list.needs.push_back({awaited, link.transfer}); }
    }
    list.needs.end_row();
  }
}

/// Errors  those of compiled_schedule, except that a schedule that deadlocks is listed.
[[nodiscard]] inline result<task_list> list_tasks(stage_graph const& stages,
                                                  pipeline_schedule const& schedule)
{
  if (schedule.ranks.size() != stages.ranks()) {
    return fail(error_code::infeasible, 0, "the schedule is for ",
                counted(schedule.ranks.size(), "pipeline rank"), " and the stages are on ",
                stages.ranks(), "; write one list of tasks per rank");
  }
  std::size_t listed = 0;
  for (auto const& tasks : schedule.ranks) { listed += tasks.size(); }
  if (listed < schedule.microbatches) {
    return fail(error_code::infeasible, 0, "the schedule lists ", counted(listed, "task"), " for ",
                counted(schedule.microbatches, "microbatch"),
                "; every stage does a forward of each");
  }
  if (auto const fits = check_microbatches(stages, schedule.microbatches); !fits) {
    return tl::unexpected(fits.error());
  }
  task_list list;
  list.microbatches = schedule.microbatches;
  list.at.assign(stage_passes * stages.stages() * list.microbatches, no_task);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    list.first_of_rank.push_back(list.tasks.size());
    for (pipeline_task const& task : schedule.ranks[rank]) {
      auto const refuse = [&](error_code code, std::string_view why) {
        return fail(code, rank, "pipeline rank ", rank, " does ", text_of(task), why);
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
      if (task.pass == pass::weights && !stages[task.stage].weights) {
        return refuse(error_code::infeasible, ", whose backward is whole; leave it out");
      }
      if (task.pass == pass::forward && !stages[task.stage].has_forward()) {
        return refuse(error_code::infeasible, ", which only sends gradients; leave it out");
      }
      std::uint32_t& number = list.at[list.number_of(task)];
      if (number != no_task) { return refuse(error_code::infeasible, " twice; leave one out"); }
      number = static_cast<std::uint32_t>(list.tasks.size());
      list.tasks.push_back(task);
    }
  }
  list.first_of_rank.push_back(list.tasks.size());
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    pipeline_stage const& each = stages[to_id<stage_id>(stage)];
    pipeline_rank const rank = each.rank;
    for (pass const direction : {pass::forward, pass::backward, pass::weights}) {
      if (!has_pass(each, direction)) { continue; }
      for (std::uint32_t position = 0; position < list.microbatches; ++position) {
        pipeline_task const task{position, to_id<stage_id>(stage), direction};
        if (list.find(task) == no_task) {
          return fail(error_code::infeasible, to_index(rank), "pipeline rank ", to_index(rank),
                      " never does ", text_of(task), "; add it");
        }
      }
    }
  }
  find_needs(list, stages);
  return list;
}

/// Returns tasks of which each needs the next and the last needs the first. They are tasks at which
/// ranks are stuck, and what these wait for. unmet[tasks]: how many needs of each are not done.
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
    for (task_wait const& need : list.needs_of(task)) {
      if (unmet[need.task] > 0) { next = need.task; }
    }
    return next;
  };
  std::uint32_t task = 0;
  while (unmet[task] == 0) { ++task; }
  std::vector<bool> seen(unmet.size());
  for (; !seen[task]; task = stuck_at(needed(task))) { seen[task] = true; }
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
  auto const need = [&](std::uint32_t task, std::uint32_t other) {
    bool const on_one_rank =
        stages[list.tasks[task].stage].rank == stages[list.tasks[other].stage].rank;
    return (other < task && on_one_rank ? "comes after " : "waits for ") +
           text_of(list.tasks[other]);
  };
  std::string text = text_of(list.tasks[cycle.front()]);
  std::size_t const named = std::min(cycle.size(), most_named);
  for (std::size_t at = 0; at + 1 < named; ++at) {
    text += (at == 0 ? " " : ", which ") + need(cycle[at], cycle[at + 1]);
  }
  text += ", which ";
  if (named < cycle.size()) {
    text += concat("needs ", cycle.size() - named, " more, the last of which ");
  }
  return text + need(cycle.back(), cycle.front());
}

/// The numbers of all tasks, each after those that it needs: first the tasks that need nothing,
/// then, task by task, those whose last need that one was.
///
/// Errors      infeasible: the schedule deadlocks.
[[nodiscard]] inline result<std::vector<std::uint32_t>> sort_tasks(stage_graph const& stages,
                                                                   task_list const& list)
{
  std::size_t const count = list.tasks.size();
  jagged<std::size_t, std::uint32_t> dependents;  // the tasks that need each
  dependents.fill(count, [&](auto const& visit) {
    for (std::uint32_t task = 0; task < count; ++task) {
      for (task_wait const& need : list.needs_of(task)) { visit(std::size_t{need.task}, task); }
    }
  });

  std::vector<std::uint32_t> unmet(count);
  std::vector<std::uint32_t> sorted;
  sorted.reserve(count);
  for (std::uint32_t task = 0; task < count; ++task) {
    unmet[task] = static_cast<std::uint32_t>(list.needs_of(task).size());
    if (unmet[task] == 0) { sorted.push_back(task); }
  }
  for (std::size_t done = 0; done < sorted.size(); ++done) {
    for (std::uint32_t const task : dependents[sorted[done]]) {
      if (--unmet[task] == 0) { sorted.push_back(task); }
    }
  }
  if (sorted.size() == count) { return sorted; }
  auto const cycle = find_cycle(stages, list, span_of(unmet));
  return fail(error_code::infeasible, to_index(stages[list.tasks[cycle.front()].stage].rank),
              "the schedule deadlocks: " + text_of(stages, list, span_of(cycle)) +
                  "; have a rank do earlier what others wait for");
}

}  // namespace detail

/// A schedule that cannot deadlock, with its tasks in an order in which they can be simulated one
/// after the other: a task comes after all that it waits for.
///
/// A task waits for the one before it on its rank, for the same pass on the stages that feed its
/// stage (backward: that its stage feeds), a backward for its own forward and a weights pass for its
/// own backward, which its rank has done before.
///
/// Ensures     (1) every microbatch has one forward on every stage and one backward on every stage
///             that has a backward, and so the weights pass
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
  [[nodiscard]] BALLAST_ONCE static result<compiled_schedule> make(
      stage_graph const& stages, pipeline_schedule const& schedule);

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

#ifdef __cpp_exceptions
  /// Those that the program wrote itself. Where one is wrong, throw what make() says.
  compiled_schedule(stage_graph const& stages, pipeline_schedule const& schedule)
      : compiled_schedule(or_throw(make(stages, schedule)))
  {}
  template <schedule_policy Policy>
  compiled_schedule(stage_graph const& stages, Policy const& policy, std::size_t microbatches)
      : compiled_schedule(or_throw(make(stages, policy, microbatches)))
  {}
#endif

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

#ifndef BALLAST_COMPILED

[[nodiscard]] BALLAST_ONCE result<compiled_schedule> compiled_schedule::make(
    stage_graph const& stages, pipeline_schedule const& schedule)
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

#endif

}  // namespace ballast::inline v0
