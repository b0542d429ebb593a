// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/unit_prices.hpp>  // first: proves it is self-contained

#include "../../support/small_orchestration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace {

using ballast::module_layout;
using ballast::unit_time;
using ballast::detail::passes_of;
using ballast::detail::unit_passes;
using ballast::detail::unit_prices;
using testing::ElementsAre;

TEST(UnitPasses, LetGradientsThroughToWhatIsTrained)
{
  auto problem = ballast_test::small_orchestration();
  problem.modules.push_back(problem.modules[0]);
  auto const of_modules = [&problem] {
    return std::array{passes_of(problem, 0), passes_of(problem, 1), passes_of(problem, 2)};
  };
  using enum unit_passes;
  EXPECT_THAT(of_modules(), ElementsAre(all, all, all));
  for (auto& module : problem.modules) { module.is_trained = false; }
  EXPECT_THAT(of_modules(), ElementsAre(forward, forward, forward));
  problem.modules[1].is_input_trained = true;
  EXPECT_THAT(of_modules(), ElementsAre(forward, through_frozen, through_frozen));
  problem.modules[1].is_input_trained = false;
  problem.modules[1].is_trained = true;
  EXPECT_THAT(of_modules(), ElementsAre(forward, all, through_frozen));
}

TEST(UnitPrices, AreThoseOfTheLargestStage)
{
  auto problem = ballast_test::small_orchestration();
  unit_prices const prices(problem, 1, problem.kinds[0], unit_passes::all);
  EXPECT_TRUE(prices.has_stages(4) && !prices.has_stages(5) && !prices.has_stages(0));
  EXPECT_EQ(prices.layers_of_stage(3), 2U);
  auto const price = prices.price(0, {1, 3, 1}, 5);
  EXPECT_EQ(price.time, (unit_time{600, 1800}));  // 5 samples of 240, half of them
  // Half of the state, and of the activations three microbatches of half the layers.
  EXPECT_EQ(prices.bytes(price, 3, 0, 9), 40U + 40U + 240U + 5 * 60U);
  EXPECT_EQ(prices.bytes(price, 3, 2, 9), 40U + 40U + 240U + 5 * 100U) << "two more behind it";
  EXPECT_EQ(prices.bytes(price, 3, 2, 4), 40U + 40U + 240U + 5 * 80U) << "no more than there are";
  EXPECT_EQ(prices.room(price, 3, 9), 3) << "1,000 bytes have room for six of 100";
}

TEST(UnitPrices, ShareSamplesAmongReplicas)
{
  auto const problem = ballast_test::small_orchestration();
  unit_prices const prices(problem, 1, problem.kinds[0], unit_passes::all);
  auto const price = prices.price(0, {1, 1, 12}, 5);
  EXPECT_EQ(price.time, (unit_time{100, 100}));
  EXPECT_EQ(prices.bytes(price, 1, 0, 9), 160U + 40U + 40U);  // one sample at a time
}

TEST(UnitPrices, KeepOfFrozenModulesWhatIsComputed)
{
  auto const problem = ballast_test::small_orchestration();
  unit_prices const forward(problem, 1, problem.kinds[0], unit_passes::forward);
  EXPECT_EQ(forward.price(0, {1, 1, 1}, 1).time.microbatch, 80);
  auto const price = forward.price(0, {1, 1, 1}, 1);
  EXPECT_EQ(forward.bytes(price, 1, 5, 9), 80U + 10U);  // weights, one layer
  EXPECT_EQ(forward.room(price, 1, 9), 9);
  unit_prices const through(problem, 1, problem.kinds[0], unit_passes::through_frozen);
  EXPECT_EQ(through.price(0, {1, 1, 1}, 1).time.microbatch, 160);
  EXPECT_EQ(through.bytes(through.price(0, {1, 1, 1}, 1), 1, 0, 9), 80U + 40U);
}

TEST(UnitPrices, FillInterleavedPipelinesFaster)
{
  auto problem = ballast_test::small_orchestration();
  problem.modules[1].virtual_stages = 2;
  unit_prices const prices(problem, 1, problem.kinds[0], unit_passes::all);
  EXPECT_EQ(prices.price(0, {1, 2, 1}, 1).time, (unit_time{120, 120}));
  auto const price = prices.price(0, {1, 2, 1}, 1);
  EXPECT_EQ(prices.bytes(price, 2, 0, 9), 40U + 40U + 240U + 60U)
      << "6 chunks of 4, in groups of 3";
  EXPECT_EQ(prices.bytes(price, 2, 0, 8), 40U + 40U + 240U + 50U) << "5 chunks, in groups of 2";
  EXPECT_EQ(prices.price(0, {1, 1, 1}, 1).time, (unit_time{240, 240}));
  EXPECT_FALSE(prices.has_stages(3));
}

TEST(UnitPrices, CountTrafficBetweenNodesAndSpeed)
{
  auto problem = ballast_test::small_orchestration();
  problem.kinds[0].bytes_per_second = 1'000'000'000'000;  // a byte in a picosecond
  problem.modules[1].boundary_bytes = 30;
  unit_prices const prices(problem, 1, problem.kinds[0], unit_passes::all);
  // Both ways; 3 / 4 of weights and gradients of half the layers.
  EXPECT_EQ(prices.price(1, {2, 2, 4}, 4).time, (unit_time{60 + 30, 2 * 90 + 30}));
  unit_prices const forward(problem, 1, problem.kinds[0], unit_passes::forward);
  EXPECT_EQ(forward.price(1, {2, 2, 4}, 4).time, (unit_time{20 + 15, 70}));
  problem.kinds[0].speed = {3, 2};
  EXPECT_EQ(prices.price(1, {2, 2, 4}, 4).time.microbatch, 40 + 30);
  problem.modules.erase(problem.modules.begin());
  unit_prices const alone(problem, 0, problem.kinds[0], unit_passes::all);
  EXPECT_EQ(alone.price(0, {1, 1, 1}, 1).time, (unit_time{160, 160})) << "no neighbour";
}

TEST(UnitPrices, SayWhatDoesNotFit)
{
  using limits = ballast::orchestration_problem;
  auto problem = ballast_test::small_orchestration();
  problem.modules[1].degrees[0].forward = limits::longest_time;
  problem.modules[1].degrees[0].activation_bytes = limits::most_bytes;
  problem.modules[1].boundary_bytes = limits::most_bytes;
  problem.kinds[0].speed = {1, limits::most_speed};
  problem.kinds[0].bytes_per_second = 1;
  unit_prices const prices(problem, 1, problem.kinds[0], unit_passes::all);
  auto const price = prices.price(0, {1, 4, 1}, limits::most_global_batch);
  EXPECT_EQ(price.time, (unit_time{ballast::no_cost, ballast::no_cost}));
  EXPECT_EQ(prices.bytes(price, 4, 0, 9), ~std::uint64_t{0});
  EXPECT_EQ(prices.room(price, 4, 9), -1);
}

}  // namespace
