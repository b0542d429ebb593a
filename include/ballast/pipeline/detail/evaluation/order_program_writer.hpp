// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_PROGRAM_WRITER_HPP
#define BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_PROGRAM_WRITER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/evaluation/order_program.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// The columns that durations are loaded from.
struct order_columns {
  std::span<std::uint32_t> numbers;  ///< of stage s: forward at 2 s, backward at 2 s + 1
  std::uint32_t count = 0;

  [[nodiscard]] std::uint32_t& operator[](pipeline_task const& task) const
  {
    return numbers[2 * to_index(task.stage) + (task.pass == pass::backward ? 1 : 0)];
  }
};

/// Whether two tasks take equally long, whichever microbatch they are both of. O(microbatches).
[[nodiscard]] inline bool take_equally_long(pipeline_task const& a, pipeline_task const& b,
                                            pipeline_times const& times)
{
  auto const time_of = [&times](pipeline_task const& task, std::size_t row) {
    stage_time const& time = times.rows[row + to_index(task.stage)];
    return task.pass == pass::forward ? time.forward : time.backward;
  };
  for (std::size_t row = 0; row < times.rows.size(); row += times.stages) {
    if (time_of(a, row) != time_of(b, row)) { return false; }
  }
  return true;
}

/// Numbers columns in the order in which `tasks`, the numbers of all tasks, first need them. Passes
/// that take equally long, as those of an LLM's stages often do, share one.
///
/// Complexity  O(tasks), and O(microbatches x columns^2) at worst, where columns differ late.
[[nodiscard]] inline order_columns number_columns(compiled_schedule const& schedule,
                                                  pipeline_times const& times,
                                                  std::span<std::uint32_t const> tasks,
                                                  workspace::frame& scratch)
{
  order_columns columns{scratch.take<std::uint32_t>(2 * times.stages)};
  std::fill(columns.numbers.begin(), columns.numbers.end(), no_column);
  auto const firsts = scratch.take<pipeline_task>(columns.numbers.size());
  for (std::uint32_t const number : tasks) {
    pipeline_task const& task = schedule.tasks()[number];
    if (task.position != 0) { continue; }
    std::uint32_t column = 0;
    while (column < columns.count && !take_equally_long(task, firsts[column], times)) { ++column; }
    if (column == columns.count) { firsts[columns.count++] = task; }
    columns[task] = column;
  }
  return columns;
}

/// Translates a schedule into an order_program, whose arrays live in `scratch`.
///
/// Expects     times of as many microbatches and stages as the schedule has
/// Ensures     (1) a step writes no slot that it reads
///             (2) what a step reads has been written before, by a load or by a step
///             (3) running the program leaves in its slot `makespan` the makespan of the order
///                 whose times were loaded
///             (4) slots are used again, so that a chain under 1F1B has about six per stage and
///                 those of one beat, however many microbatches there are
///             (5) times of passes that take equally long are loaded once
/// Complexity  O(tasks + waits), and that of number_columns().
class order_program_writer {
 public:
  order_program_writer(compiled_schedule const& schedule, pipeline_times const& times,
                       workspace::frame& scratch)
      : schedule_(schedule), times_(times), scratch_(scratch)
  {
    BALLAST_EXPECTS(times.microbatches() == schedule.microbatches(), "times of ",
                    counted(times.microbatches(), "microbatch"), " were given for a schedule of ",
                    schedule.microbatches());
    BALLAST_EXPECTS(times.stages == schedule.stages().stages(), "times on ",
                    counted(times.stages, "stage"), " were given for a schedule of ",
                    schedule.stages().stages());
  }

  [[nodiscard]] order_program operator()()
  {
    sort_tasks();
    columns_ = number_columns(schedule_, times_, tasks_, scratch_);
    program_.groups = (columns_.count + columns_per_load - 1) / columns_per_load;
    sort_loads();
    join_beats();
    // At worst every time is in a slot of its own.
    free_ = scratch_.take<time_slot>(steps_.size() + columns_per_load * loads_.size());
    std::size_t loaded = 0;
    std::size_t done = 0;
    for (order_beat& beat : beats_) {
      for (; loaded < beat.loads; ++loaded) { write_load(loads_[loaded]); }
      for (; done < beat.steps; ++done) { write_task(tasks_[done]); }
      beat.steps = written_;
    }
    program_.beats = beats_;
    program_.loads = loads_;
    program_.steps = steps_.first(written_);
    auto const transfers = transfers_.first(written_);
    bool const is_free =
        std::count(transfers.begin(), transfers.end(), time_units{0}) == std::ssize(transfers);
    if (!is_free) { program_.transfers = transfers; }
    program_.columns = columns_.numbers;
    return program_;
  }

 private:
  // Sorts 0, 1, 2, ... by their beats. Those of beat b end at end_[b + 1].
  void sort_into(std::span<std::uint32_t> sorted, std::span<std::uint32_t const> beats)
  {
    std::fill(end_.begin(), end_.end(), std::size_t{0});
    for (std::uint32_t const beat : beats) { ++end_[beat]; }
    std::partial_sum(end_.begin(), end_.end(), end_.begin());
    for (auto at = static_cast<std::uint32_t>(beats.size()); at-- > 0;) {
      sorted[--end_[beats[at]]] = at;
    }
  }

  void sort_tasks()
  {
    std::size_t const count = schedule_.tasks().size();
    beat_of_ = scratch_.take<std::uint32_t>(count);
    readers_ = scratch_.take<std::uint32_t>(count);
    end_of_ = scratch_.take<time_slot>(count);
    tasks_ = scratch_.take<std::uint32_t>(count);
    std::fill(readers_.begin(), readers_.end(), 0U);
    std::size_t beats = 0;
    std::size_t most_steps = schedule_.stages().ranks();  // at most one task of each ends a chain
    for (std::size_t task = 0; task < count; ++task) {
      auto const waits = schedule_.waits_for(task);
      beat_of_[task] = 0;
      for (auto const& wait : waits) {
        beat_of_[task] = std::max(beat_of_[task], beat_of_[wait.task] + 1);
        ++readers_[wait.task];
      }
      beats = std::max(beats, std::size_t{beat_of_[task]} + 1);
      most_steps += std::max<std::size_t>(1, waits.size());
    }
    beats_ = scratch_.take<order_beat>(beats);
    end_ = scratch_.take<std::size_t>(beats + 1);
    steps_ = scratch_.take<order_step>(most_steps);
    transfers_ = scratch_.take<time_units>(most_steps);
    sort_into(tasks_, beat_of_);
    for (std::size_t beat = 0; beat < beats; ++beat) { beats_[beat].steps = end_[beat + 1]; }
  }

  void sort_loads()
  {
    std::size_t const count = schedule_.microbatches() * program_.groups;
    loads_ = scratch_.take<order_load>(count);
    load_of_ = scratch_.take<std::uint32_t>(count);
    auto const begin = scratch_.take<std::uint32_t>(count);
    auto const sorted = scratch_.take<std::uint32_t>(count);
    users_ = scratch_.take<std::uint32_t>(columns_per_load * count);
    std::fill(begin.begin(), begin.end(), no_column);
    std::fill(users_.begin(), users_.end(), 0U);
    for (std::uint32_t const number : tasks_) {
      pipeline_task const& task = schedule_.tasks()[number];
      std::uint32_t& beat = begin[load_index(task)];
      beat = std::min(beat, beat_of_[number]);
      ++users_[time_index(task)];
    }
    sort_into(sorted, begin);
    for (std::uint32_t load = 0; load < count; ++load) {
      load_of_[sorted[load]] = load;
      loads_[load] = {static_cast<std::uint32_t>(sorted[load] / program_.groups),
                      static_cast<std::uint32_t>(sorted[load] % program_.groups),
                      {}};
    }
    for (std::size_t beat = 0; beat < beats_.size(); ++beat) {
      beats_[beat].loads = end_[beat + 1];
    }
  }

  // A processor mispredicts the end of the loads and of the steps of a beat, and stalls. A beat of
  // a chain has one step per rank, too few for that price.
  void join_beats()
  {
    constexpr std::size_t fewest_steps = 64;
    std::size_t joined = 0;
    std::size_t begin = 0;
    for (order_beat const& beat : beats_) {
      if (beat.steps - begin < fewest_steps && &beat != &beats_.back()) { continue; }
      begin = beat.steps;
      beats_[joined++] = beat;
    }
    beats_ = beats_.first(joined);
  }

  void write_load(order_load& load)
  {
    std::size_t const first = columns_per_load * load.group;
    for (std::size_t i = 0; i < columns_per_load && first + i < columns_.count; ++i) {
      load.to[i] = take();
    }
  }

  void write_task(std::uint32_t number)
  {
    pipeline_task const& task = schedule_.tasks()[number];
    auto const waits = schedule_.waits_for(number);
    std::size_t begin = written_;
    order_step step;
    time_units transfer = 0;
    for (auto const& wait : waits) {
      if (&wait == waits.data() && wait.transfer == 0) {
        step.first = end_of_[wait.task];
        continue;
      }
      if (step.second != no_time) { step = {write(step, transfer), no_time, no_time, no_time}; }
      step.second = end_of_[wait.task];
      transfer = wait.transfer;
    }
    step.duration = loads_[load_of_[load_index(task)]].to[columns_[task] % columns_per_load];
    end_of_[number] = write(step, transfer);

    for (; begin + 1 < written_; ++begin) { give_back(steps_[begin].end); }
    if (--users_[time_index(task)] == 0) { give_back(step.duration); }
    for (auto const& wait : waits) {
      if (--readers_[wait.task] == 0) { give_back(end_of_[wait.task]); }
    }
    if (readers_[number] == 0) { write_last(end_of_[number]); }
  }

  // Nothing waits for the task that ends here, so that it may be the last of all.
  void write_last(time_slot end)
  {
    time_slot const before = std::exchange(program_.makespan, end);
    if (before != no_time) {
      program_.makespan = write({before, end, no_time, no_time}, 0);
      give_back(before);
      give_back(end);
    }
  }

  time_slot write(order_step step, time_units transfer)
  {
    step.end = take();
    transfers_[written_] = transfer;
    steps_[written_++] = step;
    return step.end;
  }

  [[nodiscard]] std::size_t load_index(pipeline_task const& task) const
  {
    return task.position * program_.groups + columns_[task] / columns_per_load;
  }
  [[nodiscard]] std::size_t time_index(pipeline_task const& task) const
  {
    return columns_per_load * load_index(task) + columns_[task] % columns_per_load;
  }
  [[nodiscard]] time_slot take()
  {
    if (free_count_ > 0) { return free_[--free_count_]; }
    return static_cast<time_slot>(std::exchange(program_.slots, program_.slots + fewest_lanes));
  }
  void give_back(time_slot slot) { free_[free_count_++] = slot; }

  compiled_schedule const& schedule_;
  pipeline_times const& times_;
  workspace::frame& scratch_;
  order_program program_;
  std::span<order_beat> beats_;
  std::span<order_load> loads_;
  std::span<order_step> steps_;
  std::span<time_units> transfers_;
  std::size_t written_ = 0;
  order_columns columns_;
  std::span<std::uint32_t> tasks_;    // by beat
  std::span<std::uint32_t> beat_of_;  // each task
  std::span<std::uint32_t> readers_;  // of each task's end that are still to come
  std::span<time_slot> end_of_;       // each task
  std::span<std::uint32_t> load_of_;  // each position and group
  std::span<std::uint32_t> users_;    // of each loaded time that are still to come
  std::span<std::size_t> end_;        // of sort_into
  std::span<time_slot> free_;
  std::size_t free_count_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_EVALUATION_ORDER_PROGRAM_WRITER_HPP
