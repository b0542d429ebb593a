#include <ballast/pipeline/schedule.hpp>  // first: proves it is self-contained

#include "../support/pipelines.hpp"
#include "../support/plan_checks.hpp"
#include "../support/schedule_checks.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

namespace {

using namespace ballast;
using ballast_test::backward;
using ballast_test::forward;
using ballast_test::key_of;
using ballast_test::task_key;
using testing::ElementsAreArray;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

// The least that a schedule policy is.
struct archetype {
  ballast::result<pipeline_schedule> operator()(stage_graph const&, std::size_t) const
  {
    return pipeline_schedule{};
  }
  friend constexpr bool operator==(archetype const&, archetype const&) = default;
};
static_assert(ballast::schedule_policy<archetype> && archetype{} == archetype{});

struct answers_without_result : archetype {
  pipeline_schedule operator()(stage_graph const&, std::size_t) const { return {}; }
};
static_assert(!ballast::schedule_policy<answers_without_result>);

static_assert(std::regular<pipeline_task> && std::regular<pipeline_schedule>);

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
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::infeasible);
  EXPECT_EQ(refused.error().position, 0U);
  EXPECT_EQ(refused.error().message,
            "the schedule deadlocks: backward 0 on stage 0 waits for backward 0 on stage 1, which "
            "comes after forward 1 on stage 1, which waits for forward 1 on stage 0, which comes "
            "after backward 0 on stage 0; have a rank do earlier what others wait for");
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

void expect_refused(pipeline_schedule const& schedule, error_code code, std::size_t rank,
                    char const* why)
{
  auto const stages =
      ballast::stage_graph::make({{ballast::pipeline_rank{0}, false}, {ballast::pipeline_rank{1}}},
                                 {{stage_id{0}, stage_id{1}, 0}})
          .value();
  ballast_test::expect_refused(compiled_schedule::make(stages, schedule), code, rank, why);
}

TEST(CompiledSchedule, SaysWhatIsWrongOnWhichRank)
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

TEST(CompiledSchedule, RefusesMoreTasksThanCanBeNumberedBeforeItListsThem)
{
  auto const refused = compiled_schedule::make(chain_of_stages(1, 1), {std::size_t{1} << 40, {{}}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("lists 0 tasks for 1099511627776 microbatches"));
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

// Oracle: ranks that do their next task when what it needs is done.
TEST(CompiledSchedule, RefusesWhatDeadlocksAndNamesTasksThatReallyNeedEachOther)
{
  ballast::random_source random(20240608);
  int sound = 0;
  int refused = 0;
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    auto const [stages, schedule] = disturbed_pipeline(random);
    auto const made = compiled_schedule::make(stages, schedule);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ASSERT_EQ(!made, ballast_test::deadlocks(stages, schedule));
    ++(made ? sound : refused);
    if (made) { continue; }
    SCOPED_TRACE(made.error().message);
    EXPECT_EQ(made.error().code, error_code::infeasible);
    auto const claims = claims_of(made.error().message);
    ASSERT_GE(claims.size(), 2U);
    EXPECT_EQ(claims.front().later, claims.back().earlier);
    EXPECT_EQ(made.error().position, ballast::to_index(stages[claims.front().later.stage].rank));
    for (claim const& each : claims) { EXPECT_TRUE(holds(each, stages, schedule)); }
  }
  EXPECT_GT(sound, ballast_test::trials_of(500));
  EXPECT_GT(refused, ballast_test::trials_of(500));
}

std::string deadlock_of(stage_graph const& stages, pipeline_schedule const& schedule)
{
  auto const made = compiled_schedule::make(stages, schedule);
  return made ? "" : made.error().message;
}

TEST(CompiledSchedule, NamesABackwardBeforeItsForward)
{
  pipeline_schedule const schedule{
      1, {{{0, stage_id{0}, pass::backward}, {0, stage_id{0}, pass::forward}}}};
  EXPECT_EQ(deadlock_of(ballast::chain_of_stages(1, 1), schedule),
            "the schedule deadlocks: backward 0 on stage 0 waits for forward 0 on stage 0, which "
            "comes after backward 0 on stage 0; have a rank do earlier what others wait for");
}

// Ring of ranks: each does the lower half of the chain last, which the rank before needs first.
TEST(CompiledSchedule, NamesAtMostSixteenTasks)
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
