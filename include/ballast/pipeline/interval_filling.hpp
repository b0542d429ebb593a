// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_INTERVAL_FILLING_HPP
#define BALLAST_PIPELINE_INTERVAL_FILLING_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/orders/partial_order.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

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
    auto const& [rank, backward, part] = problem.schedule.stages()[to_id<stage_id>(stage)];
    if (part != model_part::encoder && part != model_part::generator) { continue; }
    size += times[stage].forward + (backward ? times[stage].backward : 0);
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
    BALLAST_EXPECTS(order.size() == problem.schedule.microbatches(), "an order of ",
                    detail::counted(order.size(), "microbatch"), " was given for a schedule of ",
                    problem.schedule.microbatches());
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

#endif  // BALLAST_PIPELINE_INTERVAL_FILLING_HPP
