#include <ballast/pipeline/schedule_policies.hpp>  // first: proves it is self-contained

#include "../support/pipelines.hpp"
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
  auto const refused = one_forward_one_backward{}(stages, 4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::infeasible);
  EXPECT_EQ(refused.error().position, 1U);
  EXPECT_THAT(refused.error().message, HasSubstr("pipeline rank 1 has 2 stages"));
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
  auto const refused = interleaved{}(stage_graph::make(stages, links).value(), 4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::infeasible);
  EXPECT_EQ(refused.error().position, position) << refused.error().message;
  EXPECT_THAT(refused.error().message,
              HasSubstr("stage " + std::to_string(position) + " of " +
                        std::to_string(stages.size()) + " does not continue a chain"));
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
