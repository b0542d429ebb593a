#include <ballast/partition/detail/exchange/nearest_swap.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::ratio;
using ballast::detail::even_net;
using ballast::detail::later_finish;
using ballast::detail::nearest_swap;

struct two_loads {
  std::vector<cost_units> work;
  std::vector<std::uint32_t> speeds;
  std::span<cost_units const> loads() const { return work; }
  std::uint32_t speed(std::size_t bag) const { return speeds[bag]; }
};

struct item {
  cost_units cost;
  int kind;
};

TEST(EvenNet, MakesBothBagsFinishTogether)
{
  EXPECT_EQ(even_net(two_loads{{90, 30}, {1, 1}}, 0, 1), 30);
  EXPECT_EQ(even_net(two_loads{{91, 30}, {1, 1}}, 0, 1), 30);
  EXPECT_EQ(even_net(two_loads{{90, 0}, {1, 2}}, 0, 1), 60);
  constexpr cost_units most = std::numeric_limits<cost_units>::max() - 1;
  EXPECT_EQ(even_net(two_loads{{most, 0}, {4'000'000'000, 4'000'000'000}}, 0, 1), most / 2);
}

TEST(NearestSwap, IsTheBestOfAllThatAreAllowed)
{
  ballast::random_source random(91);
  int swaps = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const draw = [&] {
      std::vector<item> items(random.below(9));
      for (item& each : items) {
        each = {random.between(0, trial % 2 == 0 ? 6 : 100), static_cast<int>(random.below(3))};
      }
      std::ranges::sort(items, std::greater{}, &item::cost);
      return items;
    };
    std::vector<item> const giving = draw();
    std::vector<item> const taking = draw();
    two_loads bags{{0, 0},
                   {static_cast<std::uint32_t>(random.between(1, 3)),
                    static_cast<std::uint32_t>(random.between(1, 3))}};
    for (item const each : giving) { bags.work[0] += each.cost; }
    for (item const each : taking) { bags.work[1] += each.cost; }
    if (!(ratio{bags.work[0], bags.speeds[0]} > ratio{bags.work[1], bags.speeds[1]})) { continue; }
    auto const allowed = [&](std::size_t given, std::size_t taken) {
      return giving[given].kind != taking[taken].kind;
    };
    ratio const before = later_finish(bags, 0, 1, 0);
    ratio best = before;
    for (std::size_t given = 0; given < giving.size(); ++given) {
      for (std::size_t taken = 0; taken < taking.size(); ++taken) {
        if (!allowed(given, taken)) { continue; }
        best = std::min(best, later_finish(bags, 0, 1, giving[given].cost - taking[taken].cost));
      }
    }
    auto const found = nearest_swap(bags, 0, 1, std::span(giving), std::span(taking), allowed);
    ASSERT_EQ(later_finish(bags, 0, 1, found.net), best);
    if (found.net == 0) { continue; }
    ++swaps;
    EXPECT_TRUE(allowed(found.given, found.taken));
    EXPECT_EQ(found.net, giving[found.given].cost - taking[found.taken].cost);
    EXPECT_LT(best, before);
  }
  EXPECT_GT(swaps, 300);
}

}  // namespace
