// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace ballast::inline v0 {

/// What every order policy is given: l microbatches to put into the l positions of a schedule.
///
/// `order_microbatches()` builds it and checks all of this; a caller that runs a policy itself has
/// to do so too.
///
/// Expects     (a) check_times(times, schedule) finds no fault
///             (b) no order takes less than lower_bound
struct order_problem {
  compiled_schedule const& schedule;
  pipeline_times const& times;
  time_units lower_bound = 0;
};

/// Decides in which order a pipeline rank's microbatches are computed.
///
/// In, out     order[l] enters as a permutation, the order in which the microbatches are given, and
///             leaves as another. memory is scratch that the policy gives back.
/// Returns     nothing, or a time that it has proven no order can get below.
/// A policy is a value, usually without state, with its parameters as public members.
template <class P>
concept order_policy = requires(P const policy, order_problem const& problem,
                                std::span<microbatch_id> order, workspace& memory) {
  requires std::same_as<decltype(policy(problem, order, memory)), void> ||
               std::same_as<decltype(policy(problem, order, memory)), time_units>;
};

namespace detail {

/// Runs a policy. Returns the makespan that it has proven to be the least, or 0 for no proof.
template <order_policy Policy>
[[nodiscard]] time_units run_order_policy(Policy const& policy, order_problem const& problem,
                                          std::span<microbatch_id> order, workspace& memory)
{
  if constexpr (std::is_void_v<decltype(policy(problem, order, memory))>) {
    policy(problem, order, memory);
    return 0;
  } else {
    return policy(problem, order, memory);
  }
}

// What policies share that build an order from its first position to its last.

/// What all passes of a microbatch take on all stages. O(stages).
[[nodiscard]] inline time_units total_time(order_problem const& problem, microbatch_id microbatch)
{
  time_units total = 0;
  std::size_t stage = 0;
  for (stage_time const& time : problem.times[microbatch]) {
    pipeline_stage const& own = problem.schedule.stages()[to_id<stage_id>(stage)];
    std::size_t const row = to_index(microbatch) * problem.times.stages + stage++;
    total += (own.has_forward() ? time.forward : 0) + (own.backward ? time.backward : 0) +
             (own.weights ? problem.times.of(row, pass::weights) : 0);
  }
  return total;
}

/// total_time() of every microbatch, by number, in memory of `scratch`. O(microbatches x stages).
[[nodiscard]] inline std::span<time_units const> total_times(order_problem const& problem,
                                                             workspace::frame& scratch)
{
  std::span<time_units> const total = scratch.take<time_units>(problem.schedule.microbatches());
  for (std::size_t at = 0; at < total.size(); ++at) {
    total[at] = total_time(problem, to_id<microbatch_id>(at));
  }
  return total;
}

/// An order of which the first positions are known, simulated as far as the caller asks.
///
/// Microbatches without a position take no time. When one more gets a position, the ends of tasks
/// that depend on earlier positions only stay as they are, so that building an order costs about
/// one simulation in all.
///
/// Shapes      ends[tasks of the schedule], of which simulate() fills one part after the other.
/// Expects     the ends of all tasks below `first` are those of an order with the same first
///             positions.
struct partial_order {
  order_problem const& problem;
  std::span<microbatch_id const> placed;  ///< at positions 0 to placed.size() - 1
  std::span<time_units> ends;

  [[nodiscard]] time_units duration(std::size_t task) const
  {
    pipeline_task const& of = problem.schedule.tasks()[task];
    return of.position < placed.size() ? duration_of(of, problem.times, placed) : 0;
  }

  [[nodiscard]] time_units start(std::size_t task) const
  {
    return start_of(task, problem.schedule, ends);
  }

  /// Simulates tasks first to last - 1.
  void simulate(std::size_t first, std::size_t last) const
  {
    for (std::size_t task = first; task < last; ++task) {
      ends[task] = start(task) + duration(task);
    }
  }
};

}  // namespace detail

/// As the data loader gave them: the baseline.
///
/// Ensures     (1) the order is left as it is
/// Complexity  O(1).
struct given_order {
  void operator()(order_problem const&, std::span<microbatch_id>, workspace&) const noexcept {}

  friend bool operator==(given_order const&, given_order const&) = default;
};

/// Shortest microbatch first, by its time on all stages, forward and backward together.
///
/// The pipeline fills soon, and no microbatch waits behind a longer one; but the last ones, whose
/// backwards nothing hides, are the longest.
///
/// Ensures     (1) total times do not decrease, and equal ones are in microbatch order
/// Complexity  O(l log l + l x stages).
struct ascending_order {
  void operator()(order_problem const& problem, std::span<microbatch_id> order,
                  workspace& memory) const
  {
    detail::expect_order_of(problem.schedule, order);
    auto scratch = memory.open();
    std::span<time_units const> const total = detail::total_times(problem, scratch);
    std::sort(order.begin(), order.end(), [total](microbatch_id a, microbatch_id b) {
      return detail::precedes(total[to_index(a)], total[to_index(b)], a, b);
    });
  }

  friend bool operator==(ascending_order const&, ascending_order const&) = default;
};

namespace detail {

/// A microbatch that has no position yet.
struct unplaced_microbatch {
  time_units size = 0;
  time_units total = 0;
  microbatch_id microbatch{};
};

/// The first stage that computes gradients, or stage 0 where none does.
[[nodiscard]] inline stage_id first_trained_stage(stage_graph const& stages)
{
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    if (stages[to_id<stage_id>(stage)].backward) { return to_id<stage_id>(stage); }
  }
  return stage_id{0};
}

/// What a microbatch takes in encoders and generators, both passes; where no stage is named so, its
/// forward on stage `first`.
[[nodiscard]] inline time_units filling_size(order_problem const& problem, microbatch_id microbatch,
                                             stage_id first)
{
  auto const times = problem.times[microbatch];
  bool named = false;
  time_units size = 0;
  for (std::size_t stage = 0; stage < times.size(); ++stage) {
    pipeline_stage const& own = problem.schedule.stages()[to_id<stage_id>(stage)];
    if (own.part != model_part::encoder && own.part != model_part::generator) { continue; }
    size += times[stage].forward + (own.backward ? times[stage].backward : 0);
    named = true;
  }
  return named ? size : times[to_index(first)].forward;
}

/// The intervals of a rank. Its tasks are runs of forwards, each followed by backwards; the
/// interval of a run lasts from its end until the first of these can start.
class rank_intervals {
 public:
  rank_intervals(order_problem const& problem, pipeline_rank rank, workspace::frame& scratch)
      : problem_(problem),
        tasks_(problem.schedule.tasks_on(rank)),
        chunks_(problem.schedule.stages().stages_on(rank).size()),
        forwards_(scratch.take<run_forward>(chunks_ * problem.schedule.microbatches())),
        runs_(scratch.take<run>(tasks_.size() + 1)),
        ends_(scratch.take<time_units>(problem.schedule.tasks().size()))
  {
    std::fill(runs_.begin(), runs_.end(), run{});
    std::size_t forwards = 0;
    std::size_t number = 0;
    for (std::size_t at = 0; at < tasks_.size(); ++at) {
      pipeline_task const& task = problem.schedule.tasks()[tasks_[at]];
      if (task.pass == pass::forward) {
        forwards_[forwards++] = {task.position, number, to_index(task.stage)};
        ++runs_[number].open;
        runs_[number].backward = at + 1;
      } else if (runs_[number].open > 0) {
        ++number;
      }
    }
    std::sort(forwards_.begin(), forwards_.end(), [](run_forward const& a, run_forward const& b) {
      return precedes(a.position, b.position, a.run, b.run, a.stage, b.stage);
    });
  }

  /// How many of the first positions have all their forwards in the first run.
  [[nodiscard]] std::size_t leading_positions() const
  {
    std::size_t at = 0;
    while (at < forwards_.size() && forwards_[at].run == 0) { ++at; }
    return at / chunks_;
  }

  /// Notes that the last microbatch of `placed` has its position, and looks at the intervals of the
  /// next one: each run's, or what is left of the first run's, shared evenly among its forwards
  /// that have no microbatch yet.
  void advance(std::span<microbatch_id const> placed)
  {
    for (run_forward const& each : forwards_of(placed.size() - 1)) {
      --runs_[each.run].open;
      if (each.run == 0 && placed.size() > 1) {
        runs_[0].interval -= problem_.times[placed.back()][each.stage].forward;
      }
    }
    next_ = forwards_of(placed.size());
    partial_order const known{problem_, placed, ends_};
    std::size_t last = simulated_;
    for (run_forward const& each : next_) {
      auto& [open, backward, interval] = runs_[each.run];
      if (backward == tasks_.size() || (each.run == 0 && placed.size() > 1)) { continue; }
      known.simulate(last, tasks_[backward] + 1);
      last = std::max<std::size_t>(last, tasks_[backward] + 1);
      interval = known.start(tasks_[backward]) - ends_[tasks_[backward - 1]];
    }
    if (last > simulated_) { simulated_ = problem_.schedule.tasks_before(placed.size()); }
  }

  /// How far the next position's intervals and the forwards of a microbatch differ.
  [[nodiscard]] time_units distance(microbatch_id microbatch) const
  {
    time_units sum = 0;
    for (std::size_t at = 0; at < next_.size();) {
      auto const& [open, backward, interval] = runs_[next_[at].run];
      time_units const share = interval / open;
      time_units apart = 0;
      for (std::size_t const number = next_[at].run; at < next_.size(); ++at) {
        if (next_[at].run != number) { break; }
        apart += problem_.times[microbatch][next_[at].stage].forward - share;
      }
      if (backward < tasks_.size()) { sum += apart < 0 ? -apart : apart; }
    }
    return sum;
  }

 private:
  struct run_forward {
    std::uint32_t position = 0;
    std::size_t run = 0;
    std::size_t stage = 0;
  };
  struct run {
    time_units open = 0;       // its forwards that have no microbatch yet
    std::size_t backward = 0;  // that ends it, among the tasks of the rank
    time_units interval = 0;
  };

  [[nodiscard]] std::span<run_forward const> forwards_of(std::size_t position) const
  {
    return forwards_.subspan(position * chunks_, chunks_);
  }

  order_problem const& problem_;
  std::span<std::uint32_t const> tasks_;
  std::size_t chunks_;
  std::span<run_forward> forwards_;  // by position, then by run
  std::span<run> runs_;
  std::span<time_units> ends_;           // of all tasks
  std::span<run_forward const> next_{};  // of the position that is filled next
  std::size_t simulated_ = 0;            // tasks whose ends no microbatch to come can change
};

}  // namespace detail

/// Fills the intervals in which the first stage waits for a gradient: DistTrain's Algorithm 2.
///
/// The smallest microbatch goes first, so that the other stages start early; the smallest of the
/// others are kept for the end, where gradients come one after the other and no forward hides them.
/// In between, every microbatch goes where its forwards take about as long as the first stage would
/// wait there, according to a simulation of the order so far.
///
/// Size is the time in encoders and generators, both passes, or, where no stage is named so, the
/// forward time on the first stage; of equal sizes the smaller total time comes first, then the
/// lower number. Where the first stages are frozen and have no backward, the first stage that has
/// one takes the part of the first stage.
///
/// For any schedule, interleaved ones too: the tasks of the rank that has the first stage are
/// forwards, then a backward, then forwards, and so on. Each run of forwards before a backward has
/// one interval: from the end of the run until that backward can start, where microbatches without
/// a position take no time; that of the first run is the interval once the first microbatch has its
/// position, less the forwards chosen since. Position after position gets the microbatch whose
/// forwards, run by run, differ least in sum from an even share of these intervals among the
/// forwards without a microbatch; of equally close ones the smaller. The positions that have all
/// forwards in the first run, but for one, are as many as are kept for the end: p - 1, as in the
/// paper.
///
/// Ensures     (1) the order is that of the algorithm, which ends when none is left: as printed it
///             would give l + p - 2 microbatches a position
///             (2) the order depends on nothing but the times and the schedule
/// Complexity  O(l^2 v + tasks) with v stages on the rank in 1F1B: one simulation in all, and a
///             look at what is left per microbatch. Interleaved: for each position, a simulation
///             from its first task to the last backward that it fills.
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025,
///             Algorithm 2. The paper describes GETINTERVAL, SELECTCLOSEST and virtual stages
///             in words only.
struct interval_filling {
  void operator()(order_problem const& problem, std::span<microbatch_id> order,
                  workspace& memory) const
  {
    detail::expect_order_of(problem.schedule, order);
    if (order.empty()) { return; }
    stage_graph const& stages = problem.schedule.stages();
    stage_id const first = detail::first_trained_stage(stages);
    auto scratch = memory.open();
    auto left = scratch.take<detail::unplaced_microbatch>(order.size());
    for (std::size_t at = 0; at < order.size(); ++at) {
      left[at] = {detail::filling_size(problem, order[at], first),
                  detail::total_time(problem, order[at]), order[at]};
    }
    std::sort(left.begin(), left.end(), [](auto const& a, auto const& b) {
      return detail::precedes(a.size, b.size, a.total, b.total, a.microbatch, b.microbatch);
    });

    detail::rank_intervals intervals(problem, stages[first].rank, scratch);
    std::size_t const leading = std::max<std::size_t>(1, intervals.leading_positions());
    order[0] = left.front().microbatch;
    auto const rear = left.subspan(1, leading - 1);
    left = left.subspan(leading);
    std::size_t placed = 1;
    while (!left.empty()) {
      intervals.advance(order.first(placed));
      auto closest = left.begin();
      time_units least = intervals.distance(closest->microbatch);
      for (auto each = closest + 1; each != left.end(); ++each) {
        if (time_units const distance = intervals.distance(each->microbatch); distance < least) {
          closest = each;
          least = distance;
        }
      }
      order[placed++] = closest->microbatch;
      std::copy(closest + 1, left.end(), closest);
      left = left.first(left.size() - 1);
    }
    for (auto const& each : rear) { order[placed++] = each.microbatch; }
  }

  friend bool operator==(interval_filling const&, interval_filling const&) = default;
};

}  // namespace ballast::inline v0
