// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/layout_problem.hpp>  // first: proves it is self-contained

#include "../support/pipeline_families.hpp"
#include "../support/pipelines.hpp"
#include "../support/plan_checks.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/parallelism/model_layout.hpp>

namespace {

using namespace ballast;
using testing::HasSubstr;

TEST(LayoutProblem, IsRefusedWhereItHasNoMeaning)
{
  std::array<ballast::module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "llm", .layers = 4, .flops = {.linear = 10}, .degrees = {{.tp = 1}}};
  }
  std::array<ballast::tokens, 4> sizes{1, 200, 0, 300};
  layout_problem sound{.modules = modules, .sizes = sizes};
  EXPECT_TRUE(ballast::check_layout_problem(sound));
  EXPECT_EQ(sound.samples(), 2U);
  EXPECT_EQ(layout_problem{}.samples(), 0U);

  auto const said = [](layout_problem const& problem) {
    auto const checked = ballast::check_layout_problem(problem);
    EXPECT_FALSE(checked);
    return checked ? std::pair<std::size_t, std::string>()
                   : std::pair(checked.error().position, checked.error().message);
  };
  EXPECT_EQ(sound.fed_by(0), 1U);
  std::array<std::size_t, 2> const two_fed{1, 1};
  std::array<std::size_t, 1> const itself{0};
  std::array<std::size_t, 1> const none{2};
  layout_problem fed = sound;
  fed.feeds = two_fed;
  EXPECT_THAT(said(fed).second,
              HasSubstr("for 2 modules it is said which they feed; say it for 1"));
  fed.feeds = itself;
  EXPECT_THAT(said(fed).second, HasSubstr("module llm feeds module 0, counted from 0; give a later "
                                          "one, up to 1"));
  fed.feeds = none;
  EXPECT_EQ(said(fed).first, 0U);
  layout_problem problem = sound;
  problem.modules = {};
  EXPECT_THAT(said(problem).second, HasSubstr("no module"));
  modules[1].layers = 0;
  EXPECT_EQ(said(sound).first, 1U);
  EXPECT_THAT(said(sound).second, HasSubstr("module llm has no layers"));
  modules[1].layers = 4;
  problem = sound;
  problem.sizes = std::span(sizes).first(3);
  EXPECT_THAT(said(problem).second, HasSubstr("sizes has 3 entries for 2 modules"));
  problem.sizes = {};
  EXPECT_THAT(said(problem).second, HasSubstr("sizes has 0 entries for 2 modules"));
  sizes[3] = -1;
  EXPECT_EQ(said(sound).first, 3U);
  EXPECT_THAT(said(sound).second, HasSubstr("sample 1 has size -1 in module llm"));
  sizes[3] = 300;
  for (std::uint32_t const batch : {0U, layout_problem::most_global_batch + 1}) {
    problem = sound;
    problem.global_batch = batch;
    EXPECT_THAT(said(problem).second, HasSubstr("global batch of " + std::to_string(batch)));
  }
  problem = sound;
  problem.kinds[0].gpus = 0;
  EXPECT_THAT(said(problem).second, HasSubstr("a job of 0 GPUs on nodes of 8"));
  problem = sound;
  problem.kinds[0].gpus_per_node = 0;
  EXPECT_THAT(said(problem).second, HasSubstr("nodes of 0"));
  for (ballast::ratio const share : {ballast::ratio{0, 1}, {-1, 2}, {3, 2}, {1, 0}}) {
    problem = sound;
    problem.memory_quantile = share;
    EXPECT_THAT(said(problem).second, HasSubstr("give a share above 0, at most 1"));
  }
}

TEST(LayoutProblem, IsRefusedWhereKindsOrRolesHaveNoMeaning)
{
  std::array<module_profile, 2> modules{};
  for (auto& module : modules) {
    module = {.name = "llm", .layers = 4, .flops = {.linear = 10}, .degrees = {{.tp = 1}}};
  }
  std::array<tokens, 2> const sizes{1, 200};
  std::vector<module_role> roles(2);
  layout_problem const sound{.modules = modules, .sizes = sizes, .roles = roles};
  EXPECT_TRUE(check_layout_problem(sound));
  auto const expect_unsound = [&](auto const& spoil, std::size_t position, std::string const& why) {
    auto problem = sound;
    roles.assign(2, {});
    spoil(problem);
    ballast_test::expect_refused(check_layout_problem(problem), error_code::out_of_range, position,
                                 why);
  };
  expect_unsound([](auto& p) { p.kinds.clear(); }, 0, "there is no kind of GPUs to use");
  expect_unsound([](auto& p) { p.kinds.push_back({.gpus = 0}); }, 1,
                 "a job of 0 GPUs on nodes of 8 computes nothing");
  expect_unsound([](auto& p) { p.kinds[0].speed = {0, 1}; }, 0, "has a speed of 0 / 1");
  expect_unsound([](auto& p) { p.kinds[0].speed = {1, (1 << 20) + 1}; }, 0, "from 1 to 1048576");
  expect_unsound([](auto& p) { p.kinds.resize(65, p.kinds[0]); }, 0,
                 "can be assigned to modules in more than 4096 ways");
  expect_unsound([](auto& p) { p.roles = p.roles.first(1); }, 0,
                 "roles are given of 1 module of 2");
  expect_unsound([&](auto&) { roles[1].virtual_stages = 5; }, 1,
                 "has stages of 5 virtual ones; give 1 to 4, its number of layers");
  expect_unsound([&](auto&) { roles[1].kinds = {0, 1}; }, 1,
                 "may get GPUs of kind 1, and the last one is 0");
  expect_unsound([&](auto&) { roles[0].kinds = {0, 0}; }, 0,
                 "may get GPUs of kind 0 after 0; give each kind once");
  expect_unsound([&](auto& p) { p.state = {0, 0, 0}; }, 0, "no byte of weight");
  modules[0].cuts = {
      {{4, 4}}, {{2, 2}, {2, 2}}, {{1, 1}, {1, 1}, {2, 2}}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}};
  expect_unsound([&](auto&) { roles[0].virtual_stages = 2; }, 0, "which have equal layers");
}

TEST(DistTrainMakespan, FillsEveryUnitAndGoesAtTheSlowestOnesPace)  // Ensures (1)
{
  std::array<unit_time, 3> const units{{{5, 5}, {7, 28}, {6, 12}}};
  EXPECT_EQ(disttrain_makespan(units, 1), 45);
  EXPECT_EQ(disttrain_makespan(units, 11), 115);
  EXPECT_EQ(disttrain_makespan({}, 3), 0);
}

TEST(DistTrainMakespan, SaysWhereItDoesNotFit)
{
  std::array<unit_time, 1> const most{{{ballast::no_cost / 2, ballast::no_cost / 2}}};
  EXPECT_EQ(disttrain_makespan(most, 2), ballast::no_cost - 1);
  EXPECT_EQ(disttrain_makespan(most, 3), ballast::no_cost);
}

// ---- Formulas and the simulator ----

/// DFLOP's: as if each stage took as long as the slowest one.
time_units dflop_makespan(std::size_t microbatches, std::size_t stages, time_units slowest)
{
  auto const once = static_cast<time_units>(stages) * slowest;
  return disttrain_makespan(std::array{unit_time{slowest, once}}, microbatches);
}

time_units simulated(std::size_t microbatches, std::vector<stage_time> const& stages,
                     time_units transfer = 0)
{
  ballast::pipeline_times const times(
      microbatches, stages.size(), [&](std::size_t, std::size_t stage) { return stages[stage]; });
  auto const schedule = ballast_test::chain_schedule(stages.size(), microbatches, 1, transfer);
  return simulate(schedule, times, ballast_test::numbered_order(microbatches)).makespan;
}

std::vector<unit_time> units_of(std::vector<stage_time> const& stages)
{
  std::vector<unit_time> units;
  for (auto const& [forward, backward] : stages) {
    units.push_back({forward + backward, forward + backward});
  }
  return units;
}

TEST(MakespanFormulas, AreExactWhereStagesAndMicrobatchesAreAlike)
{
  for (std::size_t const stages : {1U, 2U, 5U, 8U}) {
    for (std::size_t const microbatches : {1U, 2U, 7U, 24U}) {
      std::vector<stage_time> const alike(stages, {10, 20});
      time_units const makespan = simulated(microbatches, alike);
      EXPECT_EQ(dflop_makespan(microbatches, stages, 30), makespan);
      EXPECT_EQ(disttrain_makespan(units_of(alike), microbatches), makespan);
    }
  }
}

// Both terms of DistTrain's sum are bounds, so it is below twice the makespan; that it is not below
// the makespan is no theorem, but with backwards twice as long as forwards no case of the other is
// known.
TEST(MakespanFormulas, BoundThe1F1BOfMicrobatchesThatAreAlike)
{
  ballast::random_source random(13);
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const microbatches = 1 + random.below(24);
    std::vector<stage_time> stages(1 + random.below(8));
    time_units slowest = 0;
    for (auto& [forward, backward] : stages) {
      forward = random.between(0, 100);
      backward = 2 * forward;
      slowest = std::max(slowest, 3 * forward);
    }
    time_units const makespan = simulated(microbatches, stages);
    time_units const steady = disttrain_makespan(units_of(stages), microbatches);
    ASSERT_LE(makespan, steady);
    ASSERT_LE(steady, 2 * makespan);
    ASSERT_LE(steady, dflop_makespan(microbatches, stages.size(), slowest));
  }
}

TEST(MakespanFormulas, KnowNothingOfTransfersAndOrders)
{
  EXPECT_EQ(dflop_makespan(16, 4, 30), 570);
  EXPECT_EQ(simulated(16, std::vector<stage_time>(4, {10, 20}), 5), 710);

  auto const times = ballast_test::times_of(ballast_test::time_family::proportional, 64, 8, 1);
  ballast::workspace memory;
  time_units const given = makespan_of(ballast_test::chain_schedule(8, 64), times,
                                       ballast_test::numbered_order(64), memory);
  time_units work = 0;
  for (auto const& [forward, backward] : times.rows) { work += forward + backward; }
  EXPECT_GT(given, dflop_makespan(64, 8, work / (64 * 8)) * 5 / 4);  // of the mean stage
}

}  // namespace
