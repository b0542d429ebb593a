// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/device_costs.cuh>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/quadratic_cost.hpp>

#include <functional>
#include <random>

namespace {

using ballast::cost_units;
using ballast::device_cost_model;
using ballast::no_cost;
using ballast::quadratic_cost;
using ballast::tokens;
using ballast::detail::saturating_plus;

struct document {
  tokens patches;
  tokens text;
};

using of_document = ballast::sum_of<ballast::cost_of<quadratic_cost, tokens document::*>,
                                    ballast::cost_of<quadratic_cost, tokens document::*>>;

static_assert(device_cost_model<quadratic_cost, tokens>);
static_assert(device_cost_model<ballast::interpolated_cost, tokens>);
static_assert(device_cost_model<of_document, document>);
static_assert(!device_cost_model<of_document, tokens>);
static_assert(!device_cost_model<std::function<cost_units(tokens)>, tokens>);  // refers to the host

// A GPU adds neighbours first, and sums of neighbours in an order of its own.
cost_units sum_in_any_order(std::vector<cost_units> costs, std::mt19937_64& random)
{
  while (costs.size() > 1) {
    std::size_t const first = random() % costs.size();
    std::swap(costs[first], costs.back());
    cost_units const taken = costs.back();
    costs.pop_back();
    std::size_t const second = random() % costs.size();
    costs[second] = saturating_plus{}(costs[second], taken);
  }
  return costs.empty() ? 0 : costs.front();
}

TEST(TotalCost, DoesNotDependOnTheOrderOfAdding)  // Ensures (1) of total_cost
{
  std::mt19937_64 random(20240607);
  std::vector<cost_units> const largest = {10, 1'000'000, no_cost / 40, no_cost / 3, no_cost};
  for (cost_units const most : largest) {
    std::uniform_int_distribution<cost_units> below(0, most);
    for (int trial = 0; trial < 200; ++trial) {
      SCOPED_TRACE(testing::Message() << "costs up to " << most << ", trial " << trial);
      std::vector<cost_units> costs(random() % 80);
      std::ranges::generate(costs, [&] { return below(random); });

      cost_units one_by_one = 0;
      for (cost_units const cost : costs) {
        one_by_one = ballast::saturating_sum(one_by_one, cost);
      }
      EXPECT_EQ(sum_in_any_order(costs, random), one_by_one);
      costs.push_back(0);  // what the sum begins with
      EXPECT_EQ(sum_in_any_order(costs, random), one_by_one);
    }
  }
}

// What CUDA reports where there is no GPU is returned, not thrown.
TEST(DeviceCosts, ReturnCudasErrors)
{
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    GTEST_SKIP() << "there is a CUDA device";
  }
  quadratic_cost const model{1, 2, 3};
  tokens const lengths[] = {1};
  cost_units costs[1] = {};
  std::uint32_t counts[1] = {};
  std::size_t bytes = 0;
  EXPECT_NE(ballast::costs_of(lengths, 1, model, costs, nullptr), cudaSuccess);
  EXPECT_NE(ballast::total_cost(nullptr, bytes, lengths, 1, model, costs, nullptr), cudaSuccess);
  EXPECT_NE(ballast::count_lengths(nullptr, bytes, lengths, 1, lengths, 1, counts, nullptr),
            cudaSuccess);
}

TEST(CountLengthsDeathTest, RefusesWhatItCannotCount)  // Expects
{
  tokens const* const lengths = nullptr;
  std::uint32_t counts[1] = {};
  std::size_t bytes = 0;
  EXPECT_DEATH(
      (void)ballast::count_lengths(nullptr, bytes, lengths, 1, lengths, 0, counts, nullptr),
      "of 0 bins,");
  EXPECT_DEATH((void)ballast::count_lengths(nullptr, bytes, lengths, std::size_t{1} << 31, lengths,
                                            1, counts, nullptr),
               "of 2147483648 lengths,");
}

}  // namespace
