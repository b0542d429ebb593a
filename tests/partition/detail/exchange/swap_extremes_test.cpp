#include <ballast/partition/detail/exchange/swap_extremes.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/quantities.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::ratio;

// Bags that swap one unit of work at a time.
struct unit_swaps {
  struct exchange_type {
    std::size_t from = 0;
    std::size_t to = 0;
    cost_units net = 0;
  };

  std::vector<cost_units> busy;
  ballast::detail::work_budget left{1000};
  std::vector<std::size_t> gave = {};

  std::span<cost_units const> loads() const { return busy; }
  std::uint32_t speed(std::size_t) const { return 1; }
  ballast::detail::work_budget& work() { return left; }
  exchange_type find_swap(std::size_t late, std::size_t early)
  {
    left.spend(1);
    return {late, early, busy[late] - busy[early] > 1 ? 1 : 0};
  }
  void make(exchange_type const& chosen)
  {
    --busy[chosen.from];
    ++busy[chosen.to];
    gave.push_back(chosen.from);
  }
};

TEST(SwapExtremes, EvensOutTheLatestWithTheEarliestBag)
{
  unit_swaps plan{{9, 1, 5, 5, 8}};
  ballast::workspace memory;
  ballast::detail::swap_extremes(plan, ratio{0, 1}, memory);
  EXPECT_EQ(plan.busy, (std::vector<cost_units>{5, 5, 6, 6, 6}));
  EXPECT_EQ(plan.gave.front(), 0U);
}

TEST(SwapExtremes, EndsAtItsLimitAndWithItsWork)  // Ensures (2)
{
  ballast::workspace memory;
  unit_swaps reached{{9, 1}};
  ballast::detail::swap_extremes(reached, ratio{7, 1}, memory);
  EXPECT_EQ(reached.busy, (std::vector<cost_units>{7, 3}));
  unit_swaps spent{{9, 1}, ballast::detail::work_budget{3}};
  ballast::detail::swap_extremes(spent, ratio{0, 1}, memory);
  EXPECT_EQ(spent.busy, (std::vector<cost_units>{6, 4}));
}

}  // namespace
