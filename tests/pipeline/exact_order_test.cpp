// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/exact_order.hpp>  // first: proves it is self-contained

#include "../support/compiled_schedules.hpp"
#include "../support/microbatch_families.hpp"
#include "../support/numbered_order.hpp"
#include "../support/order_checks.hpp"
#include "../support/pipeline_families.hpp"
#include "../support/random_times.hpp"
#include "../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/ascending_order.hpp>
#include <ballast/pipeline/given_order.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using ballast::exact_order;
using ballast::given_order;
using ballast::time_units;

static_assert(ballast::order_policy<exact_order<>>);
static_assert(ballast::order_policy<exact_order<exact_order<given_order>>>);

TEST(ExactOrder, FindsTheFirstOfTheBestOrdersWhicheverItStartsFrom)  // Ensures (2)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const count = random.below(7);
    auto const schedule = ballast_test::chain_schedule(4, count);
    auto const times = ballast_test::random_times(random, count, 4, trial % 2 == 0 ? 3 : 100);
    auto const best = ballast_test::first_best_order(schedule, times);
    EXPECT_EQ(order_microbatches(schedule, times, exact_order{}).value().order, best);
    auto const plan = order_microbatches(schedule, times, exact_order{given_order{}}).value();
    EXPECT_EQ(plan.order, best);
    EXPECT_TRUE(plan.proven_optimal());
  }
}

TEST(ExactOrder, SettlesNineMicrobatches)  // Ensures (3)
{
  int families = ballast_test::trials_of(20);
  for (auto const& [family, name] : ballast_test::named_families) {
    if (families-- <= 0) { break; }
    SCOPED_TRACE(name);
    auto const times = ballast_test::times_of(family, 9, 8, 1);
    auto const schedule = ballast_test::chain_schedule(8, 9);
    EXPECT_TRUE(order_microbatches(schedule, times, exact_order{}).value().proven_optimal());
  }
  std::uint64_t beginnings = 0;
  std::uint64_t of_length = 1;
  for (std::uint64_t left = 9; left > 0; --left) { beginnings += of_length *= left; }
  EXPECT_EQ(beginnings, 986'409U);
  EXPECT_GE(exact_order<>{}.nodes, beginnings);
}

// How many beginnings an order of so many microbatches of each kind has.
std::uint64_t beginnings_of_kinds(std::vector<std::size_t>& left)
{
  std::uint64_t beginnings = 0;
  for (std::size_t& of_kind : left) {
    if (of_kind == 0) { continue; }
    --of_kind;
    beginnings += 1 + beginnings_of_kinds(left);
    ++of_kind;
  }
  return beginnings;
}

TEST(ExactOrder, SettlesTwentyMicrobatchesOfTwoKindsAndFourteenOfThree)  // Ensures (3)
{
  using ballast_test::kind_times;
  std::vector<std::size_t> two{10, 10};
  EXPECT_EQ(beginnings_of_kinds(two), 705'430U);
  std::vector<std::size_t> three{5, 5, 4};
  EXPECT_EQ(beginnings_of_kinds(three), 811'732U);
  for (auto const differ :
       {kind_times::first_quarter, kind_times::proportional, kind_times::every_stage}) {
    SCOPED_TRACE(static_cast<int>(differ));
    for (auto const& [kinds, count] : {std::pair{2U, 20U}, std::pair{3U, 14U}}) {
      auto const times = ballast_test::times_of_kinds(differ, kinds, count, 4, 1);
      auto const schedule = ballast_test::chain_schedule(4, count);
      EXPECT_TRUE(order_microbatches(schedule, times, exact_order{}).value().proven_optimal());
    }
  }
}

TEST(ExactOrder, KeepsTheInnerOrderOrABetterOneWithoutNodesToProveIt)  // Ensures (1)
{
  ballast::random_source random(8);
  auto const schedule = ballast_test::chain_schedule(4, 20);
  for (int trial = 0; trial < ballast_test::trials_of(20); ++trial) {
    auto const times = ballast_test::random_times(random, 20, 4, 1000);
    auto const inner = order_microbatches(schedule, times, ballast::insertion{}).value();
    auto const none = order_microbatches(schedule, times, exact_order{ballast::insertion{}, 0});
    EXPECT_EQ(none->order, inner.order);
    EXPECT_EQ(none->lower_bound, inner.lower_bound);
    time_units before = inner.makespan;
    for (std::uint64_t const nodes : {20U, 1000U, 30'000U}) {
      auto const plan =
          order_microbatches(schedule, times, exact_order{ballast::insertion{}, nodes}).value();
      EXPECT_LE(plan.makespan, before);
      before = plan.makespan;
    }
  }
}

// Proves that no order takes less than 1; there is none that takes nothing.
struct order_proving_one {
  time_units operator()(ballast::order_problem const&, std::span<ballast::microbatch_id>,
                        ballast::workspace&) const
  {
    return 1;
  }
  friend bool operator==(order_proving_one, order_proving_one) = default;
};
static_assert(ballast::order_policy<order_proving_one> &&
              order_proving_one{} == order_proving_one{});

TEST(ExactOrder, KeepsWhatTheInnerPolicyProves)
{
  auto const schedule = ballast_test::chain_schedule(2, 3);
  ballast::pipeline_times times(3, 2);
  for (auto& time : times.rows) { time = {1, 1}; }
  ballast::workspace memory;
  auto order = ballast_test::numbered_order(3);
  exact_order const policy{order_proving_one{}, 0};
  EXPECT_EQ(policy({schedule, times}, order, memory), 1);
}

TEST(ExactOrder, KeepsWhatPoliciesPromise)
{
  ballast_test::expect_valid_orders(exact_order<>{.nodes = 500}, 105);
  ballast_test::expect_valid_orders(exact_order{ballast::ascending_order{}, 500}, 106);
}

}  // namespace
