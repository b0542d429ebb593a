// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/order_policies.hpp>  // first: proves it is self-contained

#include "../support/order_checks.hpp"
#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace {

using namespace ballast;

// Archetypes: no more than the concept asks for.
struct quiet_order {
  void operator()(order_problem const&, std::span<microbatch_id>, workspace&) const {}
  friend bool operator==(quiet_order, quiet_order) = default;
};
struct proving_order {
  time_units proven = 0;
  time_units operator()(order_problem const&, std::span<microbatch_id>, workspace&) const
  {
    return proven;
  }
  friend bool operator==(proving_order, proving_order) = default;
};
static_assert(order_policy<quiet_order> && quiet_order{} == quiet_order{});
static_assert(order_policy<proving_order> && proving_order{} == proving_order{});

struct without_equality {
  void operator()(order_problem const&, std::span<microbatch_id>, workspace&) const {}
};
struct changing_order {
  void operator()(order_problem const&, std::span<microbatch_id>, workspace&) {}
  friend bool operator==(changing_order, changing_order) = default;
};
struct returning_bool {
  bool operator()(order_problem const&, std::span<microbatch_id>, workspace&) const { return true; }
  friend bool operator==(returning_bool, returning_bool) = default;
};
static_assert(order_policy<without_equality>);
static_assert(!order_policy<changing_order> && changing_order{} == changing_order{});
static_assert(!order_policy<returning_bool> && returning_bool{} == returning_bool{});
static_assert(!order_policy<int>);

static_assert(ballast::order_policy<given_order>);

TEST(GivenOrder, LeavesTheOrderAsItIs)  // Ensures (1)
{
  ballast::random_source random(1);
  auto const schedule = ballast_test::chain_schedule(3, 7);
  auto const times = ballast_test::random_times(random, 7, 3, 100);
  auto const plan = order_microbatches(schedule, times, given_order{}).value();
  EXPECT_EQ(plan.order, ballast_test::numbered_order(7));
  EXPECT_EQ(plan.makespan, plan.makespan_given);

  auto order = ballast_test::numbered_order(7);
  random.shuffle(std::span(order));
  auto const shuffled = order;
  ballast::workspace memory;
  given_order{}({schedule, times}, order, memory);
  EXPECT_EQ(order, shuffled);
}

static_assert(ballast::order_policy<ascending_order>);

TEST(AscendingOrder, SortsByTotalTimeAndEqualOnesByNumber)  // Ensures (1)
{
  auto const schedule = ballast_test::chain_schedule(2, 4);
  ballast::pipeline_times times(4, 2);
  times.rows = {{5, 5}, {5, 6}, {1, 1}, {9, 9}, {0, 0}, {0, 1}, {20, 0}, {0, 0}};
  auto const plan = order_microbatches(schedule, times, ascending_order{}).value();
  EXPECT_EQ(plan.order,
            (std::vector{microbatch_id{2}, microbatch_id{1}, microbatch_id{3}, microbatch_id{0}}));

  // Whichever order it is given.
  std::vector order{microbatch_id{3}, microbatch_id{1}, microbatch_id{0}, microbatch_id{2}};
  ballast::workspace memory;
  ascending_order{}({schedule, times}, order, memory);
  EXPECT_EQ(order, plan.order);
}

TEST(AscendingOrder, DoesNotLookAtBackwardsThatAreNone)
{
  auto const stages = ballast::stage_graph::make({{ballast::pipeline_rank{0}, false}}, {}).value();
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 2).value();
  ballast::pipeline_times times(2, 1);
  times.rows = {{2, 0}, {1, 50}};
  auto const plan = order_microbatches(schedule, times, ascending_order{}).value();
  EXPECT_EQ(plan.order, (std::vector{microbatch_id{1}, microbatch_id{0}}));
}

TEST(AscendingOrderDeathTest, RefusesAnOrderOfAnotherLength)
{
  auto const schedule = ballast_test::chain_schedule(2, 3);
  ballast::pipeline_times const times(3, 2);
  std::vector<microbatch_id> order(2);
  ballast::workspace memory;
  EXPECT_DEATH(ascending_order{}({schedule, times}, order, memory),
               "an order of .* microbatches was given for a schedule of ");
}

static_assert(ballast::order_policy<interval_filling>);

std::vector<int> filled(ballast::compiled_schedule const& schedule,
                        ballast::pipeline_times const& times)
{
  auto const plan = order_microbatches(schedule, times, interval_filling{}).value();
  std::vector<int> all;
  for (auto const microbatch : plan.order) { all.push_back(static_cast<int>(microbatch)); }
  return all;
}

// Times that vary on the first stage only.
ballast::pipeline_times first_stage_times(std::initializer_list<time_units> forwards,
                                          std::size_t stages, time_units others)
{
  ballast::pipeline_times times(forwards.size(), stages);
  std::size_t row = 0;
  for (time_units const forward : forwards) {
    auto const of = times[ballast::to_id<microbatch_id>(row++)];
    std::ranges::fill(of, ballast::stage_time{others, 2 * others});
    of[0] = {forward, 2 * forward};
  }
  return times;
}

TEST(IntervalFilling, FillsTheFirstIntervalsOfAHandWorkedPipeline)  // Ensures (1)
{
  // Two stages, the second 10 forward and 20 backward. Microbatch 4 is the smallest and goes first,
  // 1 is kept for the end. Its gradient arrives 10 + 20 after its forward: 3 takes 30. With it the
  // second stage does forward 3 from 35 to 45 and backward 3 until 65; the first ends backward 4 at
  // 45, so it waits 20: 0 takes 19. Then 2 is left.
  auto const times = first_stage_times({19, 8, 60, 30, 5}, 2, 10);
  EXPECT_EQ(filled(ballast_test::chain_schedule(2, 5), times), (std::vector{4, 3, 0, 2, 1}));
}

TEST(IntervalFilling, AscendsWhereAllAreInThePipelineAtOnce)
{
  auto const times = first_stage_times({3, 1, 2}, 4, 5);
  EXPECT_EQ(filled(ballast_test::chain_schedule(4, 3), times), (std::vector{1, 2, 0}));
}

TEST(IntervalFilling, BreaksTiesByTotalTimeThenByNumber)
{
  auto times = first_stage_times({4, 4, 4, 4}, 4, 9);
  times[microbatch_id{2}][3].backward = 1;
  EXPECT_EQ(filled(ballast_test::chain_schedule(4, 4), times), (std::vector{2, 0, 1, 3}));
}

TEST(IntervalFilling, TakesTheFirstTrainedStageForTheFirst)
{
  // A frozen encoder, then two stages of an LLM: sizes are those of stage 1.
  auto const stages =
      ballast::stage_graph::make(
          {{pipeline_rank{0}, false}, {pipeline_rank{1}, true}, {pipeline_rank{2}, true}},
          {{stage_id{0}, stage_id{1}, 0}, {stage_id{1}, stage_id{2}, 0}})
          .value();
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 4).value();
  ballast::pipeline_times times(4, 3);
  for (std::size_t row = 0; row < 4; ++row) {
    auto const of = times[ballast::to_id<microbatch_id>(row)];
    of[0] = {static_cast<time_units>(row), 0};
    of[1] = {static_cast<time_units>(10 - row), 0};
  }
  auto const order = filled(schedule, times);
  EXPECT_EQ(order.front(), 3);
  EXPECT_EQ(order.back(), 2);
  EXPECT_EQ(ballast::detail::first_trained_stage(stages), stage_id{1});
}

TEST(IntervalFilling, AscendsWhereNothingIsTrained)
{
  auto const stages =
      ballast::stage_graph::make({{pipeline_rank{0}, false}, {pipeline_rank{1}, false}},
                                 {{stage_id{0}, stage_id{1}, 0}})
          .value();
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 3).value();
  auto const times = first_stage_times({3, 1, 2}, 2, 5);
  EXPECT_EQ(filled(schedule, times), (std::vector{1, 2, 0}));
}

// With two stages on each of two ranks the first run of forwards is of positions 0 1 0 1 2. Only
// position 1 fills nothing but the first interval, so one microbatch is kept for the end.
TEST(IntervalFilling, FillsIntervalsByMicrobatchWhereInterleaved)
{
  auto const times = first_stage_times({50, 2, 40, 7, 30, 1, 20, 3}, 4, 10);
  auto const order = filled(ballast_test::chain_schedule(2, 8, 2), times);
  EXPECT_EQ(order.front(), 5);
  EXPECT_EQ(order.back(), 1);
  // Backward 5 on the last chunk ends at 1 + 3 x 10 + 20 + 20 = 71 and the rank has worked until
  // 1 + 10 (its two forwards of 5; the second starts at 21): the interval is 51 - 31 = 20 for
  // three forwards that are to come, 13 for the two of position 1. 3 and 10 take 13.
  EXPECT_EQ(order[1], 3);
}

// A frozen encoder, an LLM and a generator. What each microbatch takes in encoder and generator is
// 5 + 3 x 20, 9 + 3 x 2, 1 + 3 x 30 and 7 + 3 x 3; gradients of the encoder do not count.
TEST(IntervalFilling, TakesTheTimeInEncoderAndGeneratorForTheSize)
{
  auto const stages =
      ballast::joined_stages({.encoders = {{1, false}}, .llm = {2}, .generators = {{1}}}).value();
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 4).value();
  auto times = ballast_test::equal_times(4, 4, {10, 20});
  time_units const encoder[] = {5, 9, 1, 7};
  time_units const generator[] = {20, 2, 30, 3};
  for (std::uint32_t row = 0; row < 4; ++row) {
    times[microbatch_id{row}][0] = {encoder[row], 1000 - 300 * row};
    times[microbatch_id{row}][3] = {generator[row], 2 * generator[row]};
  }
  EXPECT_EQ(filled(schedule, times), (std::vector{1, 2, 3, 0}));
}

TEST(OrderPolicies, KeepWhatPoliciesPromise)
{
  ballast_test::expect_valid_orders(given_order{}, 101);
  ballast_test::expect_valid_orders(ascending_order{}, 102);
  ballast_test::expect_valid_orders(interval_filling{}, 103);
}

TEST(IntervalFilling, DependsOnNothingButTheTimesAndTheSchedule)  // Ensures (2)
{
  ballast::random_source random(3);
  ballast_test::expect_same_order_whatever_is_given(interval_filling{},
                                                    ballast_test::chain_schedule(4, 20),
                                                    ballast_test::random_times(random, 20, 4, 9));
}
}  // namespace
