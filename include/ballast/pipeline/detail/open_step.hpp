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
    std::size_t const columns = stage_passes * stages.stages();
    rank_of_.resize(columns);
    for (std::uint32_t task = 0; task < columns * microbatches_; ++task) {
      column_.push_back(task / microbatches_);
      microbatch_.push_back(task % microbatches_);
    }
    duration_.resize(columns * microbatches_);
    heads_.resize(duration_.size());
    tails_.resize(duration_.size());
    find_paths(stages, times, mutable_span_of(duration_), mutable_span_of(heads_),
               mutable_span_of(tails_));
    change_.assign(columns * microbatches_, 0);
    takes_.assign(columns * microbatches_, 0);
    tasks_on_.resize(stages.ranks());
    work_.resize(stages.ranks());
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
  /// How long all tasks of a rank take together.
  [[nodiscard]] time_units work(std::size_t rank) const { return work_[rank]; }

  [[nodiscard]] std::uint32_t column(std::uint32_t task) const { return column_[task]; }
  [[nodiscard]] std::uint32_t microbatch(std::uint32_t task) const { return microbatch_[task]; }
  [[nodiscard]] std::uint32_t number(std::size_t column, std::uint32_t microbatch) const
  {
    return static_cast<std::uint32_t>(column) * microbatches_ + microbatch;
  }
  [[nodiscard]] static pass pass_of(std::size_t column)
  {
    return static_cast<pass>(column % stage_passes);
  }
  [[nodiscard]] bool exists(std::size_t column) const
  {
    return has_pass(stages_[to_id<stage_id>(column / stage_passes)], pass_of(column));
  }
  [[nodiscard]] std::size_t rank_of(std::size_t column) const { return rank_of_[column]; }
  [[nodiscard]] time_units duration(std::uint32_t task) const { return duration_[task]; }
  /// The longest path of its microbatch to a task, and from the end of the task to the last one.
  [[nodiscard]] time_units head(std::uint32_t task) const { return heads_[task]; }
  [[nodiscard]] time_units tail(std::uint32_t task) const { return tails_[task]; }
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
    for_each_need(stages_, column, [this](std::size_t other, time_units transfer) {
      needs_.push_back({static_cast<std::uint32_t>(other), transfer});
    });
    needs_.end_row();
    if (!has_pass(own, direction)) { return; }
    tasks_ += microbatches_;
    tasks_on_[to_index(own.rank)] += microbatches_;
    for (std::uint32_t at = 0; at < microbatches_; ++at) {
      std::size_t const row = at * times.stages + to_index(stage);
      work_[rank_of_[column]] += duration_[number(column, at)];
      if (own.part == model_part::transfer) { continue; }
      auto const held = static_cast<std::int64_t>(memory.held[row].held);
      if (direction == pass::forward) { takes_[number(column, at)] = held; }
      if (!own.backward) { continue; }
      auto const kept = own.weights ? static_cast<std::int64_t>(memory.held[row].for_weights) : 0;
      change_[number(column, at)] = direction == pass::forward    ? held
                                    : direction == pass::backward ? kept - held
                                                                  : -kept;
    }
  }

  stage_graph const& stages_;
  std::uint32_t microbatches_;
  std::size_t tasks_ = 0;
  std::vector<std::size_t> tasks_on_;
  std::vector<time_units> work_;
  std::vector<std::uint32_t> column_;
  std::vector<std::uint32_t> microbatch_;
  std::vector<std::uint32_t> rank_of_;
  std::vector<time_units> duration_;
  std::vector<time_units> heads_;
  std::vector<time_units> tails_;
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

  /// Simulates sequences; no_makespan where they deadlock or take longer than `most`. Returns how
  /// many tasks it simulated. O(tasks), times the number of sweeps over the ranks, which is small
  /// where work goes up and down them.
  std::size_t simulate(open_step const& step, task_sequences const& sequences,
                       time_units most = no_makespan)
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
    } while (done > before && done < step.tasks() && makespan <= most);
    if (done < step.tasks() || makespan > most) { makespan = no_makespan; }
    return done;
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
      makespan = std::max(makespan, free + step.tail(task));
    }
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
        starts_(step.ranks()),
        rank_(step.ranks())
  {
    for (std::size_t rank = 0; rank < rank_.size(); ++rank) {
      auto const stages = step.stages().stages_on(to_id<pipeline_rank>(rank));
      for (std::size_t at = stages.size(); at-- > 0;) {
        if (!step.stages()[stages[at]].has_forward()) { continue; }
        rank_[rank].stages.push_back(to_index(stages[at]));
      }
    }
    for (std::size_t column = 0; column < step.columns(); ++column) {
      bool const is_last = step.exists(column) && open_step::pass_of(column) != pass::forward &&
                           step.stages()[to_id<stage_id>(column / stage_passes)].has_forward() &&
                           (column % stage_passes + 1 == stage_passes || !step.exists(column + 1));
      is_last_.push_back(is_last);
      pipeline_stage const& own = step.stages()[to_id<stage_id>(column / stage_passes)];
      keeps_.push_back(own.backward && own.part != model_part::transfer);
    }
    for (std::uint32_t task = 0; task < step.numbers(); ++task) {
      unmet_at_first_[task] = static_cast<std::uint32_t>(step.needs(step.column(task)).size());
    }
  }

  /// Fills `sequences` and returns how long they take; no_makespan where memory brings the rule to
  /// a halt or they take longer than `most`. Then they are not all there.
  [[nodiscard]] time_units operator()(task_sequences& sequences,
                                      std::span<std::uint32_t const> order, greedy_rule const& rule,
                                      random_source& random, time_units most = no_makespan)
  {
    order_ = order;
    rule_ = &rule;
    unmet_ = unmet_at_first_;
    std::fill(ready_at_.begin(), ready_at_.end(), 0);
    std::fill(next_forward_.begin(), next_forward_.end(), 0U);
    sequences.resize(rank_.size());
    for (std::size_t rank = 0; rank < rank_.size(); ++rank) {
      sequences[rank].clear();
      rank_[rank].restart(step_.work(rank));
    }
    for (std::size_t rank = 0; rank < rank_.size(); ++rank) { choose(rank, random); }
    time_units makespan = 0;
    for (done_ = 0; done_ < step_.tasks(); ++done_) {
      std::size_t first = 0;
      for (std::size_t rank = 1; rank < rank_.size(); ++rank) {
        if (starts_[rank] < starts_[first]) { first = rank; }
      }
      if (starts_[first] == no_makespan) { return no_makespan; }
      sequences[first].push_back(rank_[first].task);
      makespan = std::max(makespan, run(first, random));
      if (makespan > most) { return no_makespan; }
    }
    return makespan;
  }

  /// How many tasks the last call put into sequences.
  [[nodiscard]] std::size_t done() const noexcept { return done_; }

 private:
  struct rank_state {
    time_units free = 0;
    time_units left = 0;  ///< how long its other tasks take
    std::int64_t kept = 0;
    std::size_t on_their_way = 0;
    std::vector<std::uint32_t> backwards;  ///< that have all that they need
    std::vector<std::uint32_t> weights;
    std::size_t weights_done = 0;
    std::uint32_t task = 0;           ///< what it does next
    std::vector<std::size_t> stages;  ///< that have a forward, highest first

    void restart(time_units work)
    {
      left = work;
      free = kept = 0;
      on_their_way = weights_done = 0;
      backwards.clear();
      weights.clear();
    }
  };

  /// The next forward of a stage, if the rank can do it; no_task else.
  [[nodiscard]] std::uint32_t forward_of(rank_state const& of, std::size_t rank,
                                         std::size_t stage) const
  {
    std::uint32_t const done = next_forward_[stage];
    if (done == order_.size()) { return no_task; }
    std::uint32_t const task = step_.number(stage_passes * stage, order_[done]);
    if (unmet_[task] > 0 || of.kept + step_.takes(task) > step_.most(rank)) { return no_task; }
    bool const has_room = keeps_[stage_passes * stage] == 0 || rule_->room.empty() ||
                          of.on_their_way < rule_->room[rank];
    return has_room ? task : no_task;
  }

  void choose(std::size_t rank, random_source& random)
  {
    rank_state& of = rank_[rank];
    time_units& begin = starts_[rank];
    begin = no_makespan;
    auto const when = [&](std::uint32_t task) { return std::max(of.free, ready_at_[task]); };
    std::uint32_t backward = no_task;
    for (std::uint32_t const task : of.backwards) {
      if (backward == no_task || precedes(when(task), when(backward), task, backward)) {
        backward = task;
      }
    }
    std::uint32_t forward = no_task;
    for (std::size_t const stage : of.stages) {
      std::uint32_t const task = forward_of(of, rank, stage);
      if (task != no_task && (forward == no_task || when(task) < when(forward))) { forward = task; }
    }
    bool const turned = rule_->noisy && random.below(6) == 0;
    auto const take = [&](std::uint32_t task, time_units start) {
      if (task == no_task || start >= begin) { return; }
      of.task = task;
      begin = start;
    };
    auto const take_backward = [&] {
      if (backward != no_task) { take(backward, when(backward)); }
    };
    if (!turned) { take_backward(); }
    if (forward != no_task) { take(forward, when(forward)); }
    if (of.weights_done < of.weights.size()) { take(of.weights[of.weights_done], of.free); }
    take_backward();
  }

  /// Does the next task of a rank. Returns how long the step takes at the least then.
  time_units run(std::size_t rank, random_source& random)
  {
    rank_state& of = rank_[rank];
    std::uint32_t const task = of.task;
    std::uint32_t const column = step_.column(task);
    of.free = starts_[rank] + step_.duration(task);
    of.left -= step_.duration(task);
    of.kept += step_.change(task);
    pass const direction = open_step::pass_of(column);
    if (direction == pass::forward) {
      ++next_forward_[column / stage_passes];
      of.on_their_way += keeps_[column];
    } else if (direction == pass::backward) {
      of.backwards.erase(std::find(of.backwards.begin(), of.backwards.end(), task));
    } else {
      ++of.weights_done;
    }
    of.on_their_way -= is_last_[column];
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
    return end + std::max(of.left, step_.tail(task));
  }

  open_step const& step_;
  std::vector<std::uint32_t> unmet_at_first_;
  std::vector<std::uint32_t> unmet_;
  std::vector<time_units> ready_at_;
  std::vector<std::uint32_t> next_forward_;  // of each stage, in the order
  std::vector<std::uint8_t> is_last_;        // by column, whether it frees what its forward took
  std::vector<std::uint8_t> keeps_;          // by column, whether the stage keeps something
  std::vector<time_units> starts_;           // by rank
  std::vector<rank_state> rank_;
  std::span<std::uint32_t const> order_;
  std::size_t done_ = 0;
  greedy_rule const* rule_ = nullptr;
};

}  // namespace ballast::inline v0::detail
