// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/descending_order.hpp>

#include "../support/test.hpp"

namespace {

using namespace ballast;
using cost_list = std::vector<cost_units>;
using sample_order = std::vector<priced_sample>;

constexpr cost_units greatest = std::numeric_limits<cost_units>::max();

sample_order descending(cost_list const& of, workspace& memory)
{
  sample_order result(of.size());
  descending_order_into(result, of, memory);
  return result;
}

sample_order descending(cost_list const& of)
{
  workspace memory;
  return descending(of, memory);
}

// Oracle: a multimap keeps equal keys in the order in which they came, which is the only order with
// Ensures (1) and (2).
sample_order stably_sorted(cost_list const& of)
{
  std::multimap<cost_units, sample_id, std::greater<>> by_cost;
  for (cost_units const cost : of) { by_cost.emplace(cost, to_id<sample_id>(by_cost.size())); }
  sample_order result;
  for (auto const& [cost, sample] : by_cost) { result.push_back({cost, sample}); }
  return result;
}

TEST(DescendingOrder, IsAStableSortAtEverySizeAndMagnitude)  // Ensures (1) (2)
{
  random_source random(20240607);
  workspace memory;
  for (std::size_t const size :
       {0U, 1U, 2U, 64U, 255U, 256U, 257U, 511U, 512U, 513U, 4096U, 70'000U}) {
    for (cost_units const most :
         {cost_units{1}, cost_units{255}, cost_units{2048}, cost_units{1} << 22,
          cost_units{1} << 32, (cost_units{1} << 33) + 1, cost_units{1} << 40, greatest}) {
      SCOPED_TRACE(testing::Message() << size << " costs up to " << most);
      cost_list of(size);
      for (cost_units& cost : of) { cost = random.between(0, most); }
      ASSERT_EQ(descending(of, memory), stably_sorted(of));
    }
  }
}

// Costs that a sort by their highest 32 bits alone would leave in sample order.
TEST(DescendingOrder, ComparesWhatTheHighestBitsDoNotTellApart)
{
  random_source random(20240607);
  for (cost_units const spread : {1, 2, 1000, 1 << 30}) {
    cost_list of(3000);
    for (cost_units& cost : of) {
      cost = random.between(0, 3) * (greatest / 4) + random.between(0, spread);
    }
    ASSERT_EQ(descending(of), stably_sorted(of)) << "spread " << spread;
  }
}

TEST(DescendingOrder, KeepsSampleOrderWhereAllCostsAreEqual)
{
  for (std::size_t const size : {1U, 255U, 256U, 600U}) {
    for (cost_units const cost : {cost_units{0}, cost_units{7}, greatest}) {
      cost_list const of(size, cost);
      EXPECT_EQ(descending(of), stably_sorted(of)) << size << " times " << cost;
    }
  }
}

TEST(DescendingOrder, TellsNeighboursApartAtBothEndsOfTheRange)
{
  for (std::size_t const size : {5U, 512U}) {
    cost_list of(size, 1);
    of[1] = greatest;
    of[2] = 0;
    of[3] = greatest - 1;
    of[4] = greatest;
    sample_order const result = descending(of);
    EXPECT_EQ(result, stably_sorted(of));
    EXPECT_EQ(result.front(), (priced_sample{greatest, sample_id{1}}));
    EXPECT_EQ(result.back(), (priced_sample{0, sample_id{2}}));
  }
}

TEST(DescendingOrder, LeavesTheWorkspaceAsItFoundIt)
{
  workspace memory;
  auto outer = memory.open();
  auto const kept = outer.take<std::uint64_t>(4);
  std::ranges::fill(kept, 42U);
  (void)descending(cost_list(600, 3), memory);
  EXPECT_EQ(std::ranges::count(kept, 42U), 4);
}

TEST(DescendingOrderDeathTest, RejectsAnOrderOfAnotherSize)
{
  workspace memory;
  cost_list const of(3, 1);
  sample_order result(2);
  EXPECT_DEATH(descending_order_into(result, of, memory), "`order` has .* entries for .* costs");
}

#ifdef BALLAST_AUDIT_ENABLED
TEST(DescendingOrderDeathTest, RejectsANegativeCost)
{
  EXPECT_DEATH((void)descending({1, -1}), "a cost to sort is negative");
}
#endif

}  // namespace
