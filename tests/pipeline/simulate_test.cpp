#include <ballast/pipeline/simulate.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/pipeline_families.hpp"
#include "../support/pipelines.hpp"
#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

#include <ballast/pipeline/schedule_policies.hpp>

namespace {

using namespace ballast;
using memory_level = rank_memory::level;
using ballast_test::equal_times;
using ballast_test::numbered_order;
using testing::ElementsAre;
using testing::HasSubstr;

static_assert(std::regular<pipeline_times>);

TEST(PipelineTimes, HasARowPerMicrobatchAndAColumnPerStage)
{
  pipeline_times times(2, 3);
  EXPECT_EQ(times.microbatches(), 2U);
  EXPECT_EQ(times.stages, 3U);
  times[microbatch_id{1}][2] = {5, 7};
  EXPECT_EQ(times.rows, (std::vector<stage_time>{{}, {}, {}, {}, {}, {5, 7}}));
  EXPECT_EQ(std::as_const(times)[microbatch_id{1}][2], (stage_time{5, 7}));
}

TEST(PipelineTimes, AsksForEachMicrobatchOnEachStage)
{
  pipeline_times const times(2, 3, [](std::size_t microbatch, std::size_t stage) {
    return stage_time{static_cast<ballast::time_units>(10 * microbatch + stage), 0};
  });
  EXPECT_EQ(times.stages, 3U);
  EXPECT_EQ(times.rows,
            (std::vector<stage_time>{{0, 0}, {1, 0}, {2, 0}, {10, 0}, {11, 0}, {12, 0}}));
}

TEST(PipelineTimes, MayHaveNoMicrobatch)
{
  EXPECT_EQ(pipeline_times().microbatches(), 0U);
  EXPECT_EQ(pipeline_times(0, 4).microbatches(), 0U);
}

TEST(PipelineTimesDeathTest, RefusesNoStageAndAMicrobatchThatDoesNotExist)
{
  EXPECT_DEATH(pipeline_times(1, 0), "on 0 stages");
  pipeline_times times(2, 3);
  EXPECT_DEATH((void)times[microbatch_id{2}], "microbatch 2 of times of 2 microbatches");
  EXPECT_DEATH((void)std::as_const(times)[microbatch_id{2}],
               "microbatch 2 of times of 2 microbatches");
}

TEST(PipelineTimeline, SaysHowMuchOfTheTimeIsIdle)
{
  pipeline_timeline const timeline{.start = {}, .end = {}, .busy = {6, 2}, .makespan = 8};
  EXPECT_EQ(timeline.idle_share(), 0.5);
  EXPECT_EQ(timeline.idle_share(pipeline_rank{0}), 0.25);
  EXPECT_EQ(timeline.idle_share(pipeline_rank{1}), 0.75);
}

TEST(PipelineTimelineDeathTest, RefusesARankThatItDoesNotHave)
{
  EXPECT_DEATH((void)pipeline_timeline{}.idle_share(pipeline_rank{0}),
               "rank 0 of a timeline of 0 ranks");
}

template <ballast::schedule_policy Policy>
compiled_schedule compile(stage_graph const& stages, std::size_t microbatches, Policy const& policy)
{
  return compiled_schedule(stages, policy, microbatches);
}

// The starts of a rank's tasks, in the order in which it does them.
std::vector<time_units> starts_on(compiled_schedule const& schedule,
                                  ballast::pipeline_timeline const& timeline, pipeline_rank rank)
{
  std::vector<time_units> starts;
  for (std::uint32_t const task : schedule.tasks_on(rank)) {
    starts.push_back(timeline.start[task]);
  }
  return starts;
}

TEST(Simulate, StartsEveryTaskWhenAllThatItWaitsForIsDone)  // Ensures (1)
{
  // [simulate]
  auto const stages = ballast::chain_of_stages(2, 2, 1);  // two ranks, a transfer takes 1
  compiled_schedule const schedule(stages, one_forward_one_backward{}, 3);
  pipeline_times times(3, 2);
  times[microbatch_id{0}][0] = {.forward = 2, .backward = 4};  // on the first stage
  times[microbatch_id{0}][1] = {.forward = 3, .backward = 6};
  times[microbatch_id{1}][0] = {.forward = 1, .backward = 2};
  times[microbatch_id{1}][1] = {.forward = 3, .backward = 6};
  times[microbatch_id{2}][0] = {.forward = 5, .backward = 9};
  times[microbatch_id{2}][1] = {.forward = 3, .backward = 6};
  std::vector const order{microbatch_id{1}, microbatch_id{2}, microbatch_id{0}};
  auto const timeline = ballast::simulate(schedule, times, order);
  // [simulate]
  // Rank 0: F1 F2 B1 F0 B2 B0. Rank 1: F1 B1 F2 B2 F0 B0.
  EXPECT_THAT(starts_on(schedule, timeline, pipeline_rank{0}), ElementsAre(0, 1, 12, 14, 21, 30));
  EXPECT_THAT(starts_on(schedule, timeline, pipeline_rank{1}), ElementsAre(2, 5, 11, 14, 20, 23));
  EXPECT_EQ(timeline.makespan, 34);
  EXPECT_THAT(timeline.busy, ElementsAre(23, 27));
  EXPECT_DOUBLE_EQ(timeline.idle_share(), 1 - 50.0 / 68);
  EXPECT_DOUBLE_EQ(timeline.idle_share(pipeline_rank{0}), 1 - 23.0 / 34);
  EXPECT_DOUBLE_EQ(timeline.idle_share(pipeline_rank{1}), 1 - 27.0 / 34);
}

TEST(Simulate, JoinsEncodersAndLetsAFrozenOneGoOn)
{
  // Stages 0 (frozen) and 1 feed stage 2.
  stage_graph const stages({{pipeline_rank{0}, false}, {pipeline_rank{1}}, {pipeline_rank{2}}},
                           {{stage_id{0}, stage_id{2}, 10}, {stage_id{1}, stage_id{2}, 1}});
  auto const schedule = compile(stages, 2, one_forward_one_backward{});
  pipeline_times times(2, 3);
  for (std::size_t microbatch = 0; microbatch < 2; ++microbatch) {
    auto const row = times[ballast::to_id<microbatch_id>(microbatch)];
    row[0] = {4, 100};  // the backward is not looked at
    row[1] = {6, 12};
    row[2] = {5, 7};
  }
  auto const timeline = ballast::simulate(schedule, times, numbered_order(2));
  EXPECT_THAT(starts_on(schedule, timeline, pipeline_rank{0}), ElementsAre(0, 4));
  EXPECT_THAT(starts_on(schedule, timeline, pipeline_rank{1}), ElementsAre(0, 6, 27, 39));
  EXPECT_THAT(starts_on(schedule, timeline, pipeline_rank{2}), ElementsAre(14, 19, 26, 31));
  EXPECT_EQ(timeline.makespan, 51);
  EXPECT_THAT(timeline.busy, ElementsAre(8, 36, 24));
}

TEST(Simulate, TakesTheClosedFormsForEqualTimes)
{
  constexpr time_units forward = 3;
  constexpr time_units backward = 5;
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    for (time_units const transfer : {0, 1, 20}) {
      auto const stages = chain_of_stages(ranks, ranks, transfer);
      auto const p = static_cast<time_units>(ranks);
      std::vector<time_units> steady;  // of 1F1B, by microbatches
      for (std::size_t microbatches = 0; microbatches <= 4 * ranks; ++microbatches) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << microbatches
                                        << " microbatches, transfer " << transfer);
        auto const l = static_cast<time_units>(microbatches);
        auto const order = numbered_order(microbatches);
        auto const times = equal_times(microbatches, ranks, {forward, backward});
        auto const all =
            ballast::simulate(compile(stages, microbatches, ballast::gpipe{}), times, order);
        auto const one = ballast::simulate(
            compile(stages, microbatches, one_forward_one_backward{}), times, order);
        EXPECT_THAT(all.busy, testing::Each(l * (forward + backward)));
        EXPECT_EQ(one.busy, all.busy);
        steady.push_back(one.makespan);
        if (microbatches == 0) { continue; }
        // GPipe pays a transfer where it fills and where it drains, and so does 1F1B where they
        // take no time or there is but one microbatch.
        EXPECT_EQ(all.makespan, (l + p - 1) * (forward + backward) + 2 * (p - 1) * transfer);
        if (transfer == 0 || microbatches == 1) { EXPECT_EQ(one.makespan, all.makespan); }
        // In its steady state 1F1B waits for the last stage and back once for every p microbatches.
        if (microbatches > 2 * ranks) {
          EXPECT_EQ(one.makespan - steady[microbatches - ranks],
                    p * (forward + backward) + 2 * (p - 1) * transfer);
        }
      }
    }
  }
}

TEST(Simulate, TakesNoTimeForNothing)
{
  auto const stages = chain_of_stages(3, 3, 9);
  auto const none =
      ballast::simulate(compile(stages, 0, one_forward_one_backward{}), pipeline_times(0, 3), {});
  EXPECT_TRUE(none.start.empty() && none.end.empty());
  EXPECT_THAT(none.busy, ElementsAre(0, 0, 0));
  EXPECT_EQ(none.makespan, 0);
  EXPECT_EQ(none.idle_share(), 0);
  EXPECT_EQ(none.idle_share(ballast::pipeline_rank{0}), 0);
  EXPECT_EQ(ballast::pipeline_timeline().idle_share(), 0);

  auto const instant = ballast::simulate(compile(stages, 2, one_forward_one_backward{}),
                                         pipeline_times(2, 3), numbered_order(2));
  EXPECT_EQ(instant.makespan, 4 * 9);  // transfers alone
  EXPECT_EQ(instant.idle_share(), 1);
}

TEST(Simulate, OverwritesATimelineWithoutAllocation)  // Ensures (2)
{
  auto const large = compile(chain_of_stages(4, 4), 16, one_forward_one_backward{});
  auto const small = compile(chain_of_stages(2, 2), 5, one_forward_one_backward{});
  auto const large_times =
      ballast_test::times_of(ballast_test::time_family::proportional, 16, 4, 1);
  auto const small_times = ballast_test::times_of(ballast_test::time_family::proportional, 5, 2, 2);
  auto const order = numbered_order(16);
  auto const expected = ballast::simulate(small, small_times, std::span(order).first(5));

  ballast::pipeline_timeline timeline;
  ballast::workspace memory;
  ballast::simulate_into(timeline, large, large_times, order);
  time_units const makespan = ballast::makespan_of(large, large_times, order, memory);
  EXPECT_EQ(makespan, timeline.makespan);
  std::size_t const before = ballast_test::allocations();
  ballast::simulate_into(timeline, small, small_times, std::span(order).first(5));
  time_units const again =
      ballast::makespan_of(small, small_times, std::span(order).first(5), memory);
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_EQ(timeline.start, expected.start);
  EXPECT_EQ(timeline.end, expected.end);
  EXPECT_EQ(timeline.busy, expected.busy);
  EXPECT_EQ(timeline.makespan, expected.makespan);
  EXPECT_EQ(again, expected.makespan);
}

TEST(CheckTimes, RefusesTimesOfAnotherShape)
{
  auto const schedule = compile(chain_of_stages(2, 2), 3, one_forward_one_backward{});
  EXPECT_TRUE(ballast::check_times(pipeline_times(3, 2), schedule));
  for (pipeline_times const& times :
       {pipeline_times(2, 2), pipeline_times(3, 3), pipeline_times(2, 3), pipeline_times()}) {
    auto const checked = ballast::check_times(times, schedule);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ballast::error_code::out_of_range);
    EXPECT_THAT(checked.error().message, HasSubstr("has 3 on 2; make them agree"));
  }
}

TEST(CheckTimes, RefusesTimesThatAreNegativeOrTooLong)
{
  auto const schedule = compile(chain_of_stages(2, 2), 3, one_forward_one_backward{});
  constexpr time_units longest = stage_graph::longest_time;
  pipeline_times times(3, 2);
  times[microbatch_id{1}][1] = {longest, longest};
  EXPECT_TRUE(ballast::check_times(times, schedule));
  for (ballast::stage_time const wrong :
       {ballast::stage_time{-1, 0}, {0, -1}, {longest + 1, 0}, {0, longest + 1}}) {
    times[microbatch_id{1}][1] = wrong;
    ballast_test::expect_refused(
        ballast::check_times(times, schedule), ballast::error_code::out_of_range, 1,
        "microbatch 1 takes " + std::to_string(wrong.forward) + " forward and " +
            std::to_string(wrong.backward) + " backward on stage 1, and a time is");
  }
}

TEST(CheckTimes, AllowsATotalOfTwoToThe62AndNotMore)
{
  constexpr time_units longest = stage_graph::longest_time;
  auto const stages = chain_of_stages(1, 1);
  auto times = equal_times(256, 1, {longest, longest});
  auto const schedule = compile(stages, 256, ballast::gpipe{});
  ASSERT_TRUE(ballast::check_times(times, schedule));
  EXPECT_EQ(ballast::simulate(schedule, times, numbered_order(256)).makespan, time_units{1} << 62);

  times.rows.push_back({1, 0});
  auto const checked = ballast::check_times(times, compile(stages, 257, ballast::gpipe{}));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().position, 256U);
  EXPECT_THAT(checked.error().message, HasSubstr("all times and transfers together above 2^62"));
}

TEST(CheckTimes, CountsEveryTransferBothWays)
{
  constexpr time_units longest = stage_graph::longest_time;
  auto const stages = chain_of_stages(2, 2, longest);
  EXPECT_TRUE(ballast::check_times(pipeline_times(256, 2), compile(stages, 256, ballast::gpipe{})));
  ballast_test::expect_refused(
      ballast::check_times(pipeline_times(257, 2), compile(stages, 257, ballast::gpipe{})),
      ballast::error_code::out_of_range, 0, "transfers of 257 microbatches");
}

// So many links that adding up their transfers would leave 64 bits.
TEST(CheckTimes, AddsUpHugeTransfersWithoutOverflow)
{
  std::vector<ballast::pipeline_stage> stages;
  std::vector<ballast::stage_link> links;
  for (std::size_t to = 0; to < 64; ++to) {
    stages.push_back({ballast::to_id<pipeline_rank>(to)});
    for (std::size_t from = 0; from < to; ++from) {
      links.push_back({ballast::to_id<stage_id>(from), ballast::to_id<stage_id>(to),
                       stage_graph::longest_time});
    }
  }
  stage_graph const graph(stages, links);
  EXPECT_FALSE(
      ballast::check_times(pipeline_times(1, 64), compile(graph, 1, one_forward_one_backward{})));
  EXPECT_TRUE(
      ballast::check_times(pipeline_times(0, 64), compile(graph, 0, one_forward_one_backward{})));
}

TEST(SimulateDeathTest, RefusesAnOrderOfAnotherSizeAndTimesOfOtherStages)
{
  auto const schedule = compile(chain_of_stages(2, 2), 3, one_forward_one_backward{});
  ballast::workspace memory;
  EXPECT_DEATH((void)ballast::simulate(schedule, pipeline_times(3, 2), numbered_order(2)),
               "an order of 2 microbatches was given for a schedule of 3");
  EXPECT_DEATH(
      (void)ballast::makespan_of(schedule, pipeline_times(3, 3), numbered_order(3), memory),
      "times on 3 stages were given for a schedule of 2");
}

// The activations of one microbatch on one stage.
struct lifetime {
  std::size_t rank = 0;
  std::uint64_t bytes = 0;
  time_units from = 0;
  time_units until = 0;
};

// Oracle: forwards and backwards matched by a look at all pairs of tasks, as the definition says.
std::vector<lifetime> lifetimes(compiled_schedule const& schedule,
                                ballast::pipeline_timeline const& timeline,
                                std::vector<microbatch_id> const& order,
                                std::vector<held_bytes> const& bytes)
{
  auto const& stages = schedule.stages();
  std::vector<lifetime> all;
  for (std::size_t task = 0; task < schedule.tasks().size(); ++task) {
    auto const& [position, stage, direction] = schedule.tasks()[task];
    if (direction == pass::backward) { continue; }
    ballast::pipeline_task const back{position, stage, pass::backward};
    auto const found = std::ranges::find(schedule.tasks(), back) - schedule.tasks().begin();
    std::size_t const last = stages[stage].backward ? static_cast<std::size_t>(found) : task;
    std::size_t const row = ballast::to_index(order[position]);
    all.push_back({ballast::to_index(stages[stage].rank),
                   bytes[row * stages.stages() + ballast::to_index(stage)].held,
                   timeline.start[task], timeline.end[last]});
  }
  return all;
}

// What each rank keeps during [now, now + 1).
std::vector<std::uint64_t> kept_at(time_units now, std::size_t ranks,
                                   std::vector<lifetime> const& all)
{
  std::vector<std::uint64_t> kept(ranks, 0);
  for (lifetime const& each : all) {
    if (each.from <= now && now < each.until) { kept[each.rank] += each.bytes; }
  }
  return kept;
}

std::uint64_t level_at(time_units now, std::vector<memory_level> const& levels)
{
  std::uint64_t bytes = 0;
  for (memory_level const& level : levels) {
    if (level.since <= now) { bytes = level.bytes; }
  }
  return bytes;
}

TEST(ActivationMemory, IsWhatASweepOverAllTimesSees)  // Ensures (1) (2) (3)
{
  ballast::random_source random(21);
  for (int trial = 0; trial < 150; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, listed] = ballast_test::random_pipeline(random);
    compiled_schedule const schedule(stages, listed);
    time_units const shortest = trial % 2;  // tasks that take no time among them, or none
    pipeline_times times(listed.microbatches, stages.stages());
    for (auto& time : times.rows) {
      time = {random.between(shortest, 2), random.between(shortest, 3)};
    }
    std::vector<held_bytes> bytes(times.rows.size());
    for (auto& each : bytes) { each.held = each.for_weights = random.below(4); }
    auto order = numbered_order(listed.microbatches);
    random.shuffle(std::span(order));
    auto const timeline = ballast::simulate(schedule, times, order);
    auto const memory = activation_memory(schedule, timeline, order, bytes);

    ASSERT_EQ(memory.size(), stages.ranks());
    auto const all = lifetimes(schedule, timeline, order, bytes);
    std::vector<std::uint64_t> highest(stages.ranks(), 0);
    for (time_units now = -1; now <= timeline.makespan; ++now) {
      auto const kept = kept_at(now, stages.ranks(), all);
      for (std::size_t rank = 0; rank < memory.size(); ++rank) {
        ASSERT_EQ(level_at(now, memory[rank].levels), kept[rank])
            << "rank " << rank << " at " << now;
        highest[rank] = std::max(highest[rank], kept[rank]);
      }
    }
    for (std::size_t rank = 0; rank < memory.size(); ++rank) {
      auto const& [peak, levels] = memory[rank];
      if (shortest > 0) {
        EXPECT_EQ(peak, highest[rank]);
      } else {
        EXPECT_GE(peak, highest[rank]);
      }
      for (std::size_t at = 0; at < levels.size(); ++at) {
        EXPECT_NE(levels[at].bytes, at == 0 ? 0 : levels[at - 1].bytes);
        if (at > 0) { EXPECT_GT(levels[at].since, levels[at - 1].since); }
      }
      if (!levels.empty()) { EXPECT_EQ(levels.back().bytes, 0U); }
    }
  }
}

TEST(ActivationMemory, IsBoundedByTheStagesInOneForwardOneBackwardAndByTheMicrobatchesInGPipe)
{
  for (std::size_t stages = 1; stages <= 8; ++stages) {
    for (std::size_t microbatches = 0; microbatches <= 12; ++microbatches) {
      SCOPED_TRACE(testing::Message() << stages << " stages, " << microbatches << " microbatches");
      auto const chain = ballast::chain_of_stages(stages, stages, 1);
      auto const times = equal_times(microbatches, stages, {2, 3});
      std::vector<held_bytes> const one(times.rows.size(), {1});
      auto const order = numbered_order(microbatches);
      auto const peaks = [&](auto const& policy) {
        compiled_schedule const schedule(chain, policy, microbatches);
        return activation_memory(schedule, ballast::simulate(schedule, times, order), order, one);
      };
      auto const steady = peaks(ballast::one_forward_one_backward{});
      auto const all = peaks(ballast::gpipe{});
      for (std::size_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(steady[stage].peak_bytes, std::min(stages - stage, microbatches));
        EXPECT_EQ(all[stage].peak_bytes, microbatches);
      }
    }
  }
}

TEST(ActivationMemory, DropsTheActivationsOfAFrozenStageWithItsForward)
{
  stage_graph const stages({{pipeline_rank{0}, false}, {pipeline_rank{1}}},
                           {{stage_id{0}, stage_id{1}, 10}});
  compiled_schedule const schedule(stages, ballast::one_forward_one_backward{}, 2);
  auto const times = equal_times(2, 2, {5, 8});
  auto const order = numbered_order(2);
  // [activation_memory]
  // of microbatch 0 on the stages 0 and 1, then of microbatch 1
  std::vector<held_bytes> const bytes{{100}, {7}, {200}, {9}};
  auto const timeline = ballast::simulate(schedule, times, order);
  auto const memory = ballast::activation_memory(schedule, timeline, order, bytes);
  // [activation_memory]
  EXPECT_EQ(memory[0].peak_bytes, 200U);
  EXPECT_THAT(memory[0].levels,
              ElementsAre(memory_level{0, 100}, memory_level{5, 200}, memory_level{10, 0}));
  EXPECT_EQ(memory[1].peak_bytes, 9U);
  EXPECT_THAT(memory[1].levels,
              ElementsAre(memory_level{15, 7}, memory_level{28, 9}, memory_level{41, 0}));
}

TEST(ActivationMemory, CountsWhatIsKeptForNoTime)  // Ensures (3)
{
  auto const chain = ballast::chain_of_stages(1, 1);
  compiled_schedule const schedule(chain, ballast::gpipe{}, 3);
  auto const order = numbered_order(3);
  std::vector<held_bytes> const bytes{{1}, {2}, {4}};
  auto const memory = activation_memory(
      schedule, ballast::simulate(schedule, pipeline_times(3, 1), order), order, bytes);
  EXPECT_EQ(memory[0].peak_bytes, 7U);
  EXPECT_TRUE(memory[0].levels.empty());
}

TEST(ActivationMemory, FillsAllOf64Bits)
{
  auto const chain = ballast::chain_of_stages(1, 1);
  compiled_schedule const schedule(chain, ballast::gpipe{}, 2);
  auto const times = equal_times(2, 1, {1, 1});
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  auto const order = numbered_order(2);
  std::vector<held_bytes> const bytes{{most - 1}, {1}};
  auto const memory =
      activation_memory(schedule, ballast::simulate(schedule, times, order), order, bytes);
  EXPECT_EQ(memory[0].peak_bytes, most);
  EXPECT_THAT(memory[0].levels, ElementsAre(memory_level{0, most - 1}, memory_level{1, most},
                                            memory_level{3, 1}, memory_level{4, 0}));
}

TEST(ActivationMemoryDeathTest, RefusesBytesOfAnotherShape)
{
  auto const chain = ballast::chain_of_stages(2, 2);
  compiled_schedule const schedule(chain, ballast::gpipe{}, 2);
  auto const order = numbered_order(2);
  auto const timeline = ballast::simulate(schedule, pipeline_times(2, 2), order);
  std::vector<held_bytes> const bytes(3);
  EXPECT_DEATH((void)activation_memory(schedule, timeline, order, bytes),
               "`bytes` has 3 entries for 2 microbatches on 2 stages");
}

}  // namespace
