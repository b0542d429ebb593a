#include <ballast/partition/detail/exchange/settle_bags.hpp>  // first: proves it is self-contained

#include <ballast/core/random.hpp>

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;

// Samples dealt out to bags in turn, and a search that settles them.
struct dealt_samples {
  dealt_samples(std::vector<cost_units> all_costs, std::vector<std::uint32_t> all_speeds)
      : costs(std::move(all_costs)),
        lengths(costs.size(), 1),
        gpus(all_speeds.size(), 1),
        speeds(std::move(all_speeds)),
        order(costs.size()),
        loads(gpus.size(), 0)
  {
    for (std::size_t sample = 0; sample < costs.size(); ++sample) {
      owner.push_back(ballast::to_id<bag_id>(sample % gpus.size()));
      loads[sample % gpus.size()] += costs[sample];
    }
    ballast::descending_order_into(order, costs, memory);
  }

  bool settle(ratio target, std::uint64_t steps = 1'000'000)
  {
    ballast::detail::work_budget work(steps);
    auto scratch = memory.open();
    ballast::partition_problem const problem{costs, lengths, order, gpus, speeds};
    ballast::detail::bag_exchanges plan(problem, loads, owner, work, memory, scratch);
    return ballast::detail::settle_bags(plan, target, scratch)();
  }

  [[nodiscard]] ratio makespan() const
  {
    ratio latest;
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      latest = std::max(latest, ratio{loads[bag], speeds[bag]});
    }
    return latest;
  }

  std::vector<cost_units> costs;
  std::vector<ballast::tokens> lengths;
  std::vector<std::uint32_t> gpus;
  std::vector<std::uint32_t> speeds;
  std::vector<ballast::priced_sample> order;
  std::vector<cost_units> loads;
  std::vector<bag_id> owner;
  ballast::workspace memory;
};

std::vector<cost_units> random_costs(std::uint64_t seed, std::size_t count, cost_units heaviest)
{
  ballast::random_source random(seed);
  std::vector<cost_units> costs(count);
  for (cost_units& cost : costs) { cost = random.between(1, heaviest); }
  return costs;
}

TEST(SettleBags, LeavesNoUnitTooMuchInAnyBag)  // Ensures (2)
{
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    dealt_samples step(random_costs(seed, 320, 100'000), std::vector<std::uint32_t>(10, 1));
    cost_units const work = std::reduce(step.costs.begin(), step.costs.end());
    ratio const mean{(work + 9) / 10, 1};
    EXPECT_TRUE(step.settle(mean)) << "seed " << seed;
    EXPECT_LE(step.makespan(), mean) << "seed " << seed;
  }
}

TEST(SettleBags, GivesBagsOfSeveralSpeedsWhatTheyDoInTime)  // Ensures (2)
{
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    dealt_samples step(random_costs(seed, 300, 10'000), {1, 1, 2, 3, 4, 4, 8});
    cost_units const work = std::reduce(step.costs.begin(), step.costs.end());
    ratio const target{(work + 22) / 23, 1};
    EXPECT_TRUE(step.settle(target)) << "seed " << seed;
    EXPECT_LE(step.makespan(), target) << "seed " << seed;
  }
}

TEST(SettleBags, OnlyEverShrinksTheMakespan)  // Ensures (1)
{
  for (std::uint64_t work = 0; work < 200'000; work += 5'000) {
    dealt_samples step(random_costs(3, 200, 1'000'000), {1, 1, 1, 2, 5});
    ratio const dealt = step.makespan();
    step.settle({1, 1}, work);
    EXPECT_LE(step.makespan(), dealt) << "work " << work;
  }
}

TEST(SettleBags, SaysWhereItCannot)  // Ensures (2)
{
  dealt_samples one({5, 5, 5}, {1, 1});
  EXPECT_FALSE(one.settle({8, 1}));  // 7.5 rounded up, and no load is 8
  EXPECT_EQ(one.makespan(), (ratio{10, 1}));
  dealt_samples nothing({}, {1, 1});
  EXPECT_TRUE(nothing.settle({0, 1}));
  dealt_samples single({3, 4}, {1});
  EXPECT_TRUE(single.settle({7, 1}));
  EXPECT_FALSE(single.settle({6, 1}));
}

TEST(SurplusQueue, GivesTiesToTheFirstBag)
{
  std::vector<ballast::detail::surplus_bag> memory(4);
  ballast::detail::surplus_queue<true> heavy(memory);
  for (std::uint32_t const bag : {2U, 0U, 3U, 1U}) { heavy.push({bag < 2 ? 5 : 9, bag}); }
  for (std::uint32_t const bag : {2U, 3U, 0U, 1U}) { EXPECT_EQ(heavy.pop().index, bag); }
  ballast::detail::surplus_queue<false> light(memory);
  for (std::uint32_t const bag : {2U, 0U, 3U, 1U}) { light.push({bag < 2 ? -5 : -9, bag}); }
  for (std::uint32_t const bag : {2U, 3U, 0U, 1U}) { EXPECT_EQ(light.pop().index, bag); }
}

}  // namespace
