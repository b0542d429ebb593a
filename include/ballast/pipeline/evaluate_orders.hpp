// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <memory>

namespace ballast::inline v0 {

namespace detail {

// A schedule as straight-line code that computes how long an order takes; with several lanes in a
// slot, it does so for several orders at once.

/// A slot has as many lanes or a multiple.
inline constexpr std::uint32_t fewest_lanes = 8;

/// Where a time is kept, one per lane: how many times lie before it where a slot has the fewest
/// lanes, so that an address takes no shift. no_time always holds 0.
using time_slot = std::uint32_t;
inline constexpr time_slot no_time = 0;

/// Slot `end` becomes max(slot `first`, slot `second` + its transfer) + slot `duration`.
struct order_step {
  time_slot first = no_time;
  time_slot second = no_time;
  time_slot duration = no_time;
  time_slot end = no_time;
};

/// Durations are loaded four columns at once. A column is a pass on a stage, or passes on stages
/// that take equally long for every microbatch.
inline constexpr std::size_t columns_per_load = 4;

/// Columns 4 x group + i of the microbatch at `position` go to slots `to[i]`. The last group may
/// have fewer than four columns; what is loaded for the others is 0 and goes to no_time.
struct order_load {
  std::uint32_t position = 0;
  std::uint32_t group = 0;
  std::array<time_slot, columns_per_load> to{};
};

/// Where the loads and the steps of a beat end, among all; its loads come before its steps.
struct order_beat {
  std::size_t loads = 0;
  std::size_t steps = 0;
};

/// The code, sorted into beats by the number of tasks on the longest path to a task, so that few
/// steps wait for one of their neighbours, and a processor can overlap them.
struct order_program {
  std::span<order_beat const> beats;
  std::span<order_load const> loads;
  std::span<order_step const> steps;
  std::span<time_units const> transfers;   ///< of the steps; empty where all are 0
  std::span<std::uint32_t const> columns;  ///< by column_of()
  std::size_t groups = 0;                  ///< of four columns
  std::size_t slots = fewest_lanes;        ///< times kept where a slot has the fewest lanes
  time_slot makespan = no_time;            ///< holds the makespan in the end
};

/// In order_program::columns: the stage has no such pass.
inline constexpr std::uint32_t no_column = std::numeric_limits<std::uint32_t>::max();

/// The columns that durations are loaded from.
struct order_columns {
  std::span<std::uint32_t> numbers;  ///< by column_of()
  std::uint32_t count = 0;

  [[nodiscard]] std::uint32_t& operator[](pipeline_task const& task) const
  {
    return numbers[column_of(task)];
  }
};

/// Whether two tasks take equally long, whichever microbatch they are both of. O(microbatches).
[[nodiscard]] inline bool take_equally_long(pipeline_task const& a, pipeline_task const& b,
                                            pipeline_times const& times)
{
  for (std::size_t row = 0; row < times.rows.size(); row += times.stages) {
    if (times.of(row + to_index(a.stage), a.pass) != times.of(row + to_index(b.stage), b.pass)) {
      return false;
    }
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
  order_columns columns{scratch.take<std::uint32_t>(stage_passes * times.stages)};
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
    expect_times_of(schedule, times);
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

// Runs an order_program for several orders at once, each in a lane of its own.
//
// Steps are plain loops over lanes, which g++ and clang turn into vector instructions from -O2 on.
// Loads transpose: a row of the table is what one microbatch takes, and a slot wants one column of
// the rows that the orders name at a position. Vectors of 512 bits are not used: a slot that is
// read soon after it was written is read faster in two halves.

/// What instructions to use. All levels compute the same.
enum class simd_level : std::uint8_t { portable, avx2 };

[[nodiscard]] inline simd_level best_simd_level() noexcept
{
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) { return simd_level::avx2; }
#endif
  return simd_level::portable;
}

/// What a program works on. The table and the slots are aligned to 64 bytes.
template <class T>
struct order_memory {
  T const* table = nullptr;  ///< for each group, four times of each microbatch and of none
  T* slots = nullptr;        ///< each has a T per lane; those of no_time are 0
  microbatch_id const* orders = nullptr;  ///< one per lane, one after the other
  std::size_t positions = 0;              ///< of an order
};

template <class T>
using column_slots = std::array<T*, columns_per_load>;

/// Loads four columns of eight lanes: the row of `orders[lane x positions]` goes to
/// `to[column][lane]`.
struct portable_loads {
  static void load(std::int32_t const* table, microbatch_id const* orders, std::size_t positions,
                   column_slots<std::int32_t> const& to)
  {
    using four [[gnu::vector_size(16), gnu::may_alias]] = std::int32_t;
    auto const row = [=](std::size_t lane) {
      return reinterpret_cast<four const*>(table) + to_index(orders[lane * positions]);
    };
    for (std::size_t lane = 0; lane < 8; lane += 4) {
      four const row0 = *row(lane);
      four const row1 = *row(lane + 1);
      four const row2 = *row(lane + 2);
      four const row3 = *row(lane + 3);
      four const low01 = __builtin_shufflevector(row0, row1, 0, 4, 1, 5);
      four const low23 = __builtin_shufflevector(row2, row3, 0, 4, 1, 5);
      four const high01 = __builtin_shufflevector(row0, row1, 2, 6, 3, 7);
      four const high23 = __builtin_shufflevector(row2, row3, 2, 6, 3, 7);
      *reinterpret_cast<four*>(to[0] + lane) = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
      *reinterpret_cast<four*>(to[1] + lane) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
      *reinterpret_cast<four*>(to[2] + lane) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
      *reinterpret_cast<four*>(to[3] + lane) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
  }

  static void load(std::int64_t const* table, microbatch_id const* orders, std::size_t positions,
                   column_slots<std::int64_t> const& to)
  {
    using two [[gnu::vector_size(16), gnu::may_alias]] = std::int64_t;
    auto const row = [=](std::size_t lane) {
      return reinterpret_cast<two const*>(table) + 2 * to_index(orders[lane * positions]);
    };
    for (std::size_t lane = 0; lane < 8; lane += 2) {
      auto const* const row0 = row(lane);
      auto const* const row1 = row(lane + 1);
      *reinterpret_cast<two*>(to[0] + lane) = __builtin_shufflevector(row0[0], row1[0], 0, 2);
      *reinterpret_cast<two*>(to[1] + lane) = __builtin_shufflevector(row0[0], row1[0], 1, 3);
      *reinterpret_cast<two*>(to[2] + lane) = __builtin_shufflevector(row0[1], row1[1], 0, 2);
      *reinterpret_cast<two*>(to[3] + lane) = __builtin_shufflevector(row0[1], row1[1], 1, 3);
    }
  }
};

#ifdef __x86_64__
struct avx2_loads {
  [[gnu::target("avx2")]] static void load(std::int32_t const* table, microbatch_id const* orders,
                                           std::size_t positions,
                                           column_slots<std::int32_t> const& to)
  {
    using four [[gnu::vector_size(16), gnu::may_alias]] = std::int32_t;
    using eight [[gnu::vector_size(32), gnu::may_alias]] = std::int32_t;
    auto const row = [=](std::size_t lane) {
      return reinterpret_cast<four const*>(table) + to_index(orders[lane * positions]);
    };
    eight const row04 = __builtin_shufflevector(*row(0), *row(4), 0, 1, 2, 3, 4, 5, 6, 7);
    eight const row15 = __builtin_shufflevector(*row(1), *row(5), 0, 1, 2, 3, 4, 5, 6, 7);
    eight const row26 = __builtin_shufflevector(*row(2), *row(6), 0, 1, 2, 3, 4, 5, 6, 7);
    eight const row37 = __builtin_shufflevector(*row(3), *row(7), 0, 1, 2, 3, 4, 5, 6, 7);
    eight const low01 = __builtin_shufflevector(row04, row15, 0, 8, 1, 9, 4, 12, 5, 13);
    eight const low23 = __builtin_shufflevector(row26, row37, 0, 8, 1, 9, 4, 12, 5, 13);
    eight const high01 = __builtin_shufflevector(row04, row15, 2, 10, 3, 11, 6, 14, 7, 15);
    eight const high23 = __builtin_shufflevector(row26, row37, 2, 10, 3, 11, 6, 14, 7, 15);
    *reinterpret_cast<eight*>(to[0]) =
        __builtin_shufflevector(low01, low23, 0, 1, 8, 9, 4, 5, 12, 13);
    *reinterpret_cast<eight*>(to[1]) =
        __builtin_shufflevector(low01, low23, 2, 3, 10, 11, 6, 7, 14, 15);
    *reinterpret_cast<eight*>(to[2]) =
        __builtin_shufflevector(high01, high23, 0, 1, 8, 9, 4, 5, 12, 13);
    *reinterpret_cast<eight*>(to[3]) =
        __builtin_shufflevector(high01, high23, 2, 3, 10, 11, 6, 7, 14, 15);
  }

  [[gnu::target("avx2")]] static void load(std::int64_t const* table, microbatch_id const* orders,
                                           std::size_t positions,
                                           column_slots<std::int64_t> const& to)
  {
    using four [[gnu::vector_size(32), gnu::may_alias]] = std::int64_t;
    auto const row = [=](std::size_t lane) {
      return reinterpret_cast<four const*>(table) + to_index(orders[lane * positions]);
    };
    for (std::size_t lane = 0; lane < 8; lane += 4) {
      four const even01 = __builtin_shufflevector(*row(lane), *row(lane + 1), 0, 4, 2, 6);
      four const odd01 = __builtin_shufflevector(*row(lane), *row(lane + 1), 1, 5, 3, 7);
      four const even23 = __builtin_shufflevector(*row(lane + 2), *row(lane + 3), 0, 4, 2, 6);
      four const odd23 = __builtin_shufflevector(*row(lane + 2), *row(lane + 3), 1, 5, 3, 7);
      *reinterpret_cast<four*>(to[0] + lane) = __builtin_shufflevector(even01, even23, 0, 1, 4, 5);
      *reinterpret_cast<four*>(to[1] + lane) = __builtin_shufflevector(odd01, odd23, 0, 1, 4, 5);
      *reinterpret_cast<four*>(to[2] + lane) = __builtin_shufflevector(even01, even23, 2, 3, 6, 7);
      *reinterpret_cast<four*>(to[3] + lane) = __builtin_shufflevector(odd01, odd23, 2, 3, 6, 7);
    }
  }
};
#endif

/// One step. A step writes no slot that it reads.
template <std::size_t Lanes, class T>
[[gnu::always_inline]] inline void do_step(T const* __restrict first, T const* __restrict second,
                                           T transfer, T const* __restrict duration,
                                           T* __restrict end)
{
  for (std::size_t lane = 0; lane < Lanes; ++lane) {
    T const arrival = second[lane] + transfer;
    end[lane] = (first[lane] > arrival ? first[lane] : arrival) + duration[lane];
  }
}

template <class Loads, std::size_t Lanes, bool Transfers, class T>
[[gnu::always_inline]] inline void run_program_with(order_program const& program,
                                                    order_memory<T> const& memory)
{
  auto const [table, slots, orders, positions] = memory;
  auto const at = [base = slots](time_slot slot) {
    return base + std::size_t{slot} * (Lanes / fewest_lanes);
  };
  std::size_t const group = columns_per_load * (positions + 1);
  order_load const* load = program.loads.data();
  order_step const* step = program.steps.data();
  time_units const* transfer = program.transfers.data();
  for (order_beat const& beat : program.beats) {
    for (auto const* const end = program.loads.data() + beat.loads; load != end; ++load) {
      auto const& to = load->to;
      for (std::size_t lane = 0; lane < Lanes; lane += fewest_lanes) {
        Loads::load(table + group * load->group, orders + lane * positions + load->position,
                    positions,
                    {at(to[0]) + lane, at(to[1]) + lane, at(to[2]) + lane, at(to[3]) + lane});
      }
    }
    for (auto const* const end = program.steps.data() + beat.steps; step != end; ++step) {
      do_step<Lanes>(at(step->first), at(step->second),
                     Transfers ? static_cast<T>(*transfer++) : T{0}, at(step->duration),
                     at(step->end));
    }
  }
}

template <class Loads, std::size_t Lanes, class T>
[[gnu::always_inline]] inline void run_program_with(order_program const& program,
                                                    order_memory<T> const& memory)
{
  if (program.transfers.empty()) { return run_program_with<Loads, Lanes, false>(program, memory); }
  run_program_with<Loads, Lanes, true>(program, memory);
}

#ifdef __x86_64__
template <std::size_t Lanes, class T>
[[gnu::target("avx2")]] void run_program_with_avx2(order_program const& program,
                                                   order_memory<T> const& memory)
{
  run_program_with<avx2_loads, Lanes>(program, memory);
}
#endif

/// Runs all of a program. Expects no time above what T holds.
template <std::size_t Lanes, class T>
  requires(Lanes % fewest_lanes == 0)
void run_program(simd_level level, order_program const& program, order_memory<T> const& memory)
{
#ifdef __x86_64__
  if (level == simd_level::avx2) { return run_program_with_avx2<Lanes>(program, memory); }
#endif
  BALLAST_EXPECTS(level == simd_level::portable);
  run_program_with<portable_loads, Lanes>(program, memory);
}

/// A time that no order exceeds, whichever microbatches it names: every task takes as long as for
/// the microbatch that it takes longest for. 2^62 stands for all times above. O(tasks + waits).
[[nodiscard]] inline time_units longest_makespan(compiled_schedule const& schedule,
                                                 pipeline_times const& times,
                                                 workspace::frame& scratch)
{
  auto const longest = scratch.take<time_units>(stage_passes * times.stages);
  std::fill(longest.begin(), longest.end(), 0);
  constexpr time_units most = time_units{1} << 62;
  std::span<pipeline_task const> const tasks = schedule.tasks();
  for (pipeline_task const& task : tasks) {
    time_units& of_column = longest[column_of(task)];
    of_column = std::max(of_column,
                         times.of(task.position * times.stages + to_index(task.stage), task.pass));
  }
  std::span<time_units> const end = scratch.take<time_units>(tasks.size());
  time_units makespan = 0;
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    time_units const duration = longest[column_of(tasks[task])];
    end[task] = std::min(most, start_of(task, schedule, end) + duration);
    makespan = std::max(makespan, end[task]);
  }
  return makespan;
}

}  // namespace detail

/// Computes how long orders take, many at once: for searches that try order after order.
///
/// The schedule is translated once into an order_program, which is then run for 8 or 16 orders at a
/// time with vector instructions where the machine has them. Where no order can take 2^31 units or
/// more, which the constructor finds out, times are added in 32 bits, else in 64. The makespans are
/// the same in both cases.
///
/// Shapes      orders[k x l], one order of l microbatches after the other; makespans[k]; k, l >= 0.
/// Expects     check_times() finds no fault. An order is a permutation, or any other l
///             microbatches; microbatch_id{l} stands for no microbatch and takes no time on any
///             stage.
/// Ensures     (1) makespans[i] is makespan_of() the i-th order
///             (2) evaluate_into() allocates nothing
/// Complexity  construction: O(tasks + waits), as long as about a hundred evaluations, and about 80
///             bytes of scratch per task. evaluate_into: O(k x (tasks + waits)).
class order_evaluator {
 public:
  /// How many orders are evaluated at once. Half as many, or fewer, take about half as long.
  static constexpr std::size_t at_once = 16;

  /// Reads the schedule and the times here only; what it keeps of them lives in `scratch`.
  order_evaluator(compiled_schedule const& schedule, pipeline_times const& times,
                  workspace::frame& scratch, detail::simd_level level = detail::best_simd_level())
      : positions_(schedule.microbatches()),
        level_(level),
        program_(detail::order_program_writer(schedule, times, scratch)()),
        filled_up_(scratch.take<microbatch_id>(positions_ * at_once))
  {
    constexpr time_units most = std::numeric_limits<std::int32_t>::max();
    is_narrow_ = detail::longest_makespan(schedule, times, scratch) <= most;
    if (is_narrow_) {
      narrow_ = lay_out<std::int32_t>(times, scratch);
    } else {
      wide_ = lay_out<std::int64_t>(times, scratch);
    }
  }

  void evaluate_into(std::span<time_units> makespans, std::span<microbatch_id const> orders)
  {
    BALLAST_EXPECTS(orders.size() == makespans.size() * positions_, "`orders` has ",
                    detail::counted(orders.size(), "entry"), " for ",
                    detail::counted(makespans.size(), "order"), " of ",
                    detail::counted(positions_, "microbatch"));
    for (std::size_t left = makespans.size(); left > 0; left = makespans.size()) {
      std::size_t const count = std::min(left, is_narrow_ ? at_once : at_once / 2);
      auto const some = orders.first(count * positions_);
      if (!is_narrow_) {
        run_into<at_once / 2>(makespans.first(count), wide_, some);
      } else if (count > at_once / 2) {
        run_into<at_once>(makespans.first(count), narrow_, some);
      } else {
        run_into<at_once / 2>(makespans.first(count), narrow_, some);
      }
      orders = orders.subspan(some.size());
      makespans = makespans.subspan(count);
    }
  }

 private:
  // An array that begins with a cache line.
  template <class T>
  [[nodiscard]] static T* take_aligned(std::size_t count, workspace::frame& scratch)
  {
    constexpr std::size_t line = 64;
    std::span<T> const taken = scratch.take<T>(count + line / sizeof(T));
    void* begin = taken.data();
    std::size_t bytes = taken.size_bytes();
    return static_cast<T*>(std::align(line, count * sizeof(T), begin, bytes));
  }

  template <class T>
  [[nodiscard]] detail::order_memory<T> lay_out(pipeline_times const& times,
                                                workspace::frame& scratch) const
  {
    constexpr std::size_t width = detail::columns_per_load;
    std::size_t const count = width * program_.groups * (positions_ + 1);
    T* const table = take_aligned<T>(count, scratch);
    std::fill_n(table, count, T{0});
    auto const put = [=, this](std::uint32_t column, std::size_t microbatch, time_units time) {
      if (column == detail::no_column) { return; }
      std::size_t const row = column / width * (positions_ + 1) + microbatch;
      table[width * row + column % width] = static_cast<T>(time);
    };
    for (std::size_t at = 0; at < times.rows.size(); ++at) {
      std::size_t const stage = at % times.stages;
      for (pass const each : {pass::forward, pass::backward, pass::weights}) {
        std::uint32_t const column =
            program_.columns[detail::column_of(to_id<stage_id>(stage), each)];
        put(column, at / times.stages, times.of(at, each));
      }
    }
    return {table, take_aligned<T>(program_.slots * (at_once / detail::fewest_lanes), scratch),
            nullptr, positions_};
  }

  template <std::size_t Lanes, class T>
  void run_into(std::span<time_units> makespans, detail::order_memory<T>& memory,
                std::span<microbatch_id const> orders)
  {
    BALLAST_AUDIT(std::all_of(orders.begin(), orders.end(),
                              [this](microbatch_id microbatch) {
                                return to_index(microbatch) <= positions_;
                              }),
                  "an order has microbatches that a schedule of ", positions_, " does not have");
    memory.orders = orders.data();
    if (makespans.size() < Lanes) {  // the lanes that are left repeat the last order
      auto end = std::copy(orders.begin(), orders.end(), filled_up_.begin());
      for (std::size_t lane = makespans.size(); lane < Lanes; ++lane) {
        end = std::copy(orders.end() - static_cast<std::ptrdiff_t>(positions_), orders.end(), end);
      }
      memory.orders = filled_up_.data();
    }
    std::fill_n(memory.slots, Lanes, T{0});  // no_time
    detail::run_program<Lanes>(level_, program_, memory);
    T const* const last = memory.slots + program_.makespan * (Lanes / detail::fewest_lanes);
    for (std::size_t order = 0; order < makespans.size(); ++order) {
      makespans[order] = last[order];
    }
  }

  std::size_t positions_;
  detail::simd_level level_;
  detail::order_program program_;
  std::span<microbatch_id> filled_up_;  // orders that are fewer than lanes
  bool is_narrow_ = false;
  detail::order_memory<std::int32_t> narrow_;
  detail::order_memory<std::int64_t> wide_;
};

}  // namespace ballast::inline v0
