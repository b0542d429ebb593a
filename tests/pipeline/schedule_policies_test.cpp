#include <ballast/pipeline/schedule_policies.hpp>  // first: proves it is self-contained

#include "../support/pipelines.hpp"
#include "../support/plan_checks.hpp"
#include "../support/schedule_checks.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace {

using namespace ballast;
using ballast_test::backward;
using ballast_test::forward;
using interleaved = ballast::interleaved_one_forward_one_backward;
using ballast_test::split_v;
using testing::ElementsAre;
using testing::HasSubstr;

static_assert(ballast::schedule_policy<gpipe>);

TEST(Gpipe, DoesAllForwardsThenAllBackwardsInTheSameOrder)  // Ensures (2)
{
  auto const schedule = gpipe{}(chain_of_stages(2, 2), 3).value();
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    EXPECT_THAT(schedule.ranks[stage],
                ElementsAre(forward(0, stage), forward(1, stage), forward(2, stage),
                            backward(0, stage), backward(1, stage), backward(2, stage)));
  }
}

TEST(Gpipe, GoesStageByStageOnARankWithSeveral)
{
  auto const schedule = gpipe{}(chain_of_stages(4, 2), 2).value();
  EXPECT_THAT(schedule.ranks[1],
              ElementsAre(forward(0, 1), forward(1, 1), forward(0, 3), forward(1, 3),
                          backward(0, 3), backward(1, 3), backward(0, 1), backward(1, 1)));
}

TEST(Gpipe, NeverDeadlocks)  // Ensures (1)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const stages = ballast_test::random_stages(random, false);
    std::size_t const microbatches = random.below(12);
    auto const schedule = gpipe{}(stages, microbatches);
    ASSERT_TRUE(schedule) << schedule.error().message;
    ASSERT_NO_FATAL_FAILURE(ballast_test::expect_sound(stages, *schedule, microbatches));
  }
}

static_assert(ballast::schedule_policy<one_forward_one_backward>);

// A rank's tasks as the papers draw them: F0 F1 B0 F2 B1 B2.
std::string drawn(std::vector<pipeline_task> const& tasks)
{
  std::string text;
  for (pipeline_task const& task : tasks) {
    text += (text.empty() ? "" : " ") + std::string(task.pass == pass::forward ? "F" : "B") +
            std::to_string(task.position);
  }
  return text;
}

// The longest path from every stage to one that feeds none, by definition.
std::size_t depth_of(stage_graph const& stages, std::size_t stage)
{
  std::size_t depth = 0;
  for (ballast::stage_link const& link : stages.links()) {
    if (ballast::to_index(link.from) == stage) {
      depth = std::max(depth, 1 + depth_of(stages, ballast::to_index(link.to)));
    }
  }
  return depth;
}

TEST(OneForwardOneBackward, AlternatesAfterReachingTheLastStage)
{
  auto const schedule = one_forward_one_backward{}(chain_of_stages(3, 3), 4).value();
  EXPECT_EQ(drawn(schedule.ranks[0]), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(drawn(schedule.ranks[1]), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(drawn(schedule.ranks[2]), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(OneForwardOneBackward, CopesWithFewMicrobatches)
{
  auto const stages = chain_of_stages(4, 4);
  auto const one = one_forward_one_backward{}(stages, 1).value();
  auto const two = one_forward_one_backward{}(stages, 2).value();
  for (std::size_t rank = 0; rank < 4; ++rank) { EXPECT_EQ(drawn(one.ranks[rank]), "F0 B0"); }
  EXPECT_EQ(drawn(two.ranks[0]), "F0 F1 B0 B1");
  EXPECT_EQ(drawn(two.ranks[3]), "F0 B0 F1 B1");
  EXPECT_EQ(one_forward_one_backward{}(stages, 0).value(),
            (ballast::pipeline_schedule{0, std::vector<std::vector<pipeline_task>>(4)}));
}

TEST(OneForwardOneBackward, GivesFrozenStagesTheirForwardsOnly)
{
  auto const stages =
      ballast::joined_stages({.encoders = {{2, false}, {1, true}}, .llm = {1}}).value();
  auto const schedule = one_forward_one_backward{}(stages, 3).value();
  EXPECT_EQ(drawn(schedule.ranks[0]), "F0 F1 F2");
  EXPECT_EQ(drawn(schedule.ranks[1]), "F0 F1 F2");
  EXPECT_EQ(drawn(schedule.ranks[2]), "F0 F1 B0 F2 B1 B2");
}

TEST(OneForwardOneBackward, NeverDeadlocks)  // Ensures (2)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const stages = trial % 2 == 0 ? ballast_test::random_stages(random, true)
                                       : ballast_test::random_modules(random);
    std::size_t const microbatches = random.below(25);
    auto const schedule = one_forward_one_backward{}(stages, microbatches);
    ASSERT_TRUE(schedule) << schedule.error().message;
    ASSERT_NO_FATAL_FAILURE(ballast_test::expect_sound(stages, *schedule, microbatches));
  }
}

TEST(OneForwardOneBackward, KeepsAsManyMicrobatchesAsItIsFarFromTheEnd)  // Ensures (1)
{
  ballast::random_source random(7);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const stages = ballast_test::random_stages(random, true);
    std::size_t const microbatches = 1 + random.below(20);
    auto const schedule = one_forward_one_backward{}(stages, microbatches).value();
    for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
      auto const id = ballast::to_id<stage_id>(stage);
      if (!stages[id].backward) { continue; }
      auto const& tasks = schedule.ranks[ballast::to_index(stages[id].rank)];
      EXPECT_EQ(ballast_test::most_in_memory(tasks, id),
                std::min(microbatches, depth_of(stages, stage) + 1));
    }
  }
}

// A path of D links takes D forwards to fill and D backwards to drain; in between its last stage is
// never idle. No schedule is faster.
TEST(OneForwardOneBackward, IsIdleAtBothEndsOnlyWhereAllTasksTakeOneUnit)
{
  ballast::random_source random(11);
  ballast::workspace memory;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const count = 1 + random.below(8);
    std::vector<ballast::pipeline_stage> all(count);
    std::vector<ballast::stage_link> links;
    for (std::size_t stage = 0; stage < count; ++stage) {
      all[stage].rank = ballast::to_id<ballast::pipeline_rank>(stage);
      for (std::size_t from = 0; from < stage; ++from) {
        if (random.below(3) == 0) {
          links.push_back({ballast::to_id<stage_id>(from), ballast::to_id<stage_id>(stage), 0});
        }
      }
    }
    auto const stages = stage_graph::make(all, links).value();
    std::size_t longest = 0;
    for (std::size_t stage = 0; stage < count; ++stage) {
      longest = std::max(longest, depth_of(stages, stage));
    }
    std::size_t const microbatches = 1 + random.below(15);
    auto const schedule =
        ballast::compiled_schedule::make(stages, one_forward_one_backward{}, microbatches).value();
    auto const times = ballast_test::equal_times(microbatches, count, {1, 1});
    auto const order = ballast_test::numbered_order(microbatches);
    EXPECT_EQ(ballast::makespan_of(schedule, times, order, memory),
              static_cast<ballast::time_units>(2 * microbatches + 2 * longest));
  }
}

TEST(OneForwardOneBackward, RefusesSeveralStagesOnARank)
{
  auto const stages =
      stage_graph::make(
          {{ballast::pipeline_rank{0}}, {ballast::pipeline_rank{1}}, {ballast::pipeline_rank{1}}},
          {})
          .value();
  ballast_test::expect_refused(one_forward_one_backward{}(stages, 4),
                               ballast::error_code::infeasible, 1, "pipeline rank 1 has 2 stages");
}

static_assert(ballast::schedule_policy<interleaved>);

// Oracle, for microbatches that are a multiple of the ranks: the loops of Megatron-Core's
// forward_backward_pipelining_with_interleaving, in which every chunk counts its own microbatches.
pipeline_schedule as_megatron_does(std::size_t ranks, std::size_t chunks, std::size_t microbatches)
{
  pipeline_schedule schedule{microbatches, {}};
  std::size_t const total = microbatches * chunks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto& tasks = schedule.ranks.emplace_back();
    std::vector<std::uint32_t> forwards(chunks, 0);
    std::vector<std::uint32_t> backwards(chunks, 0);
    auto const chunk_of = [&](std::size_t k) { return k % (ranks * chunks) / ranks; };
    auto const stage = [&](std::size_t chunk) {
      return ballast::to_id<stage_id>(chunk * ranks + rank);
    };
    auto const forward = [&](std::size_t k) {
      std::size_t const chunk = chunk_of(k);
      tasks.push_back({forwards[chunk]++, stage(chunk), pass::forward});
    };
    auto const backward = [&](std::size_t k) {
      std::size_t const chunk = chunks - 1 - chunk_of(k);
      tasks.push_back({backwards[chunk]++, stage(chunk), pass::backward});
    };
    std::size_t const warm_up = std::min(total, (ranks - rank - 1) * 2 + (chunks - 1) * ranks);
    for (std::size_t k = 0; k < warm_up; ++k) { forward(k); }
    for (std::size_t k = 0; k < total - warm_up; ++k) {
      forward(k + warm_up);
      backward(k);
    }
    for (std::size_t k = total - warm_up; k < total; ++k) { backward(k); }
  }
  return schedule;
}

TEST(InterleavedOneForwardOneBackward,
     IsMegatronsOrMoreGeneralAndNeverDeadlocks)  // Ensures (1) (3)
{
  auto const every = static_cast<std::size_t>(40 / ballast_test::trials_of(40));
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    for (std::size_t chunks = 1; chunks <= 4; ++chunks) {
      auto const stages = chain_of_stages(chunks * ranks, ranks);
      for (std::size_t microbatches = 0; microbatches <= 40; microbatches += every) {
        SCOPED_TRACE(testing::Message()
                     << "p " << ranks << " v " << chunks << " l " << microbatches);
        auto const schedule = interleaved{}(stages, microbatches);
        ASSERT_TRUE(schedule) << schedule.error().message;
        ASSERT_NO_FATAL_FAILURE(ballast_test::expect_sound(stages, *schedule, microbatches));
        ASSERT_TRUE(ballast::compiled_schedule::make(stages, *schedule));
        if (chunks == 1) {
          ASSERT_EQ(schedule, ballast::one_forward_one_backward{}(stages, microbatches));
        } else if (microbatches % ranks == 0) {
          ASSERT_EQ(*schedule, as_megatron_does(ranks, chunks, microbatches));
        }
      }
    }
  }
}

// Units that feed others at random: encoders, generators, replicas behind a broker.
stage_graph random_graph_of_units(ballast::random_source& random)
{
  std::vector<pipeline_stage> stages;
  std::vector<stage_link> links;
  std::vector<stage_id> ends;
  std::uint32_t first_rank = 0;
  for (std::uint64_t left = 1 + random.below(6); left > 0; --left) {
    auto const first = ballast::to_id<stage_id>(stages.size());
    for (stage_id const end : ends) {
      if (random.below(3) != 0) { links.push_back({end, first, 0}); }
    }
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
    std::uint64_t const chunks = ranks == 1 ? 1 : 1 + random.below(3);
    for (std::uint32_t each = 0; each < ranks * chunks; ++each) {
      auto const stage = ballast::to_id<stage_id>(stages.size());
      if (each > 0) { links.push_back({ends.back(), stage, 0}); }
      stages.push_back({ballast::to_id<ballast::pipeline_rank>(first_rank + each % ranks)});
      if (each > 0) { ends.pop_back(); }
      ends.push_back(stage);
    }
    first_rank += ranks;
  }
  return stage_graph::make(stages, links).value();
}

TEST(InterleavedOneForwardOneBackward, JoinsUnitsAndNeverDeadlocks)  // Ensures (1) (3)
{
  ballast::random_source random(18);
  int plain = 0;
  for (int trial = 0; trial < ballast_test::trials_of(400); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto units = ballast_test::random_units(random);
    if (random.below(3) == 0) { units.front().backward = false; }
    auto const stages =
        trial % 3 == 0 ? ballast_test::chain_of_units(units) : random_graph_of_units(random);
    std::size_t const microbatches = random.below(trial % 3 == 0 ? 40 : 24);
    auto const schedule = interleaved{}(stages, microbatches);
    ASSERT_TRUE(schedule) << schedule.error().message;
    ASSERT_NO_FATAL_FAILURE(ballast_test::expect_sound(stages, *schedule, microbatches));
    auto const compiled = ballast::compiled_schedule::make(stages, *schedule);
    ASSERT_TRUE(compiled) << compiled.error().message;
    if (stages.ranks() == stages.stages()) {
      ++plain;
      ASSERT_EQ(schedule, ballast::one_forward_one_backward{}(stages, microbatches));
    }
  }
  EXPECT_GT(plain, 0);
}

// What a rank keeps is one visit of a chunk more than its forwards before it alternates.
TEST(InterleavedOneForwardOneBackward, KeepsNoMoreThanItsForwardsAhead)
{
  for (std::size_t ranks = 1; ranks <= 6; ++ranks) {
    for (std::size_t chunks = 2; chunks <= 4; ++chunks) {
      auto const schedule =
          interleaved{}(chain_of_stages(chunks * ranks, ranks), 6 * ranks).value();
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::size_t held = 0;
        std::size_t most = 0;
        for (pipeline_task const& task : schedule.ranks[rank]) {
          held = task.pass == pass::forward ? held + 1 : held - 1;
          most = std::max(most, held);
        }
        EXPECT_EQ(most, 2 * (ranks - rank - 1) + (chunks - 1) * ranks + 1);
      }
    }
  }
}

TEST(InterleavedOneForwardOneBackward, MakesGroupsAsEqualAsCanBe)  // Ensures (2)
{
  // Eleven microbatches on four ranks: six, then five.
  auto const schedule = interleaved{}(chain_of_stages(8, 4), 11).value();
  std::vector<std::uint32_t> forwards;
  for (pipeline_task const& task : schedule.ranks[3]) {
    if (task.pass == pass::forward) { forwards.push_back(task.position); }
  }
  EXPECT_EQ(forwards, (std::vector<std::uint32_t>{0, 1, 2, 3, 4,  5, 0, 1, 2, 3, 4, 5,  //
                                                  6, 7, 8, 9, 10, 6, 7, 8, 9, 10}));
  EXPECT_EQ(schedule.ranks[3][7], (pipeline_task{0, stage_id{7}, pass::backward}));
}

// p - 1 stages of fill and drain, a v-th of what 1F1B loses; the rest of the time no rank is idle.
TEST(InterleavedOneForwardOneBackward, LosesOnlyFillAndDrainWhereAllTasksTakeAsLong)
{
  ballast::workspace memory;
  for (ballast::stage_time const time : {ballast::stage_time{1, 1}, {1, 2}, {3, 2}, {5, 0}}) {
    for (std::size_t ranks = 1; ranks <= 6; ++ranks) {
      for (std::size_t chunks = 1; chunks <= 3; ++chunks) {
        auto const stages = chain_of_stages(chunks * ranks, ranks);
        for (std::size_t microbatches = ranks; microbatches <= 20; ++microbatches) {
          SCOPED_TRACE(testing::Message() << "p " << ranks << " v " << chunks << " l "
                                          << microbatches << " b " << time.backward);
          auto const schedule =
              ballast::compiled_schedule::make(stages, interleaved{}, microbatches).value();
          auto const times = ballast_test::equal_times(microbatches, stages.stages(), time);
          auto const order = ballast_test::numbered_order(microbatches);
          ASSERT_EQ(ballast::makespan_of(schedule, times, order, memory),
                    static_cast<time_units>(microbatches * chunks + ranks - 1) *
                        (time.forward + time.backward));
        }
      }
    }
  }
}

TEST(InterleavedOneForwardOneBackward, LeavesOutBackwardsThatStagesDoNotHave)
{
  std::size_t const ranks = 3;
  for (std::size_t frozen = 0; frozen <= 6; ++frozen) {
    std::vector<pipeline_stage> all(6);
    std::vector<stage_link> links;
    for (std::size_t stage = 0; stage < all.size(); ++stage) {
      all[stage] = {ballast::to_id<ballast::pipeline_rank>(stage % ranks), stage >= frozen};
      if (stage > 0) {
        links.push_back({ballast::to_id<stage_id>(stage - 1), ballast::to_id<stage_id>(stage), 0});
      }
    }
    auto const stages = stage_graph::make(all, links).value();
    for (std::size_t microbatches = 0; microbatches <= 10; ++microbatches) {
      auto const schedule = interleaved{}(stages, microbatches);
      ASSERT_TRUE(schedule) << schedule.error().message;
      ASSERT_NO_FATAL_FAILURE(ballast_test::expect_sound(stages, *schedule, microbatches));
    }
  }
}

void expect_refused(std::vector<std::uint32_t> const& ranks, std::vector<stage_link> const& links,
                    std::size_t position)
{
  std::vector<pipeline_stage> stages;
  for (std::uint32_t const rank : ranks) { stages.push_back({ballast::pipeline_rank{rank}}); }
  ballast_test::expect_refused(interleaved{}(stage_graph::make(stages, links).value(), 4),
                               ballast::error_code::infeasible, position,
                               "stage " + std::to_string(position) + " of " +
                                   std::to_string(stages.size()) + " does not continue a chain");
}

TEST(InterleavedOneForwardOneBackward, RefusesWhatIsNoDealtChain)
{
  auto const link = [](std::uint32_t from, std::uint32_t to) {
    return stage_link{stage_id{from}, stage_id{to}, 0};
  };
  expect_refused({0, 1, 0, 1}, {link(0, 1), link(2, 3)}, 2);
  expect_refused({0, 1, 0, 1}, {link(0, 1), link(1, 2), link(1, 3)}, 3);
  expect_refused({0, 1, 0, 1}, {link(0, 1), link(1, 2), link(2, 3), link(0, 3)}, 3);
  expect_refused({0, 1, 1, 0}, {link(0, 1), link(1, 2), link(2, 3)}, 2);
  expect_refused({1, 0, 1, 0}, {link(0, 1), link(1, 2), link(2, 3)}, 0);
  expect_refused({0, 1, 0}, {link(0, 1), link(1, 2)}, 2);
  expect_refused({0, 1, 2, 1, 3}, {link(0, 1), link(1, 2), link(2, 3), link(3, 4)}, 4);
  expect_refused({0, 1, 0, 1, 2}, {link(0, 1), link(1, 2), link(2, 3), link(1, 4)}, 4);
}

// A rank's tasks in a V: F I W of its first chunk, f i w of its second.
std::string drawn_v(stage_graph const& stages, std::vector<pipeline_task> const& tasks)
{
  std::string text;
  for (pipeline_task const& task : tasks) {
    std::size_t const chunk = ballast::to_index(task.stage) < stages.ranks() ? 0 : 3;
    text += (text.empty() ? "" : " ");
    text += "FIWfiw"[chunk + static_cast<std::size_t>(task.pass)] + std::to_string(task.position);
  }
  return text;
}

struct rank_use {
  std::vector<ballast::time_units> idle;  // between the first task and the last, by rank
  std::size_t kept = 0;                   // most passes of microbatches on a rank at once
  ballast::time_units makespan = 0;
};

// All passes take one unit, and what a forward takes is kept to the weights pass.
rank_use use_of(stage_graph const& stages, ballast::pipeline_schedule const& schedule)
{
  ballast::pipeline_times times(schedule.microbatches, stages.stages(),
                                [](auto, auto) { return ballast::stage_time{1, 1}; });
  times.weights.assign(times.rows.size(), 1);
  auto const compiled = ballast::compiled_schedule::make(stages, schedule).value();
  auto const order = ballast_test::numbered_order(schedule.microbatches);
  auto const timeline = ballast::simulate(compiled, times, order);
  rank_use use{{}, 0, timeline.makespan};
  for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
    auto first = timeline.makespan;
    ballast::time_units last = 0;
    for (std::size_t task = 0; task < compiled.tasks().size(); ++task) {
      if (ballast::to_index(stages[compiled.tasks()[task].stage].rank) != rank) { continue; }
      first = std::min(first, timeline.end[task] - 1);
      last = std::max(last, timeline.end[task]);
    }
    auto const& tasks = schedule.ranks[rank];
    use.idle.push_back(last - first - static_cast<ballast::time_units>(tasks.size()));
    std::size_t kept = 0;
    for (pipeline_task const& task : tasks) {
      kept += task.pass == pass::forward ? 1 : 0;
      use.kept = std::max(use.kept, kept);
      kept -= task.pass == pass::weights ? 1 : 0;
    }
  }
  return use;
}

static_assert(ballast::schedule_policy<zero_bubble>);

TEST(ZeroBubble, IdlesNowhereInBetweenWithTwiceTheMemory)  // Ensures (1) (2) (3)
{
  for (std::size_t ranks = 2; ranks <= (ballast_test::is_sanitized ? 10 : 32); ++ranks) {
    auto const stages = ballast_test::split_chain(ranks, ranks);
    for (std::size_t const count : {ranks, ranks + 1, 2 * ranks - 1, 2 * ranks, 3 * ranks}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " microbatches");
      auto const use = use_of(stages, zero_bubble{true}(stages, count).value());
      EXPECT_EQ(use.makespan, static_cast<ballast::time_units>(3 * count + ranks - 1));
      EXPECT_LE(use.kept, 2 * ranks - 1);
      if (count >= 2 * ranks - 1) { EXPECT_THAT(use.idle, testing::Each(0)); }
    }
  }
}

TEST(ZeroBubbleV, IdlesNowhereInBetweenWithTheMemoryOf1F1B)  // Ensures (1) (2)
{
  for (std::size_t const ranks : {1U, 2U, 3U, 4U, 7U, 16U, 32U}) {
    auto const stages = split_v(ranks);
    for (std::size_t const count : {2 * ranks - 1, 2 * ranks, 3 * ranks, 4 * ranks + 1}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " microbatches");
      auto const use = use_of(stages, zero_bubble_v{}(stages, count).value());
      EXPECT_EQ(use.makespan, static_cast<ballast::time_units>(6 * count + ranks - 1));
      EXPECT_EQ(use.kept, 2 * ranks);
      EXPECT_THAT(use.idle, testing::Each(0));
    }
  }
}

TEST(ZeroBubbleV, IsDrawnByHand)
{
  auto const stages = split_v(2);
  auto const schedule = zero_bubble_v{}(stages, 4).value();
  EXPECT_EQ(drawn_v(stages, schedule.ranks[0]),
            "F0 F1 F2 f0 i0 w0 f1 i1 w1 F3 I0 W0 f2 i2 w2 I1 W1 f3 i3 w3 I2 W2 I3 W3");
  EXPECT_EQ(drawn_v(stages, schedule.ranks[1]),
            "F0 f0 F1 f1 i0 w0 F2 I0 W0 f2 i1 w1 F3 I1 W1 f3 i2 w2 I2 i3 I3 W2 w3 W3");
}

// The picture of DeepSeek's repository, four ranks and ten microbatches. B and b are whole
// backwards, and what is in brackets is done side by side.
constexpr std::array<std::string_view, 4> dual_pipe_v_picture{
    "F0 F1 F2 F3 F4 F5 F6 f0 i0 w0 f1 i1 w1 f2 i2 w2 f3 (F7 b3) (f4 B0) (F8 b4) (f5 B1) (F9 b5) "
    "(f6 B2) b6 (f7 B3) b7 (f8 B4) b8 (f9 B5) b9 I6 W6 I7 W7 I8 W8 I9 W9",
    "F0 F1 F2 F3 F4 f0 F5 f1 i0 w0 f2 i1 w1 f3 (F6 b2) (f4 B0) (F7 b3) (f5 B1) (F8 b4) (f6 B2) "
    "(F9 b5) (f7 B3) b6 (f8 B4) b7 (f9 B5) b8 B6 i9 I7 w9 I8 W7 I9 W8 W9",
    "F0 F1 F2 f0 F3 f1 F4 f2 i0 w0 f3 (F5 b1) (f4 B0) (F6 b2) (f5 B1) (F7 b3) (f6 B2) (F8 b4) "
    "(f7 B3) (F9 b5) (f8 B4) b6 (f9 B5) b7 B6 b8 I7 i9 I8 W7 I9 w9 W8 W9",
    "F0 f0 F1 f1 F2 f2 F3 f3 F4 b0 (f4 B0) (F5 b1) (f5 B1) (F6 b2) (f6 B2) (F7 b3) (f7 B3) (F8 b4) "
    "(f8 B4) (F9 b5) (f9 B5) b6 B6 b7 B7 i8 I8 i9 I9 w8 W8 w9 W9"};

// What a picture says a rank does, pass by pass, as drawn_v() writes it.
std::string passes_of(std::string_view picture)
{
  std::string passes;
  std::istringstream words{std::string(picture)};
  for (std::string word; words >> word;) {
    std::erase_if(word, [](char c) { return c == '(' || c == ')'; });
    bool const whole = word[0] == 'B' || word[0] == 'b';
    std::string const number = word.substr(1);
    passes += passes.empty() ? "" : " ";
    passes += whole ? (word[0] == 'B' ? "I" + number + " W" + number : "i" + number + " w" + number)
                    : word;
  }
  return passes;
}

// How long the picture takes where a forward takes one unit, a whole backward two, and what is done
// side by side starts when both can and sends when both are done.
int length_of(std::span<std::string_view const> picture)
{
  std::size_t const ranks = picture.size();
  std::vector<std::istringstream> words(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) { words[rank].str(std::string(picture[rank])); }
  std::vector<std::string> next(ranks);
  std::vector<int> free(ranks);
  std::map<std::pair<std::size_t, std::string>, int> sent;
  auto const read = [&](std::size_t rank) {
    std::string second;
    next[rank].clear();
    words[rank] >> next[rank];
    if (!next[rank].starts_with('(')) { return; }
    words[rank] >> second;
    next[rank] += second;
  };
  // Before which task of which rank a task waits; none for weights passes and the first forwards.
  auto const before = [&](std::size_t rank, char kind,
                          std::string const& number) -> std::pair<std::size_t, std::string> {
    bool const turns = rank + 1 == ranks;
    if (kind == 'F' && rank > 0) { return {rank - 1, "F" + number}; }
    if (kind == 'f') {
      return turns ? std::pair{rank, "F" + number} : std::pair{rank + 1, "f" + number};
    }
    if (kind == 'i') {
      return rank == 0 ? std::pair{rank, "f" + number} : std::pair{rank - 1, "i" + number};
    }
    if (kind == 'I') {
      return turns ? std::pair{rank, "i" + number} : std::pair{rank + 1, "I" + number};
    }
    return {ranks, ""};
  };
  sent[{ranks, ""}] = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) { read(rank); }
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (next[rank].empty()) { continue; }
      int start = free[rank];
      int takes = 0;
      std::vector<std::string> sends;
      bool ready = true;
      for (std::size_t at = 0; at < next[rank].size(); ++at) {
        char kind = next[rank][at];
        if (std::isalpha(static_cast<unsigned char>(kind)) == 0) { continue; }
        std::string const number(1, next[rank][at + 1]);
        takes += kind == 'B' || kind == 'b' ? 2 : 1;
        kind = kind == 'B' ? 'I' : kind == 'b' ? 'i' : kind;
        auto const need = sent.find(before(rank, kind, number));
        ready = ready && need != sent.end();
        if (ready) { start = std::max(start, need->second); }
        sends.push_back(kind + number);
      }
      if (!ready) { continue; }
      free[rank] = start + takes;
      for (auto const& each : sends) { sent[{rank, each}] = free[rank]; }
      read(rank);
      moved = true;
    }
  }
  return *std::ranges::max_element(free);
}

TEST(DualPipeV, IsTheOneOfItsPicture)
{
  auto const stages = split_v(4);
  auto const schedule = dual_pipe_v{}(stages, 10).value();
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(drawn_v(stages, schedule.ranks[rank]), passes_of(dual_pipe_v_picture[rank]));
  }
  // (p - 1) (F&B + B - 3 W) units beside the work.
  EXPECT_EQ(length_of(dual_pipe_v_picture), 6 * 10 + 3 * (3 + 2 - 3));
}

TEST(DualPipeV, TakesWorkAndTheWayToTheLastRank)  // Ensures (1) (2)
{
  for (std::size_t const ranks : {1U, 2U, 3U, 4U, 7U, 16U, 32U}) {
    auto const stages = split_v(ranks);
    for (std::size_t const count : {2 * ranks, 2 * ranks + 1, 3 * ranks, 4 * ranks + 1}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " microbatches");
      auto const use = use_of(stages, dual_pipe_v{}(stages, count).value());
      EXPECT_EQ(use.makespan, static_cast<ballast::time_units>(6 * count + ranks - 1));
      EXPECT_LE(use.kept, 2 * ranks + 1);
    }
  }
}

TEST(SchedulesInAV, NeverDeadlockAndLeaveOutWhatStagesDoNotHave)  // Ensures (3)
{
  for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
    for (std::size_t count = 0; count <= 3 * ranks; ++count) {
      for (bool const split : {true, false}) {
        auto const stages = split_v(ranks, 0, split);
        for (auto const& schedule :
             {zero_bubble_v{}(stages, count), dual_pipe_v{}(stages, count)}) {
          ASSERT_TRUE(schedule) << schedule.error().message;
          ASSERT_TRUE(ballast::compiled_schedule::make(stages, *schedule));
        }
      }
    }
  }
}

TEST(SchedulesInAV, RefuseOtherStages)
{
  EXPECT_THAT(zero_bubble_v{}(chain_of_stages(4, 2), 4).error().message,
              HasSubstr("stage 2 of 4 does not continue a chain that goes up 2 ranks and down "
                        "again, which schedules in a V are for; put stages r and 3 - r on rank r"));
  EXPECT_EQ(dual_pipe_v{}(chain_of_stages(4, 4), 4).error().position, 0);
  EXPECT_EQ(dual_pipe_v{}(chain_of_stages(6, 2), 4).error().position, 0);
}

TEST(SchedulePolicies, RefuseMoreTasksThanCanBeNumbered)
{
  auto const expect_refused = [](auto const& policy, stage_graph const& stages) {
    auto const refused = policy(stages, (std::size_t{1} << 30) / stages.stages());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
    EXPECT_THAT(refused.error().message, HasSubstr("has 2^31 tasks or more; use fewer"));
  };
  expect_refused(gpipe{}, chain_of_stages(1, 1));
  expect_refused(one_forward_one_backward{}, chain_of_stages(2, 2));
  expect_refused(interleaved{}, chain_of_stages(2, 1));
}

}  // namespace
