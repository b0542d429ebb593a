#include <ballast/pipeline/compiled_schedule.hpp>  // first: proves it is self-contained

#include "../support/random_schedules.hpp"
#include "../support/schedule_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace {

using ballast::chain_of_stages;
using ballast::compiled_schedule;
using ballast::pass;
using ballast::pipeline_rank;
using ballast::pipeline_task;
using ballast_test::key_of;
using ballast_test::task_key;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

static_assert(std::copyable<compiled_schedule> && std::equality_comparable<compiled_schedule>);

TEST(CompiledSchedule, HasEveryTaskOnceAfterWhatItWaitsFor)  // Ensures (1) (2)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, schedule] = ballast_test::random_pipeline(random);
    auto const compiled = compiled_schedule::make(stages, schedule);
    ASSERT_TRUE(compiled) << compiled.error().message;
    EXPECT_EQ(compiled->stages(), stages);
    EXPECT_EQ(compiled->microbatches(), schedule.microbatches);

    std::map<task_key, std::size_t> number;
    for (std::size_t task = 0; task < compiled->tasks().size(); ++task) {
      ASSERT_TRUE(number.emplace(key_of(compiled->tasks()[task]), task).second);
    }
    std::size_t listed = 0;
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      auto const on_rank = compiled->tasks_on(ballast::to_id<pipeline_rank>(rank));
      ASSERT_EQ(on_rank.size(), schedule.ranks[rank].size());
      for (std::size_t at = 0; at < on_rank.size(); ++at, ++listed) {
        ASSERT_EQ(compiled->tasks()[on_rank[at]], schedule.ranks[rank][at]);
        // The task before it on the rank, then its feeders; its own forward needs no wait.
        std::vector<ballast::task_wait> expected;
        if (at > 0) { expected.push_back({on_rank[at - 1], 0}); }
        pipeline_task const& task = schedule.ranks[rank][at];
        bool const forward = task.pass == pass::forward;
        for (auto const& link :
             forward ? stages.links_into(task.stage) : stages.links_out_of(task.stage)) {
          auto const other = number.at({forward ? link.from : link.to, task.pass, task.position});
          expected.push_back({static_cast<std::uint32_t>(other), link.transfer});
        }
        ASSERT_THAT(compiled->waits_for(on_rank[at]), ElementsAreArray(expected));
        for (auto const& wait : expected) { ASSERT_LT(wait.task, on_rank[at]); }
      }
    }
    ASSERT_EQ(listed, compiled->tasks().size());
  }
}

TEST(CompiledSchedule, PutsFirstWhatTheFirstMicrobatchesDecide)  // Ensures (3)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, schedule] = ballast_test::random_pipeline(random);
    auto const compiled = compiled_schedule::make(stages, schedule).value();
    // By definition: everything that a task waits for, over any number of steps.
    std::vector<std::set<std::size_t>> positions(compiled.tasks().size());
    for (std::size_t task = 0; task < positions.size(); ++task) {
      positions[task].insert(compiled.tasks()[task].position);
      for (auto const& wait : compiled.waits_for(task)) {
        positions[task].insert(positions[wait.task].begin(), positions[wait.task].end());
      }
    }
    EXPECT_EQ(compiled.tasks_before(0), 0U);
    for (std::size_t known = 0; known <= compiled.microbatches(); ++known) {
      std::vector<bool> decided;
      for (auto const& of : positions) { decided.push_back(of.empty() || *of.rbegin() < known); }
      auto const count = static_cast<std::size_t>(std::ranges::count(decided, true));
      ASSERT_EQ(compiled.tasks_before(known), count);
      ASSERT_EQ(std::ranges::find(decided, false) - decided.begin(),
                static_cast<std::ptrdiff_t>(count));
    }
    EXPECT_EQ(compiled.tasks_before(compiled.microbatches()), compiled.tasks().size());
  }
}

// 1F1B on three stages: forward 0 and 1 everywhere are decided by the first two, but stage 2 comes
// to forward 2 only after backward 1, and stage 0 to backward 0 only after forward 2.
TEST(CompiledSchedule, CountsTasksOfAPartOfAnOrder)
{
  auto const stages = chain_of_stages(3, 3);
  auto const compiled =
      compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 4).value();
  EXPECT_EQ(compiled.tasks_before(1), 4U);   // F0 F0 F0 B0 on the last stage
  EXPECT_EQ(compiled.tasks_before(2), 9U);   // and F1 F1 F1 B1, B0 on stage 1
  EXPECT_EQ(compiled.tasks_before(3), 15U);  // and F2 F2 F2 B2, B1 on stage 1, B0 on stage 0
  EXPECT_EQ(compiled.tasks_before(4), 24U);
}

TEST(CompiledSchedule, IsEmptyWithoutMicrobatches)
{
  auto const stages = chain_of_stages(2, 2);
  auto const compiled = compiled_schedule::make(stages, ballast::gpipe{}, 0).value();
  EXPECT_THAT(compiled.tasks(), IsEmpty());
  EXPECT_THAT(compiled.tasks_on(pipeline_rank{1}), IsEmpty());
  EXPECT_EQ(compiled.tasks_before(0), 0U);
}

TEST(CompiledSchedule, TakesAScheduleOfOnesOwn)
{
  // [own_schedule]
  using ballast::pass;
  using ballast::stage_id;
  // Two stages, two microbatches; the first stage does one forward more before its backwards.
  ballast::pipeline_schedule const schedule{2,
                                            {{{0, stage_id{0}, pass::forward},
                                              {1, stage_id{0}, pass::forward},
                                              {0, stage_id{0}, pass::backward},
                                              {1, stage_id{0}, pass::backward}},
                                             {{0, stage_id{1}, pass::forward},
                                              {0, stage_id{1}, pass::backward},
                                              {1, stage_id{1}, pass::forward},
                                              {1, stage_id{1}, pass::backward}}}};
  auto const compiled = ballast::compiled_schedule::make(ballast::chain_of_stages(2, 2), schedule);
  // [own_schedule]
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(compiled->tasks().size(), 8U);
  EXPECT_EQ(schedule, ballast::one_forward_one_backward{}(chain_of_stages(2, 2), 2).value());
}

TEST(CompiledSchedule, RefusesADeadlockAndSaysWhy)
{
  // [deadlock]
  using ballast::pass;
  using ballast::stage_id;
  // The first stage wants a gradient before it has sent what the second does first.
  ballast::pipeline_schedule const schedule{2,
                                            {{{0, stage_id{0}, pass::forward},
                                              {0, stage_id{0}, pass::backward},
                                              {1, stage_id{0}, pass::forward},
                                              {1, stage_id{0}, pass::backward}},
                                             {{0, stage_id{1}, pass::forward},
                                              {1, stage_id{1}, pass::forward},
                                              {0, stage_id{1}, pass::backward},
                                              {1, stage_id{1}, pass::backward}}}};
  auto const refused = ballast::compiled_schedule::make(ballast::chain_of_stages(2, 2), schedule);
  // [deadlock]
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::infeasible);
  EXPECT_EQ(refused.error().position, 0U);
  EXPECT_EQ(refused.error().message,
            "the schedule deadlocks: backward 0 on stage 0 waits for backward 0 on stage 1, which "
            "comes after forward 1 on stage 1, which waits for forward 1 on stage 0, which comes "
            "after backward 0 on stage 0; have a rank do earlier what others wait for");
}

TEST(CompiledSchedule, RefusesAScheduleThatLacksATask)
{
  auto const stages = chain_of_stages(2, 2);
  auto schedule = ballast::one_forward_one_backward{}(stages, 3).value();
  schedule.ranks[1].pop_back();
  auto const refused = compiled_schedule::make(stages, schedule);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::infeasible);
  EXPECT_EQ(refused.error().position, 1U);
  EXPECT_THAT(refused.error().message, HasSubstr("never does backward 2 on stage 1"));
}

TEST(CompiledScheduleDeathTest, RefusesWhatItDoesNotHave)
{
  auto const stages = chain_of_stages(1, 1);
  auto const compiled = compiled_schedule::make(stages, ballast::gpipe{}, 1).value();
  EXPECT_DEATH((void)compiled.waits_for(2), "task 2 of a schedule of 2 tasks");
  EXPECT_DEATH((void)compiled.tasks_before(2), "the first 2 microbatches of a schedule of 1");
  EXPECT_DEATH((void)compiled.tasks_on(pipeline_rank{1}), "rank 1 of a schedule of 1 rank");
}

TEST(CompiledSchedule, IsWhatAPolicyWritesOrWhyItWritesNone)
{
  auto const stages = chain_of_stages(3, 3);
  ballast::gpipe const policy;
  EXPECT_EQ(compiled_schedule::make(stages, policy, 4),
            compiled_schedule::make(stages, policy(stages, 4).value()));
  auto const refused = compiled_schedule::make(stages, policy, std::size_t{1} << 30);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("has 2^31 tasks or more"));
}

}  // namespace
