// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/partition_grid.hpp>

#include "../support/test.hpp"

#include <ballast/partition/grid/refine_grid.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace ordered_slots {

// The slots of a grid are the microbatches of all pipelines, each as long as its largest cell: one
// order for all ranks, which moves slots and breaks none.
TEST(OrderMicrobatches, OrdersTheSlotsOfAGrid)
{
  ballast::random_source random(5);
  std::vector<ballast::tokens> lengths(60);
  for (auto& length : lengths) { length = random.between(1, random.below(6) == 0 ? 4000 : 600); }
  auto const cost = [](ballast::tokens length) { return length; };
  ballast::grid_options const options{.microbatches = 6, .meet = ballast::grid_meeting::microbatch};
  // [ordered_slots]
  auto const grid =
      ballast::partition_grid(lengths, 4, options, ballast::refine_grid{}, cost).value();
  auto const stage_takes = [&](std::size_t slot, std::size_t stage) {
    ballast::time_units longest = 0;  // of any rank: the encoder takes a third of it
    for (std::size_t rank = 0; rank < grid.ranks; ++rank) {
      longest = std::max(longest, grid.load(ballast::to_id<ballast::rank_id>(rank), slot));
    }
    ballast::time_units const forward = stage == 0 ? longest / 3 : longest;
    return ballast::stage_time{forward, 2 * forward};
  };
  ballast::pipeline_times const times(grid.microbatches, 3, stage_takes);
  auto const schedule =
      ballast::compiled_schedule::make(ballast::chain_of_stages(3, 3),
                                       ballast::one_forward_one_backward{}, grid.microbatches)
          .value();
  auto const plan = ballast::order_microbatches(schedule, times, ballast::local_search{}).value();
  // plan.order[position] is the slot that every rank computes there
  // [ordered_slots]
  std::vector<std::size_t> slots;
  for (auto const slot : plan.order) { slots.push_back(to_index(slot)); }
  std::ranges::sort(slots);
  EXPECT_EQ(slots, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_LE(plan.makespan, plan.makespan_given);
  EXPECT_LE(plan.lower_bound, plan.makespan);
}

}  // namespace ordered_slots
