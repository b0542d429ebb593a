// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/order_search.hpp>  // first: proves it is self-contained

#include "../support/microbatch_families.hpp"
#include "../support/order_checks.hpp"
#include "../support/pipeline_families.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/order_policies.hpp>

namespace {

using namespace ballast;

static_assert(ballast::order_policy<insertion>);

// Oracle: lists of microbatches that grow, filled up with rows of zeros and simulated one by one.
std::vector<microbatch_id> insert_one_by_one(ballast::compiled_schedule const& schedule,
                                             ballast::pipeline_times const& times)
{
  std::size_t const count = schedule.microbatches();
  auto padded = times;
  padded.rows.resize((count + 1) * times.stages);
  auto longest_first = ballast_test::numbered_order(count);
  std::ranges::sort(longest_first, {}, [&](microbatch_id microbatch) {
    return std::pair(-ballast::detail::total_time({schedule, times}, microbatch), microbatch);
  });
  std::vector<microbatch_id> order;
  for (microbatch_id const microbatch : longest_first) {
    std::vector<std::vector<microbatch_id>> tried;
    for (std::size_t position = 0; position <= order.size(); ++position) {
      tried.push_back(order);
      tried.back().insert(tried.back().begin() + static_cast<std::ptrdiff_t>(position), microbatch);
    }
    order = *std::ranges::min_element(tried, {}, [&](std::vector<microbatch_id> row) {
      row.resize(count, ballast::to_id<microbatch_id>(count));
      return simulate(schedule, padded, row).makespan;
    });
  }
  return order;
}

TEST(Insertion, PutsEachWhereItCostsLeast)  // Ensures (1)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
    auto const times = ballast_test::random_times(random, schedule.microbatches(), stages.stages(),
                                                  trial % 2 == 0 ? 4 : 1000);
    auto const plan = order_microbatches(schedule, times, insertion{}).value();
    ASSERT_EQ(plan.order, insert_one_by_one(schedule, times));
  }
}

TEST(Insertion, DependsOnNothingButTheTimesAndTheSchedule)  // Ensures (2)
{
  ballast::random_source random(3);
  ballast_test::expect_same_order_whatever_is_given(insertion{},
                                                    ballast_test::chain_schedule(4, 12),
                                                    ballast_test::random_times(random, 12, 4, 5));
}

TEST(Insertion, TriesTheFirstTheLastAndEvenlySpreadPlacesWhenEvaluationsAreFew)
{
  ballast::random_source random(9);
  auto const schedule = ballast_test::chain_schedule(3, 24);
  for (int trial = 0; trial < 20; ++trial) {
    auto const times = ballast_test::random_times(random, 24, 3, 1000);
    auto const makespan = [&](std::uint64_t evaluations) {
      return order_microbatches(schedule, times, insertion{evaluations}).value().makespan;
    };
    EXPECT_EQ(makespan(24 * 25 / 2), makespan(1'000'000));  // enough for all positions
    // Two positions per round, first and last: the order grows at its ends only.
    auto const plan = order_microbatches(schedule, times, insertion{2 * 24}).value();
    auto const total = [&](microbatch_id microbatch) {
      return ballast::detail::total_time({schedule, times}, microbatch);
    };
    auto const longest = std::ranges::max_element(plan.order, {}, total);
    EXPECT_TRUE(std::ranges::is_sorted(plan.order.begin(), longest + 1, {}, total));
    EXPECT_TRUE(std::ranges::is_sorted(longest, plan.order.end(), std::ranges::greater{}, total));

    auto const unplaced = order_microbatches(schedule, times, insertion{0}).value();
    EXPECT_TRUE(std::ranges::is_sorted(unplaced.order, std::ranges::greater{}, total));
  }
}

TEST(Insertion, KeepsWhatPoliciesPromise)
{
  ballast_test::expect_valid_orders(insertion{}, 104);
  ballast_test::expect_valid_orders(insertion{20}, 105);
}

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

TEST(ExactOrder, TellsMicrobatchesApartByAnyOneTime)  // Ensures (2)
{
  ballast::random_source random(3);
  auto const schedule = ballast_test::chain_schedule(3, 4);
  for (std::size_t column = 0; column < 6; ++column) {
    SCOPED_TRACE(column);
    ballast::pipeline_times const times(4, 3, [&](std::size_t, std::size_t stage) {
      time_units const own = random.between(0, 20);
      return ballast::stage_time{column == 2 * stage ? own : 10,
                                 column == 2 * stage + 1 ? own : 20};
    });
    auto const best = ballast_test::first_best_order(schedule, times);
    EXPECT_NE(best, ballast_test::numbered_order(4));
    EXPECT_EQ(order_microbatches(schedule, times, exact_order{given_order{}}).value().order, best);
  }
}

TEST(ExactOrder, SettlesNineMicrobatches)  // Ensures (3)
{
  int families = ballast_test::trials_of(20, 20);
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
