#include <ballast/partition/detail/padding/padded_orders.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::uint128;
using ballast::detail::finishing_times;
using ballast::detail::padded_batch;
using ballast::detail::padded_orders;
using ballast_test::direct_problem;
using ballast_test::instance;

// Oracle: every order of the bags, each filled in turn.
bool some_order_places_all(direct_problem const& problem, finishing_times const& times,
                           uint128 time)
{
  std::vector<std::size_t> order(problem.step.gpus.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    std::size_t placed = 0;
    for (std::size_t const bag : order) {
      if (placed == problem.heaviest_first.size()) { break; }
      cost_units const largest = problem.heaviest_first[placed].cost;
      cost_units const room = times.work_until(time, bag);
      std::size_t const left = problem.heaviest_first.size() - placed;
      placed += largest == 0 ? left : std::min(left, static_cast<std::size_t>(room / largest));
    }
    if (placed == problem.heaviest_first.size()) { return true; }
  } while (std::ranges::next_permutation(order).found);
  return false;
}

TEST(PaddedOrders, PlacesAllIfSomeOrderDoes)  // Ensures (1) (2)
{
  ballast::random_source random(17);
  int both = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = ballast_test::random_instance(random, 12, 5, 3);
    for (auto& length : step.lengths) { length += 8; }
    direct_problem const problem(step);
    std::vector<cost_units> start(step.gpus.size());
    for (auto& load : start) { load = random.between(0, 2) * 10; }
    ballast::workspace memory;
    auto scratch = memory.open();
    auto const view = problem.view();
    finishing_times const times(view, start, scratch);
    padded_orders orders(view, times, 1 << 20, scratch);
    ASSERT_TRUE(orders.applies());

    auto const time =
        times.least() + random.below(static_cast<std::uint64_t>(times.least()) / 2 + 1);
    std::vector<int> owners(step.costs.size(), 0);
    auto const outcome = orders.fill(time, [&](padded_batch const& batch) {
      EXPECT_LE(times.finish(batch.bag, batch.load()), time);
      for (auto const each : batch.samples) { ++owners[to_index(each.sample)]; }
    });
    ASSERT_EQ(outcome.placed(), some_order_places_all(problem, times, time));
    auto const ignore = [](padded_batch const&) {};
    if (outcome.placed()) {
      ASSERT_EQ(std::ranges::count(owners, 1), static_cast<std::ptrdiff_t>(owners.size()));
      ASSERT_LE(outcome.finish, time);
      ASSERT_TRUE(orders.fill(std::max(outcome.finish, times.least()), ignore).placed());
    } else {
      ASSERT_EQ(std::ranges::count(owners, 0), static_cast<std::ptrdiff_t>(owners.size()));
      ASSERT_GT(outcome.next, time);
      ASSERT_FALSE(orders.fill(outcome.next - 1, ignore).placed());
    }
    both |= outcome.placed() ? 1 : 2;
  }
  EXPECT_EQ(both, 3);  // some could be placed and some could not
}

TEST(PaddedOrders, AppliesWhereTheTableIsSmallEnough)
{
  auto const applies = [](std::vector<std::uint32_t> const& speeds, std::size_t most_entries) {
    direct_problem problem(instance{{9}, {5}, std::vector(speeds.size(), 1U)});
    problem.speeds = speeds;
    std::vector<cost_units> const start(speeds.size(), 0);
    ballast::workspace memory;
    auto scratch = memory.open();
    auto const view = problem.view();
    finishing_times const times(view, start, scratch);
    return padded_orders(view, times, most_entries, scratch).applies();
  };
  EXPECT_TRUE(applies({3, 3, 3}, 0));  // one kind is as fast as filling in any order
  EXPECT_FALSE(applies({3, 3, 2}, 5));
  EXPECT_TRUE(applies({3, 3, 2}, 6));
  EXPECT_FALSE(applies({1, 2, 3, 4, 5}, 31));
  EXPECT_TRUE(applies({1, 2, 3, 4, 5}, 32));
}

}  // namespace
