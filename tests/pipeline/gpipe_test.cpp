#include <ballast/pipeline/gpipe.hpp>  // first: proves it is self-contained

#include "../support/pipeline_tasks.hpp"
#include "../support/random_schedules.hpp"
#include "../support/schedule_checks.hpp"
#include "../support/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace {

using ballast::chain_of_stages;
using ballast::gpipe;
using ballast::pass;
using ballast::pipeline_task;
using ballast::stage_id;
using ballast_test::backward;
using ballast_test::forward;
using testing::ElementsAre;

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

TEST(Gpipe, LeavesOutBackwardsThatStagesDoNotHave)
{
  auto const stages =
      ballast::joined_stages({.encoders = {{.stages = 1, .backward = false}}, .llm = {}}).value();
  auto const schedule = gpipe{}(stages, 2).value();
  EXPECT_THAT(schedule.ranks[0], ElementsAre(forward(0, 0), forward(1, 0)));
  EXPECT_EQ(schedule.ranks[1].size(), 4U);
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

TEST(Gpipe, KeepsAllMicrobatchesInMemory)
{
  auto const schedule = gpipe{}(chain_of_stages(3, 3), 8).value();
  for (std::uint32_t stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(ballast_test::most_in_memory(schedule.ranks[stage], stage_id{stage}), 8U);
  }
}

TEST(Gpipe, RefusesMoreTasksThanCanBeNumbered)
{
  auto const refused = gpipe{}(chain_of_stages(1, 1), std::size_t{1} << 30);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
}

}  // namespace
