#include <ballast/partition/packing/detail/weight_kinds.hpp>  // first: proves it is self-contained

#include "../../../support/packing_oracles.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::detail::weight_kinds;

std::vector<ballast::priced_sample> ordered_weights(std::vector<std::int64_t> const& weights)
{
  ballast::workspace memory;
  std::vector<ballast::priced_sample> order(weights.size());
  ballast::descending_order_into(order, weights, memory);
  return order;
}

TEST(WeightKinds, AreTheWeightsWhereThereAreFew)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  weight_kinds kinds(30, scratch);
  auto const order = ordered_weights({3300, 3366, 3366, 3340});
  kinds.list(order, 10'000, true);
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds.all()[0].wanted, 3366);
  EXPECT_EQ(kinds.demands()[0], 2U << weight_kinds::demand_bits);
  // What fits is the same with costs that are all less: three of them do or do not, four never.
  EXPECT_LT(kinds.room(), 1000);
  auto const costs = kinds.costs();
  EXPECT_GT(2 * costs[0] + costs[2], kinds.room());
  EXPECT_LE(costs[0] + 2 * costs[2], kinds.room());
  EXPECT_LE(2 * costs[0], kinds.room());
  EXPECT_GT(4 * costs[2], kinds.room());
}

TEST(WeightKinds, AreMultiplesOfAPartOfTheCapacityWhereThereAreMany)
{
  ballast::random_source random(211);
  std::vector<std::int64_t> weights(500);
  for (auto& weight : weights) { weight = random.between(1, 10'000); }
  auto const order = ordered_weights(weights);
  ballast::workspace memory;
  auto scratch = memory.open();
  weight_kinds kinds(96, scratch);
  kinds.list(order, 10'000, true);
  EXPECT_LE(kinds.size(), 96U);
  // Parts of a sample have its weight together, but for the part that goes to 0.
  std::int64_t parts = 0;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    parts += kinds.demands()[kind] * kinds.costs()[kind];
    if (kind > 0) { EXPECT_LT(kinds.costs()[kind], kinds.costs()[kind - 1]); }
  }
  double const all =
      static_cast<double>(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}));
  EXPECT_NEAR(static_cast<double>(parts) / 64 / static_cast<double>(kinds.room()), all / 10'000,
              1.0);
}

TEST(WeightKinds, BoundsHoldForWhateverPrices)
{
  ballast::random_source random(212);
  ballast::workspace memory;
  int useful = 0;
  for (int trial = 0; trial < 600; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto scratch = memory.open();
    auto step = ballast_test::random_packing(random, 8);
    std::erase(step.weights, 0);
    if (step.weights.empty()) { continue; }
    std::size_t const fewest = ballast_test::fewest_bins(step);
    auto const order = ordered_weights(step.weights);
    weight_kinds kinds(trial % 2 == 0 ? 30 : 96, scratch);
    if (step.capacity > std::int64_t{1} << 32) { continue; }
    kinds.list(order, step.capacity, trial % 3 != 0);
    std::vector<std::int32_t> prices(kinds.size());
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      auto const own = static_cast<std::int32_t>((kinds.costs()[kind] << 20) / kinds.room());
      prices[kind] = trial % 5 == 0 ? static_cast<std::int32_t>(random.below(1 << 20)) : own;
    }
    std::size_t const bound = kinds.bound(order, step.capacity, prices, scratch);
    ASSERT_LE(bound, fewest);
    useful += bound == fewest ? 1 : 0;
  }
  EXPECT_GT(useful, 100);
}

}  // namespace
