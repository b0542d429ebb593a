// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/insertion.hpp>  // first: proves it is self-contained

#include "../support/compiled_schedules.hpp"
#include "../support/numbered_order.hpp"
#include "../support/order_checks.hpp"
#include "../support/random_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace {

using ballast::insertion;
using ballast::microbatch_id;
using ballast::time_units;

static_assert(ballast::order_policy<insertion>);

// Oracle: lists of microbatches that grow, filled up with rows of zeros and simulated one by one.
std::vector<microbatch_id> insert_one_by_one(ballast::compiled_schedule const& schedule,
                                             ballast::pipeline_times const& times)
{
  std::size_t const count = schedule.microbatches();
  auto padded = times;
  padded.rows.resize((count + 1) * times.stages);
  auto longest_first = ballast_test::numbered_order(count);
  std::ranges::sort(longest_first, {}, [&](microbatch_id microbatch) {
    return std::pair(-ballast::detail::total_time({schedule, times}, microbatch), microbatch);
  });
  std::vector<microbatch_id> order;
  for (microbatch_id const microbatch : longest_first) {
    std::vector<std::vector<microbatch_id>> tried;
    for (std::size_t position = 0; position <= order.size(); ++position) {
      tried.push_back(order);
      tried.back().insert(tried.back().begin() + static_cast<std::ptrdiff_t>(position), microbatch);
    }
    order = *std::ranges::min_element(tried, {}, [&](std::vector<microbatch_id> row) {
      row.resize(count, ballast::to_id<microbatch_id>(count));
      return simulate(schedule, padded, row).makespan;
    });
  }
  return order;
}

TEST(Insertion, PutsEachWhereItCostsLeast)  // Ensures (1)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    auto const times = ballast_test::random_times(random, schedule.microbatches(), stages.stages(),
                                                  trial % 2 == 0 ? 4 : 1000);
    auto const plan = order_microbatches(schedule, times, insertion{}).value();
    ASSERT_EQ(plan.order, insert_one_by_one(schedule, times));
  }
}

TEST(Insertion, DependsOnNothingButTheTimesAndTheSchedule)  // Ensures (2)
{
  ballast::random_source random(3);
  auto const schedule = ballast_test::chain_schedule(4, 12);
  auto const times = ballast_test::random_times(random, 12, 4, 5);
  auto const expected = order_microbatches(schedule, times, insertion{}).value().order;
  ballast::workspace memory;
  for (int trial = 0; trial < 20; ++trial) {
    auto order = ballast_test::numbered_order(12);
    random.shuffle(std::span(order));
    insertion{}({schedule, times}, order, memory);
    EXPECT_EQ(order, expected);
  }
}

TEST(Insertion, TriesTheFirstTheLastAndEvenlySpreadPlacesWhenEvaluationsAreFew)
{
  ballast::random_source random(9);
  auto const schedule = ballast_test::chain_schedule(3, 24);
  for (int trial = 0; trial < 20; ++trial) {
    auto const times = ballast_test::random_times(random, 24, 3, 1000);
    auto const makespan = [&](std::uint64_t evaluations) {
      return order_microbatches(schedule, times, insertion{evaluations}).value().makespan;
    };
    EXPECT_EQ(makespan(24 * 25 / 2), makespan(1'000'000));  // enough for all positions
    // Two positions per round, first and last: the order grows at its ends only.
    auto const plan = order_microbatches(schedule, times, insertion{2 * 24}).value();
    auto const total = [&](microbatch_id microbatch) {
      return ballast::detail::total_time({schedule, times}, microbatch);
    };
    auto const longest = std::ranges::max_element(plan.order, {}, total);
    EXPECT_TRUE(std::ranges::is_sorted(plan.order.begin(), longest + 1, {}, total));
    EXPECT_TRUE(std::ranges::is_sorted(longest, plan.order.end(), std::ranges::greater{}, total));

    auto const unplaced = order_microbatches(schedule, times, insertion{0}).value();
    EXPECT_TRUE(std::ranges::is_sorted(unplaced.order, std::ranges::greater{}, total));
  }
}

TEST(Insertion, KeepsWhatPoliciesPromise)
{
  ballast_test::expect_valid_orders(insertion{}, 104);
  ballast_test::expect_valid_orders(insertion{20}, 105);
}

}  // namespace
