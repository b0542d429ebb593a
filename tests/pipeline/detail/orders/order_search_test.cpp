// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/order_search.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"
#include "../../../support/numbered_order.hpp"
#include "../../../support/order_checks.hpp"
#include "../../../support/random_times.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::time_units;
using ballast::detail::order_search;

constexpr auto no_limit = std::numeric_limits<time_units>::max();
constexpr std::uint64_t all_nodes = std::uint64_t{1} << 40;

struct found_order {
  bool ended;
  time_units makespan;
  std::vector<microbatch_id> order;
};

found_order look(ballast::order_problem const& problem, time_units limit, std::uint64_t nodes)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  order_search search(problem, scratch);
  found_order found{false, limit, std::vector<microbatch_id>(problem.schedule.microbatches())};
  ballast::detail::work_budget budget(nodes);
  found.ended = search(found.order, found.makespan, budget);
  return found;
}

TEST(OrderSearch, FindsTheFirstOfTheBestOrders)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(300); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    if (schedule.microbatches() == 0 || schedule.microbatches() > 6) { continue; }
    auto const times = ballast_test::random_times(random, schedule.microbatches(), stages.stages(),
                                                  trial % 2 == 0 ? 3 : 100);
    auto const best = ballast_test::first_best_order(schedule, times);
    time_units const least = simulate(schedule, times, best).makespan;
    auto const found = look({schedule, times}, no_limit, all_nodes);
    EXPECT_TRUE(found.ended);
    EXPECT_EQ(found.makespan, least);
    EXPECT_EQ(found.order, best);
    // From a limit that is just enough it finds the same, from the least itself none.
    EXPECT_EQ(look({schedule, times}, least + 1, all_nodes).order, best);
    EXPECT_EQ(look({schedule, times}, least, all_nodes).order,
              std::vector<microbatch_id>(schedule.microbatches()));
  }
}

TEST(OrderSearch, TriesOneOfMicrobatchesAlike)
{
  constexpr std::size_t count = 30;  // 30! orders, all the same
  auto const schedule = ballast_test::chain_schedule(3, count);
  ballast::pipeline_times times(count, 3);
  for (auto& time : times.rows) { time = {2, 5}; }
  auto const found = look({schedule, times}, no_limit, count);
  EXPECT_TRUE(found.ended);
  EXPECT_EQ(found.order, ballast_test::numbered_order(count));
}

TEST(OrderSearch, EndsAtTheLowerBoundOrWithoutNodes)
{
  ballast::random_source random(5);
  auto const schedule = ballast_test::chain_schedule(4, 9);
  auto const times = ballast_test::random_times(random, 9, 4, 1000);
  auto const nothing = look({schedule, times}, no_limit, 8);
  EXPECT_FALSE(nothing.ended);
  EXPECT_EQ(nothing.makespan, no_limit);
  auto const first = look({schedule, times}, no_limit, 9);  // nine nodes: the first order
  EXPECT_FALSE(first.ended);
  EXPECT_EQ(first.order, ballast_test::numbered_order(9));
  EXPECT_EQ(first.makespan, simulate(schedule, times, first.order).makespan);
  auto const enough = look({schedule, times, first.makespan}, no_limit, 9);
  EXPECT_TRUE(enough.ended);
  EXPECT_EQ(enough.order, first.order);
}

// The orders of nine microbatches have 986,409 beginnings; most are cut off.
TEST(OrderSearch, CutsBeginningsOff)
{
  ballast::random_source random(6);
  auto const schedule = ballast_test::chain_schedule(4, 9);
  auto const times = ballast_test::random_times(random, 9, 4, 1000);
  EXPECT_TRUE(look({schedule, times}, no_limit, 300'000).ended);
}

}  // namespace
