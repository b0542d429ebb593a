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

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// A microbatch that has no position yet.
struct unplaced_microbatch {
  time_units forward = 0;  ///< on the stage whose intervals are filled
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

/// Fills the positions of `order` with microbatches taken from `left`, one by one: the one whose
/// forward is closest to the time that is left divided by the positions that are left, of equally
/// close ones the first.
inline void take_closest_into(std::span<microbatch_id> order, std::span<unplaced_microbatch>& left,
                              time_units time)
{
  for (std::size_t at = 0; at < order.size(); ++at) {
    time_units const wanted = time / static_cast<time_units>(order.size() - at);
    auto const distance = [wanted](unplaced_microbatch const& each) {
      return each.forward > wanted ? each.forward - wanted : wanted - each.forward;
    };
    auto const closer = [distance](unplaced_microbatch const& a, unplaced_microbatch const& b) {
      return distance(a) < distance(b);
    };
    auto const closest = std::min_element(left.begin(), left.end(), closer);
    order[at] = closest->microbatch;
    time -= closest->forward;
    std::copy(closest + 1, left.end(), closest);
    left = left.first(left.size() - 1);
  }
}

}  // namespace detail

/// Fills the intervals in which the first stage waits for a gradient: DistTrain's Algorithm 2.
///
/// The smallest microbatch goes first, so that the other stages start early; the smallest of the
/// others are kept for the end, where gradients come one after the other and no forward hides them.
/// In between, every microbatch goes where its forward takes about as long as the first stage would
/// wait there, according to a simulation of the order so far.
///
/// Size is the forward time on the first stage; of equal sizes the smaller total time comes first,
/// then the lower number. Where the first stages are frozen and have no backward, the first stage
/// that has one takes the part of the first stage.
///
/// For any schedule, interleaved ones too: the tasks of the rank that has the first stage are
/// forwards, then a backward, then forwards, and so on. Each run of forwards before a backward has
/// one interval: from the end of the run until that backward can start, where microbatches without
/// a position take no time. It is filled with as many microbatches as the run has new ones on the
/// first stage; several are chosen one by one, each the closest to an even share of the time that
/// is left, of equally close ones the smaller. As many are kept for the end as the first run has
/// new ones after the smallest. In 1F1B these are p - 1 for the first interval, one for each of the
/// others, and p - 1 at the end, as in the paper.
///
/// Ensures     (1) the order is that of the algorithm, which ends when none is left: as printed it
///             would give l + p - 2 microbatches a position
///             (2) the order depends on nothing but the times and the schedule
/// Complexity  O(l^2 + tasks): one simulation in all, and a look at what is left per microbatch.
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025,
///             Algorithm 2. The paper describes GETINTERVAL and SELECTCLOSEST in words only.
struct interval_filling {
  void operator()(order_problem const& problem, std::span<microbatch_id> order,
                  workspace& memory) const
  {
    BALLAST_EXPECTS(order.size() == problem.schedule.microbatches(), "an order of ", order.size(),
                    " microbatches was given for a schedule of ", problem.schedule.microbatches());
    if (order.empty()) { return; }
    compiled_schedule const& schedule = problem.schedule;
    stage_id const stage = detail::first_trained_stage(schedule.stages());
    auto scratch = memory.open();
    auto left = scratch.take<detail::unplaced_microbatch>(order.size());
    for (std::size_t at = 0; at < order.size(); ++at) {
      auto const row = problem.times[order[at]];
      left[at] = {row[to_index(stage)].forward, detail::total_time(problem, order[at]), order[at]};
    }
    std::sort(left.begin(), left.end(), [](auto const& a, auto const& b) {
      return detail::precedes(a.forward, b.forward, a.total, b.total, a.microbatch, b.microbatch);
    });

    std::span<time_units> const ends = scratch.take<time_units>(schedule.tasks().size());
    auto const tasks = schedule.tasks_on(schedule.stages()[stage].rank);
    std::size_t placed = 0;
    std::size_t simulated = 0;   // tasks whose ends no microbatch to come can change
    std::size_t introduced = 0;  // positions whose forward on the stage has been passed
    std::span<detail::unplaced_microbatch> rear;
    for (std::size_t at = 0; at < tasks.size(); ++at) {
      pipeline_task const& task = schedule.tasks()[tasks[at]];
      if (task.pass == pass::forward) {
        if (task.stage == stage) {
          introduced = std::max<std::size_t>(introduced, task.position + 1);
        }
        continue;
      }
      if (placed == 0 && introduced > 0) {
        order[placed++] = left.front().microbatch;
        rear = left.subspan(1, introduced - 1);
        left = left.subspan(introduced);
      }
      if (std::size_t const count = std::min(introduced - placed, left.size()); count > 0) {
        detail::partial_order const known{problem, order.first(placed), ends};
        known.simulate(simulated, tasks[at] + 1);
        simulated = schedule.tasks_before(placed);
        time_units const interval = known.start(tasks[at]) - ends[tasks[at - 1]];
        detail::take_closest_into(order.subspan(placed, count), left, interval);
        placed += count;
      }
    }
    // The microbatches kept for the end. Where nothing is trained there is no interval: all of
    // them.
    for (auto const& each : left) { order[placed++] = each.microbatch; }
    for (auto const& each : rear) { order[placed++] = each.microbatch; }
  }

  friend bool operator==(interval_filling const&, interval_filling const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_INTERVAL_FILLING_HPP
