#include <ballast/partition/detail/exchange/relieve_worst.hpp>  // first: proves it is self-contained

#include "../../../support/instances.hpp"  // defines: ballast_test::random_instance

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;

struct relieved {
  std::vector<cost_units> loads;
  ratio before;
  ratio after;
};

// Puts samples in the bags that are named, or each in the first that it fits, and relieves.
relieved relieve(ballast_test::instance const& step, ratio target, std::uint64_t steps,
                 std::vector<std::size_t> const& start = {})
{
  std::size_t const bags = step.gpus.size();
  ballast::workspace memory;
  std::vector<ballast::priced_sample> order(step.costs.size());
  ballast::descending_order_into(order, step.costs, memory);
  std::vector<std::uint32_t> speeds;
  for (std::size_t bag = 0; bag < bags; ++bag) { speeds.push_back(step.speed_of(bag)); }
  relieved result{std::vector<cost_units>(bags, 0), {}, {}};
  std::vector<bag_id> owner;
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    std::size_t bag = start.empty() ? 0 : start[sample];
    while (!ballast::partition_problem::splits(step.lengths[sample], step.gpus[bag])) { ++bag; }
    owner.push_back(ballast::to_id<bag_id>(bag));
    result.loads[bag] += step.costs[sample];
  }
  auto const makespan = [&] {
    ratio latest;
    for (std::size_t bag = 0; bag < bags; ++bag) {
      latest = std::max(latest, ratio{result.loads[bag], speeds[bag]});
    }
    return latest;
  };
  result.before = makespan();
  auto scratch = memory.open();
  ballast::detail::work_budget work(steps);
  ballast::detail::bag_exchanges plan({step.costs, step.lengths, order, step.gpus, speeds},
                                      result.loads, owner, work, memory, scratch);
  ballast::detail::relieve_worst(plan, target)();
  result.after = makespan();
  return result;
}

TEST(RelieveWorst, IsSeldomAboveTheOptimumAndNeverBelow)  // Ensures (1)
{
  ballast::random_source random(41);
  int optimal = 0;
  constexpr int trials = 300;
  for (int trial = 0; trial < trials; ++trial) {
    auto const step = ballast_test::random_instance(random, 7, 4, 3);
    auto const result = relieve(step, {0, 1}, 1'000'000);
    ratio const best = *ballast_test::optimum(step);
    ASSERT_LE(result.after, result.before) << "trial " << trial;
    ASSERT_GE(result.after, best) << "trial " << trial;
    optimal += result.after == best ? 1 : 0;
  }
  EXPECT_GE(optimal, trials * 9 / 10);
}

TEST(RelieveWorst, GathersRoomWhereNoPairOfBagsHelps)
{
  // 9 + 12 | 12 + 2 | 7 + 5 + 7: neither the first two bags nor the first and the last share what
  // they have in a way that keeps both below 21.
  ballast_test::instance const step{{1, 1, 1, 1, 1, 1, 1}, {9, 12, 12, 2, 7, 5, 7}, {1, 1, 1}};
  auto const result = relieve(step, {0, 1}, 1'000'000, {0, 0, 1, 1, 2, 2, 2});
  EXPECT_EQ(result.before, (ratio{21, 1}));
  EXPECT_EQ(result.after, (ratio{19, 1}));
  EXPECT_EQ(result.after, *ballast_test::optimum(step));
}

TEST(RelieveWorst, StopsAtTheTargetAndWhereItsWorkIsUsedUp)
{
  ballast_test::instance const step{{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}};
  EXPECT_EQ(relieve(step, {4, 1}, 1000).after, (ratio{4, 1}));
  EXPECT_EQ(relieve(step, {2, 1}, 1000).after, (ratio{2, 1}));
  EXPECT_EQ(relieve(step, {0, 1}, 0).after, (ratio{4, 1}));
  EXPECT_EQ(relieve(step, {0, 1}, 1000).after, (ratio{2, 1}));
}

}  // namespace
