// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace ballast::inline v0::detail {

// A step of which neither the order of the microbatches nor that of any rank's tasks is decided.

/// What each rank does, in order: numbers of tasks.
using task_sequences = std::vector<std::vector<std::uint32_t>>;

inline constexpr time_units no_makespan = std::numeric_limits<time_units>::max();

/// All tasks of a step and what each needs, takes and keeps. The task of microbatch m in a column
/// has the number column x microbatches + m.
class open_step {
 public:
  struct need {
    std::uint32_t column = 0;
    time_units transfer = 0;
  };

  /// Expects  times and memory of as many microbatches and stages, checked.
  open_step(stage_graph const& stages, pipeline_times const& times, pipeline_memory const& memory)
      : stages_(stages), microbatches_(static_cast<std::uint32_t>(times.microbatches()))
  {
    std::size_t const columns = passes * stages.stages();
    rank_of_.resize(columns);
    duration_.assign(columns * microbatches_, 0);
    change_.assign(columns * microbatches_, 0);
    takes_.assign(columns * microbatches_, 0);
    tasks_on_.resize(stages.ranks());
    for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
      for (pass const each : {pass::forward, pass::backward, pass::weights}) {
        add_column(to_id<stage_id>(stage), each, times, memory);
      }
    }
    needed_by_.fill(columns, [this](auto const& visit) {
      for (std::uint32_t column = 0; column < rank_of_.size(); ++column) {
        for (need const& each : needs_[column]) {
          visit(std::size_t{each.column}, need{column, each.transfer});
        }
      }
    });
    most_.assign(stages.ranks(), std::numeric_limits<std::int64_t>::max());
    for (std::size_t rank = 0; rank < memory.most.size(); ++rank) {
      auto const limit = static_cast<std::uint64_t>(most_[rank]);
      most_[rank] = static_cast<std::int64_t>(std::min(memory.most[rank], limit));
    }
  }

  [[nodiscard]] stage_graph const& stages() const noexcept { return stages_; }
  [[nodiscard]] std::uint32_t microbatches() const noexcept { return microbatches_; }
  [[nodiscard]] std::size_t ranks() const noexcept { return most_.size(); }
  [[nodiscard]] std::size_t columns() const noexcept { return rank_of_.size(); }
  [[nodiscard]] std::size_t numbers() const noexcept { return duration_.size(); }
  [[nodiscard]] std::size_t tasks() const noexcept { return tasks_; }
  [[nodiscard]] std::size_t tasks_on(std::size_t rank) const { return tasks_on_[rank]; }

  [[nodiscard]] std::uint32_t column(std::uint32_t task) const { return task / microbatches_; }
  [[nodiscard]] std::uint32_t microbatch(std::uint32_t task) const { return task % microbatches_; }
  [[nodiscard]] std::uint32_t number(std::size_t column, std::uint32_t microbatch) const
  {
    return static_cast<std::uint32_t>(column) * microbatches_ + microbatch;
  }
  [[nodiscard]] static pass pass_of(std::size_t column)
  {
    return static_cast<pass>(column % passes);
  }
  [[nodiscard]] bool exists(std::size_t column) const
  {
    return has_pass(stages_[to_id<stage_id>(column / passes)], pass_of(column));
  }
  [[nodiscard]] std::size_t rank_of(std::size_t column) const { return rank_of_[column]; }
  [[nodiscard]] time_units duration(std::uint32_t task) const { return duration_[task]; }
  /// By how many bytes a task changes what its rank keeps.
  [[nodiscard]] std::int64_t change(std::uint32_t task) const { return change_[task]; }
  /// How many bytes it adds when it starts; a forward without backward gives them back at its end.
  [[nodiscard]] std::int64_t takes(std::uint32_t task) const { return takes_[task]; }
  [[nodiscard]] std::int64_t most(std::size_t rank) const { return most_[rank]; }
  /// The columns whose tasks of a microbatch come before its task in this one, own passes first.
  [[nodiscard]] std::span<need const> needs(std::size_t column) const { return needs_[column]; }
  /// The same from the other end.
  [[nodiscard]] std::span<need const> needed_by(std::size_t column) const
  {
    return needed_by_[column];
  }

  /// The first task of a rank that keeps more than the rank may; no_task where there is none.
  [[nodiscard]] std::uint32_t first_above(std::span<std::uint32_t const> tasks,
                                          std::size_t rank) const
  {
    std::int64_t kept = 0;
    for (std::uint32_t const task : tasks) {
      if (kept + takes_[task] > most_[rank]) { return task; }
      kept += change_[task];
    }
    return no_task;
  }
  [[nodiscard]] bool fits(task_sequences const& sequences) const
  {
    for (std::size_t rank = 0; rank < sequences.size(); ++rank) {
      if (first_above(span_of(sequences[rank]), rank) != no_task) { return false; }
    }
    return true;
  }

 private:
  void add_column(stage_id stage, pass direction, pipeline_times const& times,
                  pipeline_memory const& memory)
  {
    std::size_t const column = column_of(stage, direction);
    pipeline_stage const& own = stages_[stage];
    rank_of_[column] = static_cast<std::uint32_t>(to_index(own.rank));
    if (!has_pass(own, direction)) {
      needs_.end_row();
      return;
    }
    tasks_ += microbatches_;
    tasks_on_[to_index(own.rank)] += microbatches_;
    for (std::uint32_t at = 0; at < microbatches_; ++at) {
      std::size_t const row = at * times.stages + to_index(stage);
      duration_[number(column, at)] = times.of(row, direction);
      if (own.part == model_part::transfer) { continue; }
      auto const held = static_cast<std::int64_t>(memory.held[row].held);
      if (direction == pass::forward) { takes_[number(column, at)] = held; }
      if (!own.backward) { continue; }
      auto const kept = own.weights ? static_cast<std::int64_t>(memory.held[row].for_weights) : 0;
      change_[number(column, at)] = direction == pass::forward    ? held
                                    : direction == pass::backward ? kept - held
                                                                  : -kept;
    }
    auto const add = [&](stage_id other, pass of, time_units transfer) {
      if (!has_pass(stages_[other], of)) { return; }
      needs_.push_back({static_cast<std::uint32_t>(column_of(other, of)), transfer});
    };
    if (direction == pass::weights) { add(stage, pass::backward, 0); }
    if (direction == pass::backward) { add(stage, pass::forward, 0); }
    if (direction == pass::forward) {
      for (stage_link const& link : stages_.links_into(stage)) {
        add(link.from, pass::forward, link.transfer);
      }
    } else if (direction == pass::backward) {
      for (stage_link const& link : stages_.links_out_of(stage)) {
        add(link.to, pass::backward, link.transfer);
      }
    }
    needs_.end_row();
  }

  stage_graph const& stages_;
  std::uint32_t microbatches_;
  std::size_t tasks_ = 0;
  std::vector<std::size_t> tasks_on_;
  std::vector<std::uint32_t> rank_of_;
  std::vector<time_units> duration_;
  std::vector<std::int64_t> change_;
  std::vector<std::int64_t> takes_;
  jagged<std::size_t, need> needs_;
  jagged<std::size_t, need> needed_by_;
  std::vector<std::int64_t> most_;
};

/// When the tasks of sequences run.
struct sequence_times {
  std::vector<time_units> start;
  std::vector<time_units> end;
  std::vector<std::uint32_t> index;  ///< of each task in the list of its rank
  std::vector<std::size_t> next;     ///< of each rank
  time_units makespan = no_makespan;

  explicit sequence_times(open_step const& step)
      : start(step.numbers()), end(step.numbers()), index(step.numbers()), next(step.ranks())
  {}

  /// Simulates sequences; no_makespan where they deadlock. O(tasks), times the number of sweeps
  /// over the ranks, which is small where work goes up and down them.
  void simulate(open_step const& step, task_sequences const& sequences)
  {
    constexpr time_units not_done = -1;
    std::fill(end.begin(), end.end(), not_done);
    std::fill(next.begin(), next.end(), std::size_t{0});
    makespan = 0;
    std::size_t done = 0;
    std::size_t before = 0;
    do {
      before = done;
      for (std::size_t sweep = 0; sweep < 2 * next.size(); ++sweep) {
        std::size_t const rank = sweep < next.size() ? sweep : 2 * next.size() - 1 - sweep;
        done += advance(step, span_of(sequences[rank]), next[rank]);
      }
    } while (done > before && done < step.tasks());
    if (done < step.tasks()) { makespan = no_makespan; }
  }

 private:
  std::size_t advance(open_step const& step, std::span<std::uint32_t const> tasks, std::size_t& at)
  {
    std::size_t const first = at;
    time_units free = at > 0 ? end[tasks[at - 1]] : 0;
    for (; at < tasks.size(); ++at) {
      std::uint32_t const task = tasks[at];
      std::uint32_t const column = step.column(task);
      std::uint32_t const microbatch = step.microbatch(task);
      time_units begin = free;
      bool ready = true;
      for (auto const& [other, transfer] : step.needs(column)) {
        time_units const ended = end[step.number(other, microbatch)];
        ready = ready && ended >= 0;
        begin = std::max(begin, ended + transfer);
      }
      if (!ready) { break; }
      start[task] = begin;
      index[task] = static_cast<std::uint32_t>(at);
      free = end[task] = begin + step.duration(task);
    }
    makespan = std::max(makespan, free);
    return at - first;
  }
};

/// What a rank does next: the gradients of inputs that are ready, those of the lowest stage first;
/// else the forward of the next microbatch of the order, on its highest stage first, where memory
/// allows; else a weights pass.
struct greedy_rule {
  std::vector<std::size_t> room = {};  ///< microbatches of a rank on their way; empty: no limit
  bool noisy = false;                  ///< one time in six the last two come before the first
};

/// Builds sequences by a greedy rule: whatever can start first is done first.
///
/// Complexity  O(tasks x (ranks + stages of a rank + what is ready on it)).
class greedy_ranks {
 public:
  explicit greedy_ranks(open_step const& step)
      : step_(step),
        unmet_at_first_(step.numbers()),
        unmet_(step.numbers()),
        ready_at_(step.numbers()),
        next_forward_(step.stages().stages()),
        rank_(step.ranks())
  {
    for (std::uint32_t task = 0; task < step.numbers(); ++task) {
      unmet_at_first_[task] =
          static_cast<std::uint32_t>(step.needs(step.column(task)).size());
    }
  }

  /// Fills `sequences` and returns how long they take; no_makespan where memory brings the rule to
  /// a halt.
  [[nodiscard]] time_units operator()(task_sequences& sequences,
                                      std::span<std::uint32_t const> order, greedy_rule const& rule,
                                      random_source& random)
  {
    order_ = order;
    rule_ = &rule;
    unmet_ = unmet_at_first_;
    std::fill(ready_at_.begin(), ready_at_.end(), 0);
    std::fill(next_forward_.begin(), next_forward_.end(), 0U);
    sequences.resize(rank_.size());
    for (std::size_t rank = 0; rank < rank_.size(); ++rank) {
      sequences[rank].clear();
      rank_[rank].restart();
    }
    for (std::size_t rank = 0; rank < rank_.size(); ++rank) { choose(rank, random); }
    time_units makespan = 0;
    for (std::size_t done = 0; done < step_.tasks(); ++done) {
      std::size_t first = 0;
      for (std::size_t rank = 1; rank < rank_.size(); ++rank) {
        if (rank_[rank].start < rank_[first].start) { first = rank; }
      }
      if (rank_[first].start == no_makespan) { return no_makespan; }
      sequences[first].push_back(rank_[first].task);
      makespan = std::max(makespan, run(first, random));
    }
    return makespan;
  }

 private:
  struct rank_state {
    time_units free = 0;
    std::int64_t kept = 0;
    std::size_t on_their_way = 0;
    std::vector<std::uint32_t> backwards;  ///< that have all that they need
    std::vector<std::uint32_t> weights;
    std::size_t weights_done = 0;
    std::uint32_t task = 0;  ///< what it does next, and when
    time_units start = 0;

    void restart()
    {
      free = kept = 0;
      on_their_way = weights_done = 0;
      backwards.clear();
      weights.clear();
    }
  };

  /// The next forward of a stage, if the rank can do it; no_task else.
  [[nodiscard]] std::uint32_t forward_of(rank_state const& of, std::size_t rank,
                                         stage_id stage) const
  {
    std::uint32_t const done = next_forward_[to_index(stage)];
    if (done == order_.size()) { return no_task; }
    std::uint32_t const task = step_.number(column_of(stage, pass::forward), order_[done]);
    pipeline_stage const& own = step_.stages()[stage];
    bool const has_room =
        !own.backward || rule_->room.empty() || of.on_their_way < rule_->room[rank];
    bool const fits = has_room && of.kept + step_.takes(task) <= step_.most(rank);
    return own.has_forward() && fits && unmet_[task] == 0 ? task : no_task;
  }

  void choose(std::size_t rank, random_source& random)
  {
    rank_state& of = rank_[rank];
    std::span<stage_id const> const stages = step_.stages().stages_on(to_id<pipeline_rank>(rank));
    of.start = no_makespan;
    auto const when = [&](std::uint32_t task) { return std::max(of.free, ready_at_[task]); };
    std::uint32_t backward = no_task;
    for (std::uint32_t const task : of.backwards) {
      if (backward == no_task || precedes(when(task), when(backward), task, backward)) {
        backward = task;
      }
    }
    std::uint32_t forward = no_task;
    for (std::size_t at = stages.size(); at-- > 0;) {
      std::uint32_t const task = forward_of(of, rank, stages[at]);
      if (task != no_task && (forward == no_task || when(task) < when(forward))) { forward = task; }
    }
    bool const turned = rule_->noisy && random.below(6) == 0;
    auto const take = [&](std::uint32_t task, time_units start) {
      if (task == no_task || start >= of.start) { return; }
      of.task = task;
      of.start = start;
    };
    auto const take_backward = [&] {
      if (backward != no_task) { take(backward, when(backward)); }
    };
    if (!turned) { take_backward(); }
    if (forward != no_task) { take(forward, when(forward)); }
    if (of.weights_done < of.weights.size()) { take(of.weights[of.weights_done], of.free); }
    take_backward();
  }

  time_units run(std::size_t rank, random_source& random)
  {
    rank_state& of = rank_[rank];
    std::uint32_t const task = of.task;
    std::uint32_t const column = step_.column(task);
    std::size_t const stage = column / passes;
    pipeline_stage const& own = step_.stages()[to_id<stage_id>(stage)];
    of.free = of.start + step_.duration(task);
    of.kept += step_.change(task);
    pass const direction = open_step::pass_of(column);
    if (direction == pass::forward) {
      ++next_forward_[stage];
      of.on_their_way += own.backward ? 1 : 0;
    } else if (direction == pass::backward) {
      of.backwards.erase(std::find(of.backwards.begin(), of.backwards.end(), task));
      of.on_their_way -= own.weights || !own.has_forward() ? 0 : 1;
    } else {
      ++of.weights_done;
      --of.on_their_way;
    }
    time_units const end = of.free;
    for (auto const& [other, transfer] : step_.needed_by(column)) {
      std::uint32_t const next = step_.number(other, step_.microbatch(task));
      ready_at_[next] = std::max(ready_at_[next], end + transfer);
      if (--unmet_[next] > 0) { continue; }
      std::size_t const on = step_.rank_of(other);
      if (open_step::pass_of(other) == pass::backward) { rank_[on].backwards.push_back(next); }
      if (open_step::pass_of(other) == pass::weights) { rank_[on].weights.push_back(next); }
      if (on != rank) { choose(on, random); }
    }
    choose(rank, random);
    return end;
  }

  open_step const& step_;
  std::vector<std::uint32_t> unmet_at_first_;
  std::vector<std::uint32_t> unmet_;
  std::vector<time_units> ready_at_;
  std::vector<std::uint32_t> next_forward_;  // of each stage, in the order
  std::vector<rank_state> rank_;
  std::span<std::uint32_t const> order_;
  greedy_rule const* rule_ = nullptr;
};

}  // namespace ballast::inline v0::detail
