// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/order_lower_bound.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/order_checks.hpp"
#include "../support/pipeline_families.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

namespace {

using namespace ballast;
using ballast_test::chain_schedule;

// A step to order: few enough microbatches that all orders can be tried.
struct small_step {
  compiled_schedule schedule;
  pipeline_times times;
};

// Any pipeline with times of any kind: none or one, small with many ties, long ones among short
// ones, microbatches that are alike on all stages, or a first stage that varies alone.
small_step random_small_step(random_source& random, std::size_t most_microbatches)
{
  for (;;) {
    auto const [stages, tasks] = ballast_test::random_pipeline(random);
    if (tasks.microbatches > most_microbatches) { continue; }
    std::size_t const columns = stages.stages();
    small_step step{compiled_schedule(stages, tasks), pipeline_times(tasks.microbatches, columns)};
    std::uint64_t const kind = random.below(6);
    for (std::size_t at = 0; at < step.times.rows.size(); ++at) {
      auto& time = step.times.rows[at];
      switch (kind) {
        case 0: time = {random.between(0, 1), random.between(0, 1)}; break;
        case 1: time = {random.between(0, 9), random.between(0, 9)}; break;
        case 2: time = {random.between(0, 1'000'000), random.between(0, 1'000'000)}; break;
        case 3: {
          time_units const longer = random.below(8) == 0 ? 20 : 1;
          time = {random.between(0, 50) * longer, random.between(0, 50) * longer};
          break;
        }
        case 4:
          if (at % columns == 0) { time.forward = random.between(1, 50) * random.between(1, 50); }
          time.forward = step.times.rows[at - at % columns].forward;
          time.backward = 2 * time.forward;
          break;
        default:
          time = {20, 40};
          if (at % columns == 0) { time = {random.between(0, 40), random.between(0, 80)}; }
          break;
      }
    }
    return step;
  }
}

time_units least_makespan(small_step const& step)
{
  workspace memory;
  auto const order = ballast_test::first_best_order(step.schedule, step.times);
  return makespan_of(step.schedule, step.times, order, memory);
}

time_units order_bound_of(small_step const& step)
{
  ballast::workspace memory;
  return order_lower_bound(step.schedule, step.times, memory);
}

TEST(OrderLowerBound, IsNotAboveAnyOrder)  // Ensures (1)
{
  ballast::random_source random(20240607);
  int proven = 0;
  constexpr int trials = ballast_test::trials_of(4000);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = random_small_step(random, trial % 8 == 0 ? 6 : 5);
    time_units const least = least_makespan(step);
    time_units const bound = order_bound_of(step);
    ASSERT_LE(bound, least);
    proven += bound == least ? 1 : 0;
  }
  EXPECT_GT(proven, trials / 2);
}

/// Stages one after the other, between some of which activations and gradients are transfers.
small_step step_with_transfers(ballast::random_source& random)
{
  std::vector<ballast::pipeline_stage> stages;
  std::vector<ballast::stage_link> links;
  std::vector<std::uint32_t> feeders;
  auto const add = [&](bool backward, ballast::model_part part) {
    auto const stage = static_cast<std::uint32_t>(stages.size());
    stages.push_back({ballast::pipeline_rank{stage}, backward, part});
    for (std::uint32_t const from : feeders) { links.push_back(ballast_test::link(from, stage)); }
    return stage;
  };
  for (std::uint64_t left = 2 + random.below(3); left > 0; --left) {
    feeders = {add(true, ballast::model_part::llm)};
    if (left == 1 || random.below(3) == 0) { continue; }
    feeders = {add(false, ballast::model_part::transfer), add(true, ballast::model_part::transfer)};
  }
  ballast::stage_graph const graph(stages, links);
  std::size_t const count = 1 + random.below(5);
  auto schedule =
      random.below(4) == 0
          ? ballast::compiled_schedule::make(graph, ballast::gpipe{}, count)
          : ballast::compiled_schedule::make(graph, ballast::one_forward_one_backward{}, count);
  small_step step{*std::move(schedule), pipeline_times(count, stages.size())};
  time_units const most = random.below(2) == 0 ? 3 : 100;
  for (auto& time : step.times.rows) { time = {random.between(0, most), random.between(0, most)}; }
  return step;
}

TEST(OrderLowerBound, IsNotAboveAnyOrderWhereTransfersAreStages)  // Ensures (1)
{
  ballast::random_source random(3);
  constexpr int trials = ballast_test::trials_of(2000);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = step_with_transfers(random);
    time_units const least = least_makespan(step);
    ASSERT_LE(order_bound_of(step), least);
    // What searches for orders computes of the same schedule.
    auto const plan =
        ballast::order_microbatches(step.schedule, step.times, ballast::exact_order{});
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->makespan, least);
  }
}

// Long chains of few microbatches, and short chains of many, with times as in practice.
TEST(OrderLowerBound, IsNotAboveAnyOrderOfTheFamilies)  // Ensures (1)
{
  auto const seeds = static_cast<std::uint64_t>(ballast_test::trials_of(12));
  for (auto const& [family, name] : ballast_test::named_families) {
    for (std::size_t const ranks : {2U, 3U, 4U, 8U}) {
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        SCOPED_TRACE(testing::Message() << name << ", " << ranks << " ranks, seed " << seed);
        std::size_t const chunks = 1 + seed % 3;
        time_units const transfer = seed % 4 == 3 ? 15'000 : 0;
        small_step const step{chain_schedule(ranks, 6, chunks, transfer),
                              ballast_test::times_of(family, 6, ranks * chunks, seed)};
        ASSERT_LE(order_bound_of(step), least_makespan(step));
      }
    }
  }
}

TEST(OrderLowerBound, IsWhatMicrobatchesTakeThatAreAlike)
{
  ballast::random_source random(12);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto step = random_small_step(random, 12);
    for (std::size_t at = 0; at < step.times.rows.size(); ++at) {
      step.times.rows[at] = step.times.rows[at % step.times.stages];
    }
    auto const order = ballast_test::numbered_order(step.schedule.microbatches());
    ASSERT_EQ(order_bound_of(step), simulate(step.schedule, step.times, order).makespan);
  }
}

// The last rank alone varies, and its neighbour waits for it in every step that it takes longer.
TEST(OrderLowerBound, AddsUpWhatNeighboursWaitForEachOther)
{
  small_step step{chain_schedule(2, 6), pipeline_times(6, 2)};
  for (std::size_t at = 0; at < 6; ++at) {
    auto const time = static_cast<time_units>(at < 3 ? 1 : 19);
    step.times.rows[2 * at] = {10, 20};
    step.times.rows[2 * at + 1] = {time, 2 * time};
  }
  // The last rank has work for 180, and a microbatch takes 10 to it and 20 from it. Three of its
  // microbatches take 3 and not 57, so it waits in one of four steps at least, until 30.
  EXPECT_EQ(order_bound_of(step), 237);
  EXPECT_EQ(least_makespan(step), 261);
}

TEST(OrderLowerBound, ProvesAnOrderBestThatMeetsIt)
{
  // [order_lower_bound]
  auto const stages = ballast::chain_of_stages(4, 4);
  ballast::compiled_schedule const schedule(stages, ballast::gpipe{}, 5);
  ballast::pipeline_times times(5, 4);
  for (std::size_t at = 0; at < times.rows.size(); ++at) {
    auto const time =
        static_cast<ballast::time_units>(1 + at / 4);  // of all stages of a microbatch
    times.rows[at] = {time, 2 * time};
  }
  ballast::workspace memory;
  auto const bound = ballast::order_lower_bound(schedule, times, memory);
  // [order_lower_bound]
  EXPECT_EQ(bound, 3 * 15 + 3 * 3 * 5);  // a rank's work is 45
  EXPECT_EQ(least_makespan({schedule, times}), bound);
}

TEST(OrderLowerBound, IsTheWorkOfASingleRank)
{
  small_step step{chain_schedule(1, 3), pipeline_times(3, 1)};
  step.times.rows = {{1, 2}, {10, 20}, {100, 200}};
  EXPECT_EQ(order_bound_of(step), 333);
}

// Every order of GPipe takes all work once, and the longest microbatch down and up once more.
TEST(OrderLowerBound, IsExactInGPipeWhereAllStagesAreAlike)
{
  small_step step{ballast_test::gpipe_of(ballast::chain_of_stages(4, 4, 3), 5),
                  pipeline_times(5, 4, [](std::size_t microbatch, std::size_t) {
                    auto const time = static_cast<time_units>(1 + microbatch);
                    return ballast::stage_time{time, 2 * time};
                  })};
  EXPECT_EQ(order_bound_of(step), 3 * (1 + 2 + 3 + 4 + 5) + 3 * 3 * 5 + 6 * 3);
  EXPECT_EQ(least_makespan(step), order_bound_of(step));
}

// One long microbatch of eight, on four stages: nothing that the others do fills its window. The
// work of a rank, 510, and the path of a short microbatch to it and back, 90, are far below.
TEST(OrderLowerBound, SeesThatNothingFillsTheWindowOfALongMicrobatch)
{
  small_step const step{
      chain_schedule(4, 8), pipeline_times(8, 4, [](std::size_t microbatch, std::size_t) {
        return microbatch == 3 ? ballast::stage_time{100, 200} : ballast::stage_time{10, 20};
      })};
  EXPECT_EQ(order_bound_of(step), 1350);
  EXPECT_EQ(least_makespan(step), 1350);
}

// Two stages far from each other: a round trip from the first takes 30 + 2 x 100 + 30. The first
// keeps two microbatches in memory, so that six of them make two chains of three such trips. One
// chain begins 10 later, and the other ends 30 before everything does.
TEST(OrderLowerBound, CountsTransfersOnceForEveryTrip)
{
  small_step const step{
      chain_schedule(2, 6, 1, 100),
      pipeline_times(6, 2, [](std::size_t, std::size_t) { return ballast::stage_time{10, 20}; })};
  EXPECT_GE(order_bound_of(step), 3 * 260 + (10 + 30) / 2);
  EXPECT_EQ(least_makespan(step), 3 * 260 + 30);
}

TEST(OrderLowerBound, TakesPipelinesOfManyStages)
{
  small_step const step{chain_schedule(65, 1), pipeline_times(1, 65, [](std::size_t, std::size_t) {
                          return ballast::stage_time{1, 1};
                        })};
  EXPECT_EQ(order_bound_of(step), 130);
}

TEST(OrderLowerBound, IsNoneWhereThereIsNothingToDo)
{
  EXPECT_EQ(order_bound_of({chain_schedule(3, 0), pipeline_times(0, 3)}), 0);
  EXPECT_EQ(order_bound_of({chain_schedule(3, 7), pipeline_times(7, 3)}), 0);
}

TEST(OrderLowerBound, WorksUpToTheLongestTimes)
{
  constexpr auto longest = ballast::stage_graph::longest_time;
  for (std::size_t const microbatches : {1U, 5U, 20U, 60U}) {
    SCOPED_TRACE(microbatches);
    small_step step{chain_schedule(4, microbatches), pipeline_times(microbatches, 4)};
    std::ranges::fill(step.times.rows, ballast::stage_time{longest, longest});
    step.times.rows.back() = {0, 0};
    auto const order = ballast_test::numbered_order(microbatches);
    ASSERT_TRUE(check_times(step.times, step.schedule));
    time_units const makespan = simulate(step.schedule, step.times, order).makespan;
    time_units const bound = order_bound_of(step);
    EXPECT_LE(bound, makespan);
    EXPECT_GE(bound, 2 * longest * static_cast<time_units>(microbatches) - longest);
    // A single long time among none: products of it and the number of steps are beyond 64 bits.
    std::ranges::fill(step.times.rows, ballast::stage_time{0, 0});
    step.times.rows.back() = {longest, longest};
    EXPECT_EQ(order_bound_of(step), 2 * longest);
  }
}

TEST(OrderLowerBound, AllocatesNothingInMemoryThatHasSeenTheStep)  // Ensures (2)
{
  for (std::size_t const chunks : {1U, 3U}) {
    auto const schedule = chain_schedule(4, 16, chunks, 3);
    auto const times =
        ballast_test::times_of(ballast_test::time_family::every_stage_alone, 16, 4 * chunks, 1);
    ballast::workspace memory;
    time_units const first = order_lower_bound(schedule, times, memory);
    std::size_t const before = ballast_test::allocations();
    EXPECT_EQ(order_lower_bound(schedule, times, memory), first);
    EXPECT_EQ(ballast_test::allocations(), before);
  }
}

TEST(OrderLowerBoundDeathTest, RefusesTimesOfAnotherStep)
{
  auto const schedule = chain_schedule(2, 3);
  ballast::workspace memory;
  EXPECT_DEATH((void)order_lower_bound(schedule, pipeline_times(3, 1), memory),
               "times on 1 stage were given for a schedule of 2");
  EXPECT_DEATH((void)order_lower_bound(schedule, pipeline_times(2, 2), memory), "microbatches");
}

}  // namespace
