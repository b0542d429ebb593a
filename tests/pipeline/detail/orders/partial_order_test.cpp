// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/partial_order.hpp>  // first: proves it is self-contained

#include "../../../support/numbered_order.hpp"
#include "../../../support/random_schedules.hpp"
#include "../../../support/random_times.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/one_forward_one_backward.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::time_units;
using ballast::detail::partial_order;

TEST(TotalTime, AddsAllPassesThatThereAre)
{
  auto const stages = ballast::stage_graph::make(
                          {{ballast::pipeline_rank{0}, false}, {ballast::pipeline_rank{1}, true}},
                          {{ballast::stage_id{0}, ballast::stage_id{1}, 0}})
                          .value();
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 1).value();
  ballast::pipeline_times times(1, 2);
  times.rows = {{1, 1000}, {20, 300}};
  EXPECT_EQ(ballast::detail::total_time({schedule, times}, microbatch_id{0}), 321);
}

// An order is placed position after position, some at a time, and each time simulated up to some
// task behind those that are decided. Oracle: the whole order, with zeros for what is not placed.
TEST(PartialOrder, SimulatesAsIfWhatIsNotPlacedTookNoTime)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(500); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    std::size_t const count = schedule.microbatches();
    auto times = ballast_test::random_times(random, count, stages.stages(), 100);
    auto order = ballast_test::numbered_order(count);
    random.shuffle(std::span(order));
    auto padded_times = times;
    padded_times.rows.resize((count + 1) * stages.stages());
    std::vector<microbatch_id> padded(count, ballast::to_id<microbatch_id>(count));

    std::vector<time_units> ends(schedule.tasks().size(), -1);
    std::size_t known = 0;
    for (std::size_t placed = 0; placed <= count; placed += 1 + random.below(3)) {
      std::copy_n(order.begin(), placed, padded.begin());
      std::size_t const decided = schedule.tasks_before(placed);
      std::size_t const last = decided + random.below(ends.size() - decided + 1);
      partial_order const so_far{{schedule, times}, std::span(order).first(placed), ends};
      so_far.simulate(known, last);
      known = decided;
      auto const expected = simulate(schedule, padded_times, padded);
      for (std::size_t task = 0; task < last; ++task) {
        ASSERT_EQ(ends[task], expected.end[task]) << "task " << task << " of " << placed;
        ASSERT_EQ(so_far.start(task), expected.start[task]);
        ASSERT_EQ(so_far.duration(task), expected.end[task] - expected.start[task]);
      }
    }
  }
}

}  // namespace
