#include <ballast/partition/detail/counts/counted_exchanges.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/partition/detail/counts/balanced_counts.hpp>
#include <ballast/partition/detail/exchange/swap_extremes.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::ratio;
using ballast::detail::counted_bags;
using ballast::detail::counted_exchanges;

constexpr auto unlimited_work = std::numeric_limits<std::uint64_t>::max();

// A step in bags that are not evened out: samples are laid out by number, not by cost.
struct uneven_bags {
  ballast_test::direct_problem given;
  std::vector<std::uint32_t> counts;
  std::vector<cost_units> loads;
  ballast::workspace memory;
  ballast::workspace::frame frame = memory.open();

  explicit uneven_bags(ballast_test::instance const& step)
      : given(step), counts(step.gpus.size()), loads(step.gpus.size(), 0)
  {
    ballast::detail::balanced_counts_into(counts, given.view(), loads, 1, memory);
  }

  ratio makespan() const
  {
    ratio latest;
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      latest = std::max(latest, ratio{loads[bag], given.speeds[bag]});
    }
    return latest;
  }
};

// Oracle: the best later finish of every single swap.
ratio best_of_all_swaps(ballast_test::direct_problem const& given, counted_bags const& bags,
                        counted_exchanges const& plan, std::size_t a, std::size_t b)
{
  ratio best = later_finish(plan, a, b, 0);
  for (auto const x : bags[a]) {
    for (auto const y : bags[b]) {
      bool const fits = ballast::partition_problem::splits(given.step.lengths[to_index(x.sample)],
                                                           given.step.gpus[b]) &&
                        ballast::partition_problem::splits(given.step.lengths[to_index(y.sample)],
                                                           given.step.gpus[a]);
      if (fits) { best = std::min(best, later_finish(plan, a, b, x.cost - y.cost)); }
    }
  }
  return best;
}

TEST(CountedExchanges, FindTheBestSwapOfAll)
{
  ballast::random_source random(61);
  int swaps = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = ballast_test::random_instance(random, 16, 2, trial % 2 == 0 ? 1 : 4);
    if (step.gpus.size() < 2) { continue; }
    uneven_bags bags(step);
    counted_bags const filled(bags.given.view(), bags.counts, bags.loads, bags.frame);
    for (int mixed = 0; mixed < 4 && !step.costs.empty();
         ++mixed) {  // undo what filling evened out
      if (filled[0].empty() || filled[1].empty()) { break; }
      auto const x = static_cast<std::uint32_t>(random.below(filled[0].size()));
      auto const y = static_cast<std::uint32_t>(random.below(filled[1].size()));
      auto const fits = [&](ballast::priced_sample item, std::size_t bag) {
        return ballast::partition_problem::splits(step.lengths[to_index(item.sample)],
                                                  step.gpus[bag]);
      };
      if (fits(filled[0][x], 1) && fits(filled[1][y], 0)) { filled.swap(0, {&x, 1}, 1, {&y, 1}); }
    }
    ballast::detail::work_budget work(unlimited_work);
    counted_exchanges plan(bags.given.view(), filled, work, bags.memory);
    ratio const before = bags.makespan();
    auto const finish = [&](std::size_t bag) { return ratio{plan.loads()[bag], plan.speed(bag)}; };
    std::size_t const late = finish(0) > finish(1) ? 0 : 1;
    if (finish(0) == finish(1)) { continue; }
    ratio const best = best_of_all_swaps(bags.given, filled, plan, late, 1 - late);
    auto const swap = plan.find_swap(late, 1 - late);
    bool const swapped = swap.net != 0;
    if (swapped) { plan.make(swap); }
    EXPECT_EQ(bags.makespan(), best);
    EXPECT_EQ(swapped, best < before);
    swaps += swapped ? 1 : 0;
  }
  EXPECT_GT(swaps, 500);
}

// Oracle: the least net work in a range over all exchanges of as many samples.
cost_units least_net(std::span<ballast::priced_sample const> from,
                     std::span<ballast::priced_sample const> to, cost_units least, cost_units most)
{
  cost_units best = 0;
  for (std::uint32_t given = 0; given < 1U << from.size(); ++given) {
    for (std::uint32_t taken = 0; taken < 1U << to.size(); ++taken) {
      if (std::popcount(given) != std::popcount(taken)) { continue; }
      cost_units net = 0;
      for (std::size_t i = 0; i < from.size(); ++i) { net += (given >> i & 1) * from[i].cost; }
      for (std::size_t i = 0; i < to.size(); ++i) { net -= (taken >> i & 1) * to[i].cost; }
      if (net >= least && net <= most && (best == 0 || net < best)) { best = net; }
    }
  }
  return best;
}

TEST(CountedExchanges, FindTheLeastNetWorkThatIsEnough)
{
  ballast::random_source random(63);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::instance step{{}, {}, {1, 1}};
    for (int sample = 0; sample < 12; ++sample) {
      step.lengths.push_back(1);
      step.costs.push_back(random.between(0, 200));
    }
    uneven_bags bags(step);
    counted_bags const filled(bags.given.view(), bags.counts, bags.loads, bags.frame);
    ballast::detail::work_budget work(unlimited_work);
    counted_exchanges plan(bags.given.view(), filled, work, bags.memory);
    cost_units const least = random.between(1, 60);
    auto const found = plan.find(0, 1, {least, least, least + 20}, 6);
    cost_units const expected = least_net(filled[0], filled[1], least, least + 20);
    if (expected != 0) { ASSERT_EQ(found.net, expected); }
    if (found.net == 0) { continue; }
    std::vector<cost_units> const before = bags.loads;
    plan.make(found);
    EXPECT_EQ(bags.loads[0], before[0] - found.net);
    EXPECT_EQ(bags.loads[1], before[1] + found.net);
  }
}

TEST(SwapExtremes, EvensOutWithoutChangingCounts)  // Ensures (1) (2)
{
  ballast::random_source random(62);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    uneven_bags bags(ballast_test::random_instance(random, 40, 8, 8));
    counted_bags const filled(bags.given.view(), bags.counts, bags.loads, bags.frame);
    ratio const before = bags.makespan();
    ballast::detail::work_budget work(unlimited_work);
    counted_exchanges plan(bags.given.view(), filled, work, bags.memory);
    ballast::detail::swap_extremes(plan, ratio{}, bags.memory);
    EXPECT_LE(bags.makespan(), before);
    std::vector<ballast::bag_id> owner(bags.given.step.costs.size());
    filled.store(owner);
    std::vector<cost_units> loads(bags.loads.size(), 0);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      std::size_t const bag = to_index(owner[sample]);
      loads[bag] += bags.given.step.costs[sample];
      EXPECT_TRUE(ballast::partition_problem::splits(bags.given.step.lengths[sample],
                                                     bags.given.step.gpus[bag]));
    }
    EXPECT_EQ(loads, bags.loads);
  }
}

TEST(SwapExtremes, StopsAtTheLimitAndAtTheEndOfItsWork)  // Ensures (3)
{
  // Bags of 9 + 4 + 2 and 8 + 3 + 1: a swap of 4 for 3 makes 14 and 13.
  ballast_test::instance const step{std::vector<ballast::tokens>(6, 1), {9, 8, 4, 3, 2, 1}, {1, 1}};
  auto const makespan_after = [&](ratio limit, std::uint64_t steps) {
    ballast::detail::work_budget work(steps);
    uneven_bags bags(step);
    counted_bags const filled(bags.given.view(), bags.counts, bags.loads, bags.frame);
    filled.swap(0, std::array{1U}, 1, std::array{1U});
    counted_exchanges plan(bags.given.view(), filled, work, bags.memory);
    ballast::detail::swap_extremes(plan, limit, bags.memory);
    return bags.makespan();
  };
  EXPECT_EQ(makespan_after({1, 1}, 0), (ratio{15, 1}));
  EXPECT_EQ(makespan_after({15, 1}, unlimited_work), (ratio{15, 1}));
  EXPECT_EQ(makespan_after({1, 1}, 1), (ratio{14, 1}));  // a swap that was begun is made
  EXPECT_EQ(makespan_after({1, 1}, unlimited_work), (ratio{14, 1}));
}

}  // namespace
