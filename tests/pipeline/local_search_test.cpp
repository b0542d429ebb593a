// SPDX-License-Identifier: Apache-2.0
#include "../support/counted_allocations.hpp"
#include "../support/hill_climb.hpp"
#include "../support/microbatch_families.hpp"
#include "../support/order_checks.hpp"
#include "../support/pipeline_families.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>

namespace {

using namespace ballast;
using ballast_test::chain_schedule;
using ballast_test::numbered_order;

static_assert(ballast::order_policy<local_search<>>);
static_assert(ballast::order_policy<local_search<local_search<given_order>>>);

TEST(LocalSearch, TakesNoLongerThanTheGivenOrderAndThatOfInner)  // Ensures (1)
{
  ballast::random_source random(11);
  for (int trial = 0; trial < 60; ++trial) {
    auto const drawn = ballast_test::random_pipeline(random);
    auto const schedule = compiled_schedule::make(drawn.stages, drawn.schedule).value();
    auto const times = ballast_test::random_times(random, schedule, 1000);
    auto const inner = order_microbatches(schedule, times, insertion{}).value();
    for (std::uint64_t const evaluations : {0U, 1U, 9U, 300U}) {
      auto const plan =
          order_microbatches(schedule, times, local_search{insertion{}, evaluations}).value();
      EXPECT_LE(plan.makespan, std::min(inner.makespan, plan.makespan_given));
    }
  }
}

TEST(LocalSearch, FindsTheShortestOfAllOrdersNearlyAlways)
{
  ballast::workspace memory;
  int found = 0;
  int tried = 0;
  for (auto const& [family, name] : ballast_test::named_families) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      std::size_t const microbatches = 3 + seed % 4;
      auto const schedule = chain_schedule(4, microbatches, 1, seed % 2 == 0 ? 0 : 2000);
      auto const times = ballast_test::times_of(family, microbatches, 4, seed);
      auto const plan =
          order_microbatches(schedule, times, local_search<>{.evaluations = 4000}).value();
      time_units const shortest =
          makespan_of(schedule, times, ballast_test::first_best_order(schedule, times), memory);
      EXPECT_LE(plan.makespan * 100, shortest * 101) << name << ", seed " << seed;
      found += plan.makespan == shortest ? 1 : 0;
      ++tried;
      auto const proven =
          order_microbatches(schedule, times, local_search{}).value();  // Ensures (4)
      EXPECT_EQ(proven.makespan, shortest);
      EXPECT_TRUE(proven.proven_optimal());
    }
  }
  EXPECT_GE(found * 100, tried * 95);
}

/// Not longer, by parts of ten thousand, than the fourth of eight climbs of as many evaluations.
void expect_no_worse_than_climbs(compiled_schedule const& schedule, pipeline_times const& times,
                                 std::uint64_t evaluations, time_units parts)
{
  auto const plan =
      order_microbatches(schedule, times, local_search<>{.evaluations = evaluations}).value();
  auto climbs = ballast_test::hill_climbs(schedule, times, evaluations);
  std::ranges::sort(climbs);
  EXPECT_LE(plan.makespan * 10'000, climbs[3] * (10'000 + parts));
}

TEST(LocalSearch, IsNotAboveHillClimbsOfAsManyEvaluations)
{
  using ballast_test::kind_times;
  int compared = ballast_test::trials_of(30);
  auto const compare = [&compared](compiled_schedule const& schedule, pipeline_times const& times) {
    if (compared-- > 0) { expect_no_worse_than_climbs(schedule, times, 16'000, 5); }
  };
  for (auto const differ :
       {kind_times::first_quarter, kind_times::proportional, kind_times::every_stage}) {
    for (std::size_t const kinds : {2U, 3U}) {
      for (std::size_t const chunks : {1U, 2U}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(differ) << ", " << kinds << " kinds, "
                                        << chunks << " chunks");
        compare(chain_schedule(4, 16, chunks),
                ballast_test::times_of_kinds(differ, kinds, 16, 4 * chunks, 1));
        compare(chain_schedule(8, 24, chunks),
                ballast_test::times_of_kinds(differ, kinds, 24, 8 * chunks, 2));
      }
    }
  }
  for (auto const& [family, name] : ballast_test::named_families) {
    SCOPED_TRACE(name);
    compare(chain_schedule(4, 16, 2), ballast_test::times_of(family, 16, 8, 1));
  }
  compare(chain_schedule(8, 16), ballast_test::near_equal_times(16, 8, 1));
}

// So few that searches are kept for the whole run only where microbatches are ranked.
TEST(LocalSearch, IsNotAboveHillClimbsOfFewEvaluationsWhereMicrobatchesAreRanked)
{
  using ballast_test::time_family;
  int compared = ballast_test::trials_of(4);
  for (auto const family : {time_family::first_stage, time_family::proportional}) {
    for (std::size_t const chunks : {1U, 2U}) {
      if (compared-- <= 0) { return; }
      SCOPED_TRACE(testing::Message() << static_cast<int>(family) << ", " << chunks << " chunks");
      expect_no_worse_than_climbs(chain_schedule(4, 32, chunks),
                                  ballast_test::times_of(family, 32, 4 * chunks, 1), 24 * 32 * 32,
                                  10);
    }
  }
}

TEST(LocalSearch, TriesNothingWhereAllMicrobatchesAreEqual)
{
  auto const schedule = chain_schedule(4, 12);
  auto const times =
      ballast_test::times_of_kinds(ballast_test::kind_times::every_stage, 1, 12, 4, 1);
  EXPECT_EQ(order_microbatches(schedule, times, local_search{}).value().order, numbered_order(12));
}

TEST(LocalSearch, KeepsWhatPoliciesPromise)
{
  ballast_test::expect_valid_orders(local_search<>{.evaluations = 90}, 107);
  ballast_test::expect_valid_orders(local_search{given_order{}, 7}, 108);
}

TEST(LocalSearch, DependsOnTheSeedAndOnNothingElse)  // Ensures (2)
{
  auto const schedule = chain_schedule(4, 24);
  auto const times = ballast_test::times_of(ballast_test::time_family::every_stage_alone, 24, 4, 1);
  auto const digest_of = [&](std::uint64_t seed) {
    return order_microbatches(schedule, times, local_search{insertion{}, 2000, seed})
        .value()
        .digest();
  };
  EXPECT_EQ(digest_of(1), digest_of(1));
  EXPECT_NE(digest_of(1), digest_of(2));
}

TEST(LocalSearch, LeavesAnOrderThatIsProvenOptimal)
{
  auto const schedule = chain_schedule(4, 12);
  auto const times = ballast_test::times_of(ballast_test::time_family::proportional, 12, 4, 5);
  auto const given = numbered_order(12);
  ballast::workspace memory;
  time_units const makespan = makespan_of(schedule, times, given, memory);
  auto order = given;
  local_search<given_order>{}({schedule, times, makespan}, order, memory);
  EXPECT_EQ(order, given);
}

}  // namespace
