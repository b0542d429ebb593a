#include <ballast/pipeline/detail/schedule/task_list.hpp>  // first: proves it is self-contained

#include "../../../support/pipeline_tasks.hpp"
#include "../../../support/random_schedules.hpp"
#include "../../../support/schedule_checks.hpp"
#include "../../../support/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using ballast::chain_of_stages;
using ballast::error_code;
using ballast::pass;
using ballast::pipeline_schedule;
using ballast::pipeline_task;
using ballast::stage_graph;
using ballast::stage_id;
using ballast::detail::list_tasks;
using ballast::detail::sort_tasks;
using ballast_test::backward;
using ballast_test::forward;
using testing::EndsWith;
using testing::HasSubstr;

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
  expect_refused({2, {encoder}}, infeasible, 0, "for 1 pipeline rank and the stages are on 2");
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
  auto const list = list_tasks(chain_of_stages(2, 2), {0, {{}, {}}}).value();
  EXPECT_TRUE(list.tasks.empty());
}

// A case whose ranks have some of their tasks exchanged: often one that deadlocks.
ballast_test::random_pipeline_case disturbed_pipeline(ballast::random_source& random)
{
  auto disturbed = ballast_test::random_pipeline(random);
  for (auto& tasks : disturbed.schedule.ranks) {
    if (tasks.empty() || random.below(2) == 0) { continue; }
    for (std::uint64_t left = random.below(4); left > 0; --left) {
      std::swap(tasks[random.below(tasks.size())], tasks[random.below(tasks.size())]);
    }
  }
  return disturbed;
}

TEST(SortTasks, PutsEveryTaskAfterWhatItNeedsOrProvesADeadlock)
{
  ballast::random_source random(20240607);
  int sound = 0;
  int refused = 0;
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const [stages, schedule] = disturbed_pipeline(random);
    auto const list = list_tasks(stages, schedule).value();
    auto const sorted = sort_tasks(stages, list);
    ASSERT_EQ(!sorted, ballast_test::deadlocks(stages, schedule));
    ++(sorted ? sound : refused);
    if (!sorted) { continue; }
    std::vector<std::size_t> turn(list.tasks.size(), list.tasks.size());
    for (std::size_t at = 0; at < sorted->size(); ++at) { turn[(*sorted)[at]] = at; }
    for (std::uint32_t task = 0; task < list.tasks.size(); ++task) {
      ASSERT_LT(turn[task], list.tasks.size());
      for (auto const& need : list.needs_of(task)) { EXPECT_LT(turn[need.task], turn[task]); }
    }
  }
  EXPECT_GT(sound, ballast_test::trials_of(300));
  EXPECT_GT(refused, ballast_test::trials_of(300));
}

// What a message says of two tasks: the first "comes after" or "waits for" the second.
struct claim {
  pipeline_task later;
  pipeline_task earlier;
  bool on_one_rank = false;
};

std::vector<claim> claims_of(std::string_view message)
{
  std::vector<claim> claims;
  std::vector<pipeline_task> tasks;
  std::vector<bool> after;
  for (std::size_t at = 0; at < message.size(); ++at) {
    std::string_view const rest = message.substr(at);
    if (rest.starts_with("comes after ")) { after.push_back(true); }
    if (rest.starts_with("waits for ")) { after.push_back(false); }
    for (pass const direction : {pass::forward, pass::backward}) {
      std::string_view const word = direction == pass::forward ? "forward " : "backward ";
      if (!rest.starts_with(word)) { continue; }
      std::string const numbers(rest.substr(word.size()));
      std::size_t digits = 0;
      auto const position = std::stoul(numbers, &digits);
      std::string_view const on = " on stage ";
      EXPECT_EQ(numbers.substr(digits, on.size()), on);
      auto const stage = std::stoul(numbers.substr(digits + on.size()));
      tasks.push_back(
          {static_cast<std::uint32_t>(position), ballast::to_id<stage_id>(stage), direction});
    }
  }
  EXPECT_EQ(tasks.size(), after.size() + 1) << message;
  if (tasks.size() != after.size() + 1) { return {}; }
  for (std::size_t at = 0; at < after.size(); ++at) {
    claims.push_back({tasks[at], tasks[at + 1], after[at]});
  }
  return claims;
}

bool holds(claim const& claimed, stage_graph const& stages, pipeline_schedule const& schedule)
{
  if (!claimed.on_one_rank) {
    return std::ranges::count(ballast_test::needs_of(stages, claimed.later),
                              ballast_test::key_of(claimed.earlier)) == 1;
  }
  auto const& tasks = schedule.ranks[ballast::to_index(stages[claimed.later.stage].rank)];
  auto const later = std::ranges::find(tasks, claimed.later);
  return std::ranges::find(tasks.begin(), later, claimed.earlier) != later;
}

TEST(SortTasks, NamesTasksThatReallyNeedEachOther)
{
  ballast::random_source random(20240608);
  int refused = 0;
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    auto const [stages, schedule] = disturbed_pipeline(random);
    auto const sorted = sort_tasks(stages, list_tasks(stages, schedule).value());
    if (sorted) { continue; }
    ++refused;
    SCOPED_TRACE(testing::Message() << "trial " << trial << ": " << sorted.error().message);
    EXPECT_EQ(sorted.error().code, ballast::error_code::infeasible);
    auto const claims = claims_of(sorted.error().message);
    ASSERT_GE(claims.size(), 2U);
    EXPECT_EQ(claims.front().later, claims.back().earlier);
    EXPECT_EQ(sorted.error().position, ballast::to_index(stages[claims.front().later.stage].rank));
    for (claim const& each : claims) { EXPECT_TRUE(holds(each, stages, schedule)); }
  }
  EXPECT_GT(refused, ballast_test::trials_of(500));
}

std::string deadlock_of(stage_graph const& stages, pipeline_schedule const& schedule)
{
  auto const sorted = sort_tasks(stages, list_tasks(stages, schedule).value());
  return sorted ? "" : sorted.error().message;
}

TEST(SortTasks, NamesABackwardBeforeItsForward)
{
  pipeline_schedule const schedule{
      1, {{{0, stage_id{0}, pass::backward}, {0, stage_id{0}, pass::forward}}}};
  EXPECT_EQ(deadlock_of(ballast::chain_of_stages(1, 1), schedule),
            "the schedule deadlocks: backward 0 on stage 0 waits for forward 0 on stage 0, which "
            "comes after backward 0 on stage 0; have a rank do earlier what others wait for");
}

// Ring of ranks: each does the lower half of the chain last, which the rank before needs first.
TEST(SortTasks, NamesAtMostSixteenTasks)
{
  constexpr std::uint32_t ranks = 10;
  std::vector<ballast::pipeline_stage> all(2 * ranks);
  std::vector<ballast::stage_link> links;
  pipeline_schedule schedule{1, {}};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::uint32_t const next = (rank + 1) % ranks;
    all[rank] = all[ranks + rank] = {ballast::pipeline_rank{rank}, false};
    links.push_back({stage_id{next}, stage_id{ranks + rank}, 0});
    schedule.ranks.push_back({{0, stage_id{ranks + rank}}, {0, stage_id{rank}}});
  }
  auto const message = deadlock_of(stage_graph::make(all, links).value(), schedule);
  EXPECT_THAT(message,
              HasSubstr("deadlocks: forward 0 on stage 10 waits for forward 0 on stage 1, which "
                        "comes after forward 0 on stage 11, which waits for"));
  EXPECT_THAT(message, HasSubstr("forward 0 on stage 8, which needs 4 more, the last of which "));
  EXPECT_THAT(message, EndsWith("the last of which comes after forward 0 on stage 10; have a rank "
                                "do earlier what others wait for"));
}

}  // namespace
