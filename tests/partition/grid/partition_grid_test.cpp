// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/grid/partition_grid.hpp>  // first: proves it is self-contained

#include "../../support/grid_oracle.hpp"
#include "../../support/naive_grids.hpp"
#include "../../support/plan_checks.hpp"
#include "../../support/steady_state.hpp"
#include "../../support/test.hpp"

namespace grid_front_door {

using namespace ballast;
using namespace ballast_test;
using numbers = std::vector<std::int64_t>;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

result<grid_plan> plan_of(numbers const& samples, std::size_t ranks, microbatches const& slots = {},
                          placement_limits const& limits = {})
{
  return partition_grid(samples, one_gpu_bags(ranks), slots, std::identity{}, limits);
}

TEST(PartitionGrid, GivesEachRankItsMicrobatches)  // Ensures (1) (2) (3)
{
  // [grid]
  std::vector<ballast::tokens> const lengths{7000, 6500, 5000, 4200, 3000, 2500, 1500, 900, 700};
  auto const cost = [](ballast::tokens length) { return length * (length + 18'432); };
  auto const plan =
      ballast::partition_grid(lengths, ballast::one_gpu_bags(2), {}, cost, {.most_per_gpu = 8192});
  // [grid]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->microbatches, 2U);
  EXPECT_EQ(plan->fewest_microbatches, 2U);
  EXPECT_LT(plan->gap(), 0.01);
  for (std::int64_t const weight : plan->filled) { EXPECT_LE(weight, 8192); }
}

// All constraints, each against every plan that there is.
TEST(PartitionGrid, IsNeverBelowTheOptimumAndSeldomAbove)
{
  random_source random(44);
  int planned = 0;
  int optimal = 0;
  int tight = 0;
  for (int trial = 0; trial < trials_of(1200); ++trial) {
    grid_instance const step = random_grid(random, 5);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const best = best_grid(step);
    auto const plan = step.planned(step.slots);
    if (!plan) {
      EXPECT_EQ(plan.error().code, error_code::infeasible) << plan.error().message;
      EXPECT_FALSE(best) << plan.error().message;
      continue;
    }
    expect_valid_grid(*plan, step);
    ASSERT_TRUE(best);
    ratio const least{*best, 1};
    EXPECT_LE(plan->lower_bound, least);
    EXPECT_GE(plan->makespan, least);
    ++planned;
    optimal += plan->makespan == least ? 1 : 0;
    tight += plan->lower_bound == least ? 1 : 0;
  }
  EXPECT_GT(planned, trials_of(500));
  EXPECT_GT(optimal * 100, planned * 97);
  EXPECT_GT(tight * 100, planned * 80);
}

// What is said of numbers of microbatches against every plan that there is.
TEST(PartitionGrid, KnowsWhatDecidesTheNumberOfMicrobatches)  // Ensures (3)
{
  using reason = grid_plan::decision::reason;
  random_source random(47);
  std::map<reason, int> seen;
  int planned = 0;
  int found_bound = 0;
  int const trials = trials_of(400);
  for (int trial = 0; trial < trials; ++trial) {
    grid_instance step;
    step.ranks = 1 + random.below(2);
    for (std::size_t left = 1 + random.below(7); left > 0; --left) {
      step.weights.push_back(random.below(3) == 0 ? 15 : random.between(1, 8));
      step.kinds.push_back(static_cast<int>(random.below(2)));
    }
    step.costs = step.weights;
    step.caps.assign(step.ranks, 15);
    if (random.below(2) == 0) { step.kinds.clear(); }
    if (random.below(3) != 0) {
      step.counts = random.below(3) == 0 ? counts::at_most(2) : counts::equal();
    }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const plan = step.planned();
    if (!plan) { continue; }
    ++planned;
    ++seen[plan->decided.by];
    found_bound += plan->microbatches == plan->fewest_microbatches ? 1 : 0;
    EXPECT_EQ(plan->decided.by == reason::search, plan->microbatches > plan->fewest_microbatches);
    EXPECT_EQ(plan->decided.by == reason::search,
              plan->why().starts_with("the search decides: it found no plan with fewer, and at "));
    auto const expect_none_below = [&](std::size_t bound) {
      for (step.slots = 1; step.slots < bound && step.slots * step.ranks <= 6; ++step.slots) {
        EXPECT_FALSE(has_grid(step)) << step.slots << ", " << plan->why();
      }
    };
    expect_none_below(plan->fewest_microbatches);
    if (plan->decided.by == reason::kinds) { step.kinds.clear(); }
    if (plan->decided.by == reason::counts || plan->decided.by == reason::sample) {
      step.counts = {};
      EXPECT_GT(plan->microbatches, plan->decided.without);
    }
    expect_none_below(plan->decided.by == reason::cap ? 0 : plan->decided.without);
    if (plan->decided.by == reason::sample) {
      EXPECT_EQ(step.weights[to_index(plan->decided.sample)], 15);
    }
  }
  for (reason const each : {reason::nothing, reason::cap, reason::kinds, reason::counts,
                            reason::sample, reason::search}) {
    if (each == reason::search && trials < 400) { continue; }  // a rare one
    EXPECT_GT(seen[each], 0) << static_cast<int>(each);
  }
  EXPECT_GT(found_bound * 100, planned * 90);
}

TEST(PartitionGrid, SaysWhatDecidedTheNumberOfMicrobatches)
{
  auto const why = [](numbers const& samples, std::size_t ranks, microbatches const& slots,
                      placement_limits const& limits = {}) {
    return plan_of(samples, ranks, slots, limits).value().why();
  };
  numbers samples(71, 140);
  samples[7] = 1000;
  placement_limits const capped{.most_per_gpu = 1000};
  auto const plan = plan_of(samples, 4, {}, {.most_per_gpu = 1000, .samples = counts::equal()});
  EXPECT_EQ(plan->microbatches, 9U);
  EXPECT_EQ(plan->fewest_microbatches, 9U);
  EXPECT_EQ(plan->why(),
            "counts decide, by sample 7 of weight 1000, beside which few others fit: at least 9 "
            "microbatches are needed, and without counts at least 3");
  EXPECT_EQ(plan_of(samples, 4, {}, capped).value().microbatches, 3U);
  EXPECT_EQ(why(samples, 4, {}, capped), "the cap decides: at least 3 microbatches are needed");
  EXPECT_EQ(why(samples, 4, {}), "nothing asks for a second microbatch");
  EXPECT_EQ(why(samples, 4, {.number = 5}, capped),
            "the number was given; at least 3 microbatches are needed");
  EXPECT_EQ(why(samples, 4, {.multiple_of = 4}, capped),
            "the multiple decides: at least 3 microbatches are needed, and 4 is the next multiple");
  EXPECT_EQ(why({9, 9, 9, 9}, 2, {}, {.samples = counts::at_most(1)}),
            "counts decide: at least 2 microbatches are needed, and without counts at least 1");
  std::array<int, 3> const kinds{0, 1, 1};
  EXPECT_EQ(why({9, 9, 9}, 2, {.kinds = kinds}),
            "kinds decide: at least 2 microbatches are needed, and without kinds at least 1");
  EXPECT_EQ(
      why({9, 9, 9}, 1, {}, {.apart = kinds}),
      "samples that are apart decide: at least 2 microbatches are needed, and without samples "
      "that are apart at least 1");
  // In three cells of two the samples of 8 would have to share one of 2.
  EXPECT_EQ(why({8, 8, 2, 3, 3, 3}, 1, {}, {.most_per_gpu = 10, .samples = counts::equal()}),
            "counts decide: at least 4 microbatches are needed, and without counts at least 3");
}

// Each refusal of a small step against every plan that there is.
TEST(PartitionGrid, RefusesOnlyStepsThatHaveNoPlan)  // Errors
{
  random_source random(46);
  int refused = 0;
  for (int trial = 0; trial < trials_of(4000); ++trial) {
    grid_instance step = random_grid(random, 6);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    bool const with_number = random.below(2) == 0;
    std::size_t const multiple = !with_number && random.below(3) == 0 ? 2 : 1;
    auto const number = with_number ? std::optional(step.slots) : std::nullopt;
    auto const plan = step.planned(number, multiple);
    if (plan) { expect_valid_grid(*plan, step); }
    refused += plan ? 0 : 1;
    if (!plan) { EXPECT_THAT(plan.error().message, Not(HasSubstr("gave up"))); }
    if (with_number) {
      EXPECT_EQ(plan.has_value(), has_grid(step));
      continue;
    }
    std::size_t const tried = step.ranks == 1 ? 4 : 4 - step.ranks;
    std::size_t const found = plan ? plan->microbatches : tried + 1;
    for (step.slots = multiple; step.slots <= std::min(tried, found - 1); step.slots += multiple) {
      EXPECT_FALSE(has_grid(step)) << "with " << step.slots << " microbatches";
    }
  }
  EXPECT_GT(refused, trials_of(1000));
}

TEST(PartitionGrid, FindsPlansWhereOneRankAloneHoldsTheSamples)
{
  // Only the first rank holds any of these, one at a time.
  std::array<std::int64_t, 3> const uneven{11, 4, 5};
  auto const alone =
      plan_of({10, 9, 6, 6, 7}, 3, {}, {.also = {{.most = uneven}}, .samples = counts::equal()});
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->microbatches, 5U);
}

TEST(PartitionGrid, SaysThatASearchGaveUp)
{
  // Three to a cell, and no room to spare: too many ways to try them all.
  random_source random(3);
  numbers samples;
  std::int64_t weight = 0;
  for (std::size_t i = 0; i < 47; ++i) {
    samples.push_back(random.between(2'600, 4'050));
    weight += samples.back();
  }
  samples.push_back(160'000 - weight);
  auto const refused = plan_of(samples, 16, {.number = 1}, {.most_per_gpu = 10'000});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("no plan with 1 microbatch was found in a search that gave up"),
                    HasSubstr("no plan has fewer than 1")));
}

TEST(PartitionGrid, AddsUpSlots)
{
  numbers const samples{100, 20, 20, 20, 20, 20};
  microbatches slots{.number = 2, .meet = grid_meeting::microbatch};
  auto const plan = plan_of(samples, 2, slots).value();
  EXPECT_EQ(plan.makespan, (ratio{100, 1}));
  EXPECT_TRUE(plan.proven_optimal());
  auto const full = plan_of(samples, 2, slots, {.samples = counts::filled()}).value();
  EXPECT_EQ(full.makespan, (ratio{120, 1}));
  EXPECT_TRUE(full.proven_optimal());
  EXPECT_EQ(full.empty_cells(), 0U);
}

TEST(PartitionGrid, SpreadsEmptyCells)
{
  auto const plan = plan_of({90, 90, 90, 90, 90}, 4, {}, {.most_per_gpu = 100}).value();
  EXPECT_EQ(plan.microbatches, 2U);
  EXPECT_EQ(plan.empty_cells(), 3U);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    auto const own = to_id<rank_id>(rank);
    EXPECT_LE((plan.is_empty(own, 0) ? 1 : 0) + (plan.is_empty(own, 1) ? 1 : 0), 1);
  }
  // A rank with samples enough for all its cells leaves none of them empty.
  auto const few = plan_of({5, 5, 5, 5}, 2, {.number = 2}).value();
  EXPECT_EQ(few.empty_cells(), 0U);
}

TEST(PartitionGrid, NamesTheLeastFoundWhereAGivenNumberIsTooSmall)
{
  numbers const samples{95, 95, 95, 95, 95, 20, 20, 20, 20, 20};
  auto const found = plan_of(samples, 2, {}, {.most_per_gpu = 100});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->microbatches, 3U);
  auto const refused = plan_of(samples, 2, {.number = 2}, {.most_per_gpu = 100});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "no plan with 2 microbatches exists; the least found is 3, and no plan has fewer "
            "than 3; give that many, or none");
}

TEST(PartitionGrid, KeepsKindsInSlotsOfTheirOwn)
{
  std::array<char, 8> const kinds{'B', 'A', 'B', 'A', 'B', 'A', 'B', 'B'};
  auto const plan =
      plan_of(numbers(8, 10), 2, {.kinds = kinds}, {.samples = counts::at_most(1)}).value();
  EXPECT_THAT(plan.kinds, testing::ElementsAre('A', 'A', 'B', 'B', 'B'));
  EXPECT_EQ(plan.empty_cells(), 2U);
  for (std::size_t const first : {0U, 2U}) {  // a dummy in each kind
    std::size_t empty = 0;
    for (std::size_t slot = first; slot < (first == 0 ? 2U : 5U); ++slot) {
      empty += plan.is_empty(rank_id{0}, slot) || plan.is_empty(rank_id{1}, slot) ? 1 : 0;
    }
    EXPECT_EQ(empty, 1U);
  }
}

TEST(PartitionGrid, FindsMultiplesAndRoundsWeightsUp)
{
  auto const plan = plan_of({9, 9, 9, 9, 9}, 1, {.multiple_of = 4},
                            {.also = {{.most_per_gpu = 20, .rounded_to = 8}}});
  ASSERT_TRUE(plan);  // each weighs 16, so 5 slots, and of multiples of 4, eight
  EXPECT_EQ(plan->fewest_microbatches, 5U);
  EXPECT_EQ(plan->microbatches, 8U);
  EXPECT_EQ(plan->weights, numbers(5, 16));
}

TEST(PartitionGrid, MovesLittleAmongEquallyGoodPlans)
{
  std::vector<rank_id> const home{rank_id{2}, rank_id{0}, rank_id{1},
                                  rank_id{1}, rank_id{2}, rank_id{0}};
  for (auto const meet : {grid_meeting::step, grid_meeting::microbatch}) {
    auto const plan = plan_of({9, 9, 9, 2, 2, 2}, 3, {.number = 2, .meet = meet}, {.home = home});
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->makespan, (ratio{11, 1}));
    EXPECT_LE(plan->moved.numerator * 33, plan->moved.denominator * 6);
  }
}

TEST(PartitionGrid, PlansStepsWithoutSamplesAndWithoutLimits)
{
  auto const empty = plan_of({}, 3, {.number = 2}, {.most_per_gpu = 5}).value();
  EXPECT_EQ(empty.empty_cells(), 6U);
  EXPECT_EQ(empty.makespan, (ratio{0, 1}));
  EXPECT_EQ(empty.lower_bound, ratio{});
  EXPECT_EQ(plan_of({}, 3).value().microbatches, 1U);
  EXPECT_EQ(plan_of({7, 5}, 1).value().microbatches, 1U);
  auto const weightless = plan_of({0, 0, 0}, 2, {.number = 2}, {.most_per_gpu = 0}).value();
  expect_valid_grid(weightless, {{0, 0, 0}, {0, 0, 0}, 2, 2});
  std::int64_t const large = std::numeric_limits<std::int64_t>::max() / 2 - 1;
  for (auto const meet : {grid_meeting::step, grid_meeting::microbatch}) {
    auto const huge = partition_grid(numbers{1, 1}, one_gpu_bags(2), {.number = 2, .meet = meet},
                                     [=](std::int64_t) { return large; });
    ASSERT_TRUE(huge) << huge.error().message;
    EXPECT_EQ(huge->makespan, (ratio{large, 1}));
  }
}

TEST(PartitionGrid, RefusesInASentence)  // Errors
{
  auto const expect = [](numbers const& samples, std::size_t ranks, microbatches const& slots,
                         placement_limits const& limits, error_code code, std::size_t position,
                         char const* why) {
    expect_refused(plan_of(samples, ranks, slots, limits), code, position, why);
  };
  using enum error_code;
  std::array const pair{1, 2, 2};
  std::array const home{rank_id{0}, rank_id{5}, rank_id{0}};
  std::array<std::int64_t, 3> const some{1, 1, 1};
  auto const meet = grid_meeting::microbatch;
  expect({1}, 0, {}, {}, infeasible, 0, "there are no bags");
  expect({1}, 1, {.number = 0}, {}, out_of_range, 0, "microbatches.number is 0");
  expect({1}, 1, {.number = 3, .multiple_of = 2}, {}, out_of_range, 0, "multiple_of 2");
  expect({1}, 1, {.multiple_of = 0}, {}, out_of_range, 0, "microbatches.multiple_of is 0");
  expect({1}, 65'536, {.number = 65'536}, {}, out_of_range, 0, "2^32 - 1 cells");
  expect({1}, 1, {.kinds = pair}, {}, out_of_range, 1, "microbatches.kinds has 3 entries for 1");
  expect({1}, 1, {}, {.most_per_gpu = -1}, out_of_range, 0, "cannot hold -1");
  expect({1}, 2, {}, {.also = {{.most = some}}}, out_of_range, 2, "also.most has 3 entries for 2");
  expect({1}, 1, {}, {.samples = counts::at_most(0)}, out_of_range, 0, "asks for 0 samples");
  expect({1}, 1, {.meet = meet}, {.then = most_level}, out_of_range, 0, "most_level says nothing");
  expect({1, 1, 1}, 1, {.meet = meet}, {.then = least(some)}, out_of_range, 0, "least(...) says");
  expect({1, 1, 1}, 1, {}, {.samples = counts::multiple_of(2)}, infeasible, 0,
         "a step has 3 samples, no multiple of 2");
  expect({1}, 1, {}, {.together = pair}, out_of_range, 1, "limits.together has 3 entries for 1");
  expect({1, 1, 1}, 2, {}, {.home = home}, out_of_range, 1, "sample 1 lies on rank 5");
  expect({1, -4}, 1, {}, {}, out_of_range, 1, "sample 1 of -4 tokens has a length");
  expect({1, 9}, 2, {}, {.most_per_gpu = 8}, infeasible, 1,
         "sample 1 of weight 9 is above the cap of a cell, 8");
  expect({1, 5, 5}, 2, {}, {.together = pair, .most_per_gpu = 8}, infeasible, 1,
         "the 2 samples that stay together with sample 1 weigh 10");
  expect({1, 5, 5}, 2, {}, {.together = pair, .samples = counts::at_most(1)}, infeasible, 1,
         "more than the 1 that a cell may hold");
  expect({1, 5, 5}, 2, {.kinds = std::array{0, 0, 1}}, {.together = pair}, infeasible, 2,
         "sample 2 of kind 1 has to stay together with one of kind 0");
  expect({1, 5, 5}, 2, {.kinds = pair}, {.samples = counts::multiple_of(3)}, infeasible, 0,
         "kind 1 has 1 sample, no multiple of 3");
  expect({1, 5, 5}, 2, {.number = 2}, {.samples = counts::filled()}, infeasible, 0,
         "in each of 4 cells, and a step has 3 samples");
  expect({1, 5, 5}, 4, {}, {.samples = counts::filled()}, infeasible, 0,
         "in each of 4 cells, and a step has 3 samples");
  auto const negative = partition_grid(numbers{1, 2}, one_gpu_bags(1), {},
                                       [](std::int64_t length) { return 1 - length; });
  expect_refused(negative, out_of_range, 1, "sample 1 of 2 tokens has a negative cost");
  // Times of bags of these speeds have no common unit in 63 bits.
  std::vector<std::uint32_t> const primes{4'294'967'291, 4'294'967'279, 4'294'967'231};
  expect_refused(partition_grid(numbers{1}, one_gpu_bags(3).with_speeds(primes), {.meet = meet},
                                std::identity{}),
                 out_of_range, 0, "rounder speeds");
}

RC_GTEST_PROP(PartitionGrid, KeepsToTheOptionsOnAnySamples,  // Ensures (1) (2) (4)
              (std::vector<std::uint16_t> const& drawn, std::uint8_t ranks, bool by_step))
{
  grid_instance step;
  step.weights.assign(drawn.begin(), drawn.end());
  step.costs = step.weights;
  step.ranks = ranks % 7 + 1U;
  step.caps.assign(step.ranks, std::numeric_limits<std::uint16_t>::max());
  step.meet = by_step ? grid_meeting::step : grid_meeting::microbatch;
  auto const plan = step.planned();
  RC_ASSERT(plan.has_value());
  expect_valid_grid(*plan, step);
  RC_ASSERT(!testing::Test::HasFailure());
  RC_ASSERT(step.planned()->digest() == plan->digest());
}

TEST(PartitionGrid, AllocatesNothingInTheSteadyState)  // Ensures (5)
{
  random_source random(8);
  std::vector<std::int64_t> samples(500);
  std::vector<int> groups(500);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = random.between(1, 900);
    groups[i] = static_cast<int>(i / 2);
  }
  bag_layout const bags = one_gpu_bags(8);
  grid_plan plan;
  workspace memory;
  std::uint64_t first = 0;
  expect_steady_state([&] {
    bool const done = partition_grid_into(plan, memory, samples, bags, {}, std::identity{},
                                          {.together = groups, .most_per_gpu = 2500})
                          .has_value();
    first = first == 0 ? plan.digest() : first;
    return done && plan.digest() == first;
  });
}

TEST(PartitionGrid, PutsLongSamplesInOneSlot)
{
  auto const plan =
      plan_of({90, 10, 88, 11, 12, 9}, 2, {.number = 2, .meet = grid_meeting::microbatch}).value();
  EXPECT_EQ(plan.owner[0] < cell_id{2}, plan.owner[2] < cell_id{2});
  EXPECT_LE(plan.makespan, (ratio{90 + 21, 1}));
}

TEST(PartitionGrid, FillsCellsOfDifferentCapsAndSwapsAcrossSlotsOfARank)
{
  std::vector<std::int64_t> const caps{20, 100};
  auto const plan = plan_of({60, 50, 40, 10, 10, 10}, 2, {}, {.also = {{.most = caps}}}).value();
  EXPECT_EQ(plan.microbatches, 2U);
  EXPECT_EQ(plan.fewest_microbatches, 2U);
  // 7 + 1 and 5 + 1 of a rank against 6 + 2 and 6 + 2: sums of 14 and 16, and then 15 and 15.
  auto const even =
      plan_of({7, 5, 1, 1, 6, 6, 2, 2}, 2, {.number = 2}, {.most_per_gpu = 8}).value();
  EXPECT_EQ(even.makespan, (ratio{15, 1}));
  EXPECT_TRUE(even.proven_optimal());
}

TEST(PartitionGrid, TriesSmallGridsWholeWhereExchangesEndAboveTheBound)
{
  auto const plan = plan_of({9, 7, 1, 6, 2}, 2, {.number = 2}, {.most_per_gpu = 10}).value();
  EXPECT_EQ(plan.makespan, (ratio{13, 1}));  // 7 and 6, 9 + 1 and 2
  EXPECT_TRUE(plan.proven_optimal());
}

TEST(PartitionGrid, IsSeldomAboveTheNaiveLines)
{
  random_source random(46);
  int above = 0;
  for (int trial = 0; trial < trials_of(100); ++trial) {
    grid_instance step;
    step.ranks = 2 + random.below(4);
    step.slots = 1 + random.below(4);
    std::size_t const count = random.below(12 * step.ranks);
    for (std::size_t i = 0; i < count; ++i) {
      step.weights.push_back(random.below(5) == 0 ? random.between(500, 1000)
                                                  : random.between(1, 300));
    }
    step.costs = step.weights;
    step.meet = trial % 2 == 0 ? grid_meeting::step : grid_meeting::microbatch;
    step.caps.assign(step.ranks, 1500);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const naive = naive_grid(step.weights, step.ranks, step.slots, 1500);
    auto const plan = step.planned(step.slots);
    if (!plan) {
      EXPECT_EQ(naive.step, grid_makespans{}.step);
      continue;
    }
    expect_valid_grid(*plan, step);
    auto const theirs = step.meet == grid_meeting::step ? naive.step : naive.microbatch;
    above += plan->makespan > ratio{theirs, 1} ? 1 : 0;
  }
  EXPECT_LE(above, 2);
}

// What anybody would write: longest samples first, slot after slot, in each slot the longest to the
// emptiest cell that has none too many.
cost_units sorted_rows(numbers costs, std::size_t ranks, std::size_t slots)
{
  std::ranges::sort(costs, std::greater{});
  std::size_t const of_cell = costs.size() / ranks / slots;
  cost_units all = 0;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    numbers loads(ranks, 0);
    std::vector<std::size_t> counts(ranks, 0);
    for (std::size_t at = slot * ranks * of_cell; at < (slot + 1) * ranks * of_cell; ++at) {
      std::size_t least = ranks;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        bool const has_room = counts[rank] < of_cell;
        if (has_room && (least == ranks || loads[rank] < loads[least])) { least = rank; }
      }
      loads[least] += costs[at];
      ++counts[least];
    }
    all += std::ranges::max(loads);
  }
  return all;
}

TEST(PartitionGrid, FillsCellsUpToTheirCounts)
{
  random_source random(52);
  for (int trial = 0; trial < trials_of(30); ++trial) {
    std::size_t const ranks = 4 + random.below(8);
    std::size_t const slots = 2 + random.below(4);
    numbers costs(ranks * slots * 4);
    for (auto& cost : costs) {
      cost = random.below(20) == 0 ? random.between(20'000, 50'000) : random.between(100, 3000);
    }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    cost_units const naive = sorted_rows(costs, ranks, slots);
    for (counts const of : {counts::equal(), counts::multiple_of(4)}) {
      auto const plan = plan_of(costs, ranks, {.number = slots, .meet = grid_meeting::microbatch},
                                {.samples = of});
      ASSERT_TRUE(plan) << plan.error().message;
      for (auto const cell : plan->samples) { EXPECT_EQ(cell.size() % 4, 0U); }
      EXPECT_LE(plan->makespan, (ratio{naive, 1}));
      EXPECT_LT(plan->gap(), 0.2);
    }
  }
}

// Two slots in one take no longer than they do one after the other, and what stays empty comes last.
TEST(PartitionGrid, LeavesSlotsEmptyWhereThatIsShorter)
{
  random_source random(53);
  for (int trial = 0; trial < trials_of(150); ++trial) {
    grid_instance step;
    step.ranks = 2;
    step.slots = 2 + random.below(2);
    step.meet = grid_meeting::microbatch;
    step.counts = std::array{counts{}, counts::equal(), counts::multiple_of(2),
                             counts::at_most(2)}[random.below(4)];
    bool const is_capped = random.below(3) == 0;
    bool const are_groups = random.below(4) == 0;
    std::size_t const count = 1 + random.below(step.slots == 2 ? 6 : 5);
    for (std::size_t sample = 0; sample < count; ++sample) {
      step.costs.push_back(random.below(4) == 0 ? random.between(30, 60) : random.between(1, 30));
      if (are_groups) { step.groups.push_back(static_cast<int>(random.below(3))); }
    }
    step.weights = step.costs;
    if (is_capped) { step.caps.assign(2, random.between(60, 90)); }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const best = best_grid(step);
    auto const plan = step.planned(step.slots);
    ASSERT_EQ(plan.has_value(), best.has_value());
    if (!plan) { continue; }
    expect_valid_grid(*plan, step);
    EXPECT_EQ(plan->makespan, (ratio{*best, 1}));
    EXPECT_TRUE(plan->proven_optimal());
    for (std::size_t slot = 0; slot < step.slots; ++slot) {
      bool const is_empty = plan->is_empty(rank_id{0}, slot) && plan->is_empty(rank_id{1}, slot);
      EXPECT_EQ(is_empty, slot >= plan->used_microbatches());
    }
  }
}

TEST(PartitionGrid, IsNoLongerWithMoreMicrobatches)
{
  random_source random(54);
  for (int trial = 0; trial < trials_of(12); ++trial) {
    std::size_t const ranks = 2 + random.below(5);
    numbers costs(ranks * (4 + random.below(5)) + 1);
    for (auto& cost : costs) { cost = random.below(5) == 0 ? 900 : random.between(100, 400); }
    std::vector<std::uint32_t> speeds(ranks, 2);
    speeds[0] = trial % 3 == 0 ? 3 : 2;
    std::int64_t const all = std::reduce(costs.begin(), costs.end());
    placement_limits limits{.most_per_gpu =
                                std::max<std::int64_t>(all / 2 / std::ssize(speeds), 900)};
    if (trial % 3 == 1) { limits.samples = counts::at_most(4); }
    if (trial % 3 == 2 && trial % 2 == 0) { limits.most_per_gpu = no_limit; }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ratio least{std::numeric_limits<std::int64_t>::max(), 1};
    for (std::size_t slots = 2; slots <= 6; ++slots) {
      auto const plan = partition_grid(costs, one_gpu_bags(ranks).with_speeds(speeds),
                                       {.number = slots, .meet = grid_meeting::microbatch},
                                       std::identity{}, limits);
      if (!plan) { continue; }
      EXPECT_EQ(plan->microbatches, slots);
      EXPECT_LE(plan->makespan, least);
      least = plan->makespan;
    }
    EXPECT_LT(least.value(), 1e9);
    if (limits.most_per_gpu == no_limit) {
      EXPECT_EQ(2 * least.value(), plan_of(costs, ranks).value().makespan.value());
    }
  }
}

// Nine samples on two ranks: one has five of them, in slots of its own or in one.
TEST(PartitionGrid, BoundsHardlyMoreSamplesThanCells)
{
  numbers const samples{100, 99, 98, 97, 96, 95, 94, 93, 92};
  for (counts const of : {counts::equal(), counts::filled()}) {
    auto const plan =
        plan_of(samples, 2, {.number = 4, .meet = grid_meeting::microbatch}, {.samples = of});
    ASSERT_TRUE(plan);
    EXPECT_GE(plan->lower_bound, (ratio{92 + 93 + 94 + 95 + 96, 1}));
    EXPECT_LT(plan->gap(), 0.02);
  }
}

// A bag of two slots has four samples and the longest, which takes all that the bound of the work has.
TEST(PartitionGrid, BoundsCellsByTheirCounts)
{
  numbers const samples{40, 10, 10, 10, 10, 10, 10, 10};
  auto const once = plan_of(samples, 2, {.number = 2}, {.samples = counts::equal()});
  ASSERT_TRUE(once);
  EXPECT_EQ(once->makespan, (ratio{70, 1}));  // 40 and three others
  EXPECT_EQ(once->lower_bound, once->makespan);
  auto const in_each = plan_of(samples, 2, {.number = 2, .meet = grid_meeting::microbatch},
                               {.samples = counts::equal()});
  ASSERT_TRUE(in_each);
  EXPECT_EQ(in_each->makespan, (ratio{70, 1}));  // 50, and 20 of the other slot
  EXPECT_EQ(in_each->lower_bound, in_each->makespan);
}

TEST(PartitionGrid, KeepsToEveryLimitOfLargerSteps)
{
  random_source random(47);
  int planned = 0;
  for (int trial = 0; trial < trials_of(300); ++trial) {
    auto const step = random_grid(random, 40);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const plan = step.planned(step.slots);
    if (plan) { expect_valid_grid(*plan, step); }
    planned += plan ? 1 : 0;
  }
  EXPECT_GT(planned, trials_of(50));
}

// Written out by hand. That the bound is never above the optimum is tested above, on all plans of
// small grids.
TEST(PartitionGrid, BoundsLongSamplesAndWhatFitsBesideThem)
{
  // Two ranks, cap 10, costs are squares: 8, 7 and 6 weigh more than half, so that two slots last 64
  // and 36 at least.
  numbers lengths{8, 7, 6, 2, 2, 2};
  lengths.insert(lengths.end(), 30, 0);  // too many to be tried whole
  auto const square = [](std::int64_t length) { return length * length; };
  auto const bound = [&](grid_meeting meet, placement_limits const& limits) {
    return partition_grid(lengths, one_gpu_bags(2), {.meet = meet}, square, limits)
        .value()
        .lower_bound;
  };
  // j = 1: 64 + (161 - F(20)) / 2, where F takes 64, 49 and five sixths of 36: 143. j = 2: 64 + 36.
  EXPECT_EQ(bound(grid_meeting::microbatch, {.most_per_gpu = 10}), (ratio{64 + 36, 1}));
  // 49 + 36; without 64 there are four sums near half of 161
  EXPECT_EQ(bound(grid_meeting::step, {.most_per_gpu = 10}), (ratio{85, 1}));
  // A slot holds 20: 8 and four of 3. Of the other three, one rank computes two.
  lengths.assign({8, 3, 3, 3, 3, 3, 3, 3});
  lengths.insert(lengths.end(), 30, 0);
  EXPECT_EQ(bound(grid_meeting::microbatch, {.most_per_gpu = 10}), (ratio{64 + (27 + 1) / 2, 1}));
}

}  // namespace grid_front_door
