#include <ballast/pipeline/detail/schedule/task_list.hpp>  // first: proves it is self-contained

#include "../../../support/random_schedules.hpp"
#include "../../../support/schedule_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

using ballast::chain_of_stages;
using ballast::error_code;
using ballast::pass;
using ballast::pipeline_schedule;
using ballast::pipeline_task;
using ballast::stage_id;
using ballast::detail::list_tasks;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

pipeline_task forward(std::uint32_t position, std::uint32_t stage)
{
  return {position, stage_id{stage}, pass::forward};
}
pipeline_task backward(std::uint32_t position, std::uint32_t stage)
{
  return {position, stage_id{stage}, pass::backward};
}

TEST(TaskList, FindsEveryTaskWhereItIsListed)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 300; ++trial) {
    auto const [stages, schedule] = ballast_test::random_pipeline(random);
    auto const list = list_tasks(stages, schedule);
    ASSERT_TRUE(list) << list.error().message;
    std::size_t at = 0;
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      ASSERT_EQ(list->first_of_rank[rank], at);
      for (pipeline_task const& task : schedule.ranks[rank]) {
        ASSERT_EQ(list->tasks[at], task);
        ASSERT_EQ(list->find(task), at++);
      }
    }
    ASSERT_EQ(list->first_of_rank.back(), at);
    ASSERT_EQ(list->tasks.size(), at);
  }
}

TEST(TaskList, KnowsWhatTasksNeed)
{
  ballast::random_source random(3);
  for (int trial = 0; trial < 300; ++trial) {
    auto const [stages, schedule] = ballast_test::random_pipeline(random);
    auto const list = list_tasks(stages, schedule).value();
    for (std::uint32_t task = 0; task < list.tasks.size(); ++task) {
      auto expected = ballast_test::needs_of(stages, list.tasks[task]);
      bool const first = std::ranges::find(list.first_of_rank, task) != list.first_of_rank.end();
      if (!first) { expected.push_back(ballast_test::key_of(list.tasks[task - 1])); }
      std::vector<ballast_test::task_key> found;
      ballast::detail::for_each_need(stages, list, task, [&](std::uint32_t other) {
        found.push_back(ballast_test::key_of(list.tasks[other]));
      });
      ASSERT_THAT(found, UnorderedElementsAreArray(expected));
    }
  }
}

TEST(TaskList, WaitsForTheTaskBeforeFirstThenForTransfers)
{
  auto const stages = chain_of_stages(3, 3, 7);
  auto const list = list_tasks(stages, ballast::gpipe{}(stages, 2).value()).value();
  std::vector<std::pair<std::string, ballast::time_units>> found;
  for (pipeline_task const& task : {forward(0, 0), forward(1, 1), backward(0, 1)}) {
    ballast::detail::for_each_wait(
        stages, list, list.find(task), [&](std::uint32_t other, ballast::time_units transfer) {
          found.emplace_back(ballast::detail::text_of(list.tasks[other]), transfer);
        });
  }
  EXPECT_THAT(found, ElementsAre(std::pair(std::string("forward 0 on stage 1"), 0),
                                 std::pair(std::string("forward 1 on stage 0"), 7),
                                 std::pair(std::string("forward 1 on stage 1"), 0),
                                 std::pair(std::string("backward 0 on stage 2"), 7)));
}

void expect_refused(pipeline_schedule const& schedule, error_code code, std::size_t rank,
                    char const* why)
{
  auto const stages =
      ballast::stage_graph::make({{ballast::pipeline_rank{0}, false}, {ballast::pipeline_rank{1}}},
                                 {{stage_id{0}, stage_id{1}, 0}})
          .value();
  auto const list = list_tasks(stages, schedule);
  ASSERT_FALSE(list) << why;
  EXPECT_EQ(list.error().code, code) << list.error().message;
  EXPECT_EQ(list.error().position, rank) << list.error().message;
  EXPECT_THAT(list.error().message, HasSubstr(why));
}

TEST(TaskList, SaysWhatIsWrongOnWhichRank)
{
  constexpr auto infeasible = error_code::infeasible;
  constexpr auto out_of_range = error_code::out_of_range;
  std::vector<pipeline_task> const encoder{forward(0, 0), forward(1, 0)};
  std::vector<pipeline_task> const llm{forward(0, 1), backward(0, 1), forward(1, 1),
                                       backward(1, 1)};
  auto const with = [](std::vector<pipeline_task> tasks, pipeline_task const& more) {
    tasks.push_back(more);
    return tasks;
  };
  expect_refused({2, {encoder}}, infeasible, 0, "for 1 pipeline ranks and the stages are on 2");
  expect_refused({2, {encoder, llm, {}}}, infeasible, 0, "for 3 pipeline ranks");
  expect_refused({7, {encoder, llm}}, infeasible, 0, "lists 6 tasks for 7 microbatches");
  expect_refused({2, {encoder, with(llm, forward(2, 1))}}, out_of_range, 1,
                 "pipeline rank 1 does forward 2 on stage 1, which does not exist");
  expect_refused({2, {encoder, with(llm, forward(0, 2))}}, out_of_range, 1,
                 "forward 0 on stage 2, which does not exist");
  expect_refused({2, {with(encoder, forward(0, 1)), llm}}, infeasible, 0,
                 "pipeline rank 0 does forward 0 on stage 1, which is on another rank");
  expect_refused({2, {with(encoder, backward(0, 0)), llm}}, infeasible, 0,
                 "backward 0 on stage 0, which has no backward");
  expect_refused({2, {encoder, with(llm, backward(1, 1))}}, infeasible, 1,
                 "does backward 1 on stage 1 twice");
  expect_refused({2, {{encoder[0]}, llm}}, infeasible, 0,
                 "pipeline rank 0 never does forward 1 on stage 0");
  expect_refused({2, {encoder, {llm[0], llm[1], llm[2]}}}, infeasible, 1,
                 "pipeline rank 1 never does backward 1 on stage 1");
}

TEST(TaskList, RefusesMoreTasksThanCanBeNumberedBeforeItListsThem)
{
  auto const list = list_tasks(chain_of_stages(1, 1), {std::size_t{1} << 40, {{}}});
  ASSERT_FALSE(list);
  EXPECT_THAT(list.error().message, HasSubstr("lists 0 tasks for 1099511627776 microbatches"));
}

TEST(TaskList, MayBeEmpty)
{
  auto const list = list_tasks(chain_of_stages(2, 2), {0, {{}, {}}});
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_TRUE(list->tasks.empty());
}

}  // namespace
