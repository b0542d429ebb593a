#include <ballast/partition/detail/exchange/settle_latest.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::ratio;

// Bags between which any whole amount of work may move, up to `largest` at once.
struct fluid_plan {
  struct exchange_type {
    std::size_t from = 0;
    std::size_t to = 0;
    cost_units net = 0;
  };

  std::vector<cost_units> busy;
  std::vector<std::uint32_t> speeds;
  cost_units largest;
  ballast::detail::work_budget left{1'000'000};
  std::vector<exchange_type> made = {};

  std::span<cost_units const> loads() const { return busy; }
  std::uint32_t speed(std::size_t bag) const { return speeds[bag]; }
  ballast::detail::work_budget& work() { return left; }
  exchange_type find(std::size_t late, std::size_t early, ballast::detail::wanted_net wanted,
                     std::size_t)
  {
    return {late, early, std::min(wanted.least, largest)};
  }
  exchange_type find_swap(std::size_t, std::size_t) { return {}; }
  void make(exchange_type const& chosen)
  {
    ASSERT_TRUE(busy[chosen.from] >= chosen.net);
    busy[chosen.from] -= chosen.net;
    busy[chosen.to] += chosen.net;
    made.push_back(chosen);
  }
};

ratio makespan(fluid_plan const& plan)
{
  ratio latest;
  for (std::size_t bag = 0; bag < plan.busy.size(); ++bag) {
    latest = std::max(latest, ratio{plan.busy[bag], plan.speeds[bag]});
  }
  return latest;
}

void settle(fluid_plan& plan, ratio limit)
{
  ballast::workspace memory;
  auto frame = memory.open();
  ballast::detail::settle_latest(plan, limit, frame)();
}

TEST(SettleLatest, BringsOneBagAfterAnotherToItsLimitExactly)
{
  fluid_plan plan{{90, 80, 30, 40}, {1, 1, 1, 1}, 1000};
  settle(plan, {60, 1});
  EXPECT_EQ(plan.busy, (std::vector<cost_units>{60, 60, 60, 60}));
  // 30 from the first fill the third; 20 from the second fill the fourth.
  EXPECT_EQ(plan.made.size(), 2U);
}

TEST(SettleLatest, KnowsSpeeds)
{
  fluid_plan plan{{90, 0}, {1, 2}, 1000};
  settle(plan, {30, 1});
  EXPECT_EQ(plan.busy, (std::vector<cost_units>{30, 60}));
}

TEST(SettleLatest, EvensOutWhereTheLimitCannotBeMet)
{
  fluid_plan plan{{90, 10, 20}, {1, 1, 1}, 1000};
  settle(plan, {5, 1});
  EXPECT_EQ(makespan(plan), (ratio{40, 1}));
}

TEST(SettleLatest, TakesSmallExchangesWhereThereAreNoLarger)
{
  fluid_plan plan{{90, 10, 20}, {1, 1, 1}, 3};
  settle(plan, {40, 1});
  EXPECT_EQ(makespan(plan), (ratio{40, 1}));
}

TEST(SettleLatest, WastesOnlyRoomToSpare)
{
  // 4 bags of 60 have 240; 230 of work leave each 2 to spare.
  fluid_plan plan{{90, 80, 30, 30}, {1, 1, 1, 1}, 1000};
  settle(plan, {60, 1});
  EXPECT_LE(makespan(plan), (ratio{60, 1}));
  EXPECT_EQ(plan.made.size(), 2U);
}

TEST(SettleInStages, EndsAMillionthAboveTheLimitAtMost)
{
  fluid_plan plan{{90'000'000, 80'000'000, 30'000'000, 40'000'000}, {1, 1, 1, 1}, 100'000'000};
  ballast::workspace memory;
  auto frame = memory.open();
  ballast::detail::settle_in_stages(plan, {60'000'000, 1}, frame);
  EXPECT_LE(makespan(plan), (ratio{60'000'060, 1}));
  fluid_plan small{{90, 80, 30, 40}, {1, 1, 1, 1}, 1000};
  ballast::detail::settle_in_stages(small, {60, 1}, frame);
  EXPECT_EQ(makespan(small), (ratio{60, 1}));
}

TEST(SettleLatest, DoesNothingAtTheLimitOrWithoutWork)
{
  fluid_plan done{{40, 20}, {1, 1}, 1000};
  settle(done, {40, 1});
  EXPECT_TRUE(done.made.empty());
  fluid_plan tired{{40, 20}, {1, 1}, 1000, ballast::detail::work_budget(0)};
  settle(tired, {30, 1});
  EXPECT_TRUE(tired.made.empty());
  fluid_plan alone{{40}, {1}, 1000};
  settle(alone, {30, 1});
  EXPECT_TRUE(alone.made.empty());
}

}  // namespace
