#include <ballast/pipeline/one_forward_one_backward.hpp>  // first: proves it is self-contained

#include "../support/random_schedules.hpp"
#include "../support/schedule_checks.hpp"
#include "../support/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/pipeline_times.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using ballast::chain_of_stages;
using ballast::one_forward_one_backward;
using ballast::pass;
using ballast::pipeline_task;
using ballast::stage_graph;
using ballast::stage_id;
using testing::HasSubstr;

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

TEST(OneForwardOneBackward, AlternatesAtOnceOnOneStage)
{
  auto const schedule = one_forward_one_backward{}(chain_of_stages(1, 1), 3).value();
  EXPECT_EQ(drawn(schedule.ranks[0]), "F0 B0 F1 B1 F2 B2");
}

// Two encoders of two stages and of one, an LLM of two, a generator.
TEST(OneForwardOneBackward, CountsTheLongestWayThroughModules)
{
  auto const stages =
      ballast::joined_stages({.encoders = {{2}, {1}}, .llm = {2}, .generators = {{1}}}).value();
  auto const schedule = one_forward_one_backward{}(stages, 5).value();
  EXPECT_EQ(drawn(schedule.ranks[0]), "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4");
  EXPECT_EQ(drawn(schedule.ranks[1]), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  EXPECT_EQ(drawn(schedule.ranks[2]), drawn(schedule.ranks[1]));
  EXPECT_EQ(drawn(schedule.ranks[5]), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
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
    ballast::pipeline_times times(microbatches, count);
    std::ranges::fill(times.rows, ballast::stage_time{1, 1});
    std::vector<ballast::microbatch_id> order;
    for (std::size_t at = 0; at < microbatches; ++at) {
      order.push_back(ballast::to_id<ballast::microbatch_id>(at));
    }
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

TEST(OneForwardOneBackward, RefusesMoreTasksThanCanBeNumbered)
{
  auto const refused = one_forward_one_backward{}(chain_of_stages(2, 2), std::size_t{1} << 29);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
}

}  // namespace
