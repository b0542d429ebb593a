// SPDX-License-Identifier: Apache-2.0
#include "../support/makespan_formulas.hpp"  // first: proves it is self-contained
#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include "../support/pipeline_families.hpp"
#include "../support/trials.hpp"

#include <ballast/pipeline/simulate.hpp>

namespace {

using ballast::stage_time;
using ballast::time_units;
using ballast_test::dflop_makespan;
using ballast_test::disttrain_makespan;
using ballast_test::module_pace;

time_units simulated(std::size_t microbatches, std::vector<stage_time> const& stages,
                     time_units transfer = 0)
{
  ballast::pipeline_times times(microbatches, stages.size());
  for (std::size_t at = 0; at < times.rows.size(); ++at) {
    times.rows[at] = stages[at % stages.size()];
  }
  auto const schedule = ballast_test::chain_schedule(stages.size(), microbatches, 1, transfer);
  return simulate(schedule, times, ballast_test::numbered_order(microbatches)).makespan;
}

std::vector<module_pace> paces(std::vector<stage_time> const& stages)
{
  std::vector<module_pace> modules;
  for (auto const& [forward, backward] : stages) { modules.push_back({1, forward + backward}); }
  return modules;
}

TEST(MakespanFormulas, AreTheSumsThatTheyArePrintedAs)
{
  std::array const modules{module_pace{2, 30}, module_pace{6, 20}};
  EXPECT_EQ(dflop_makespan(modules, 10), (10 + 2 + 6 - 1) * 30);
  EXPECT_EQ(disttrain_makespan(modules, 10), 2 * 30 + 6 * 20 + 9 * 30);
  EXPECT_EQ(dflop_makespan(modules, 0), 0);
  EXPECT_EQ(disttrain_makespan(modules, 0), 0);
  EXPECT_EQ(disttrain_makespan(modules, 1), 180);
}

TEST(MakespanFormulas, ShareMicrobatchesAmongTheReplicasOfAModule)
{
  // The LLM has four replicas. Two of the encoder do two of its microbatches each, and eight of the
  // generator half of one.
  std::array const modules{module_pace{1, 10, 2}, module_pace{4, 25, 4}, module_pace{1, 41, 8}};
  EXPECT_EQ(disttrain_makespan(modules, 5, 4), 20 + 4 * 25 + 21 + 4 * 25);
}

TEST(MakespanFormulas, AreExactWhereStagesAndMicrobatchesAreAlike)  // Ensures (1)
{
  for (std::size_t const stages : {1U, 2U, 5U, 8U}) {
    for (std::size_t const microbatches : {1U, 2U, 7U, 24U}) {
      std::array const modules{module_pace{stages, 30}};
      time_units const makespan =
          simulated(microbatches, std::vector<stage_time>(stages, {10, 20}));
      EXPECT_EQ(dflop_makespan(modules, microbatches), makespan);
      EXPECT_EQ(disttrain_makespan(modules, microbatches), makespan);
    }
  }
}

// Both terms of DistTrain's sum are bounds, so it is below twice the makespan; that it is not below
// the makespan is no theorem, but with backwards twice as long as forwards no case of the other is
// known.
TEST(MakespanFormulas, BoundThe1F1BOfMicrobatchesThatAreAlike)  // dflop_makespan Ensures (2)
{
  ballast::random_source random(13);
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const microbatches = 1 + random.below(24);
    std::vector<stage_time> stages(1 + random.below(8));
    for (auto& [forward, backward] : stages) {
      forward = random.between(0, 100);
      backward = 2 * forward;
    }
    time_units const makespan = simulated(microbatches, stages);
    time_units const steady = disttrain_makespan(paces(stages), microbatches).value();
    ASSERT_LE(makespan, steady);
    ASSERT_LE(steady, 2 * makespan);
    ASSERT_LE(steady, dflop_makespan(paces(stages), microbatches).value());
  }
}

TEST(MakespanFormulas, KnowNothingOfTransfersAndOrders)
{
  std::vector<stage_time> const stages(4, {10, 20});
  EXPECT_EQ(dflop_makespan(paces(stages), 16), 570);
  EXPECT_EQ(simulated(16, stages, 5), 710);

  auto const times = ballast_test::times_of(ballast_test::time_family::proportional, 64, 8, 1);
  ballast::workspace memory;
  time_units const given = makespan_of(ballast_test::chain_schedule(8, 64), times,
                                       ballast_test::numbered_order(64), memory);
  time_units work = 0;
  for (auto const& [forward, backward] : times.rows) { work += forward + backward; }
  std::array const mean{module_pace{8, work / (64 * 8)}};
  EXPECT_GT(given, dflop_makespan(mean, 64).value() * 5 / 4);  // more than a quarter too short
}

TEST(MakespanFormulas, RefuseWhatHasNoMakespan)
{
  auto const refused = [](std::vector<module_pace> const& modules, std::size_t microbatches,
                          std::size_t data_parallel) {
    auto const estimate = disttrain_makespan(modules, microbatches, data_parallel);
    EXPECT_FALSE(estimate);
    return estimate ? std::size_t{99} : estimate.error().position;
  };
  EXPECT_EQ(refused({}, 4, 1), 0U);
  EXPECT_EQ(refused({{1, 5}, {0, 5}}, 4, 1), 1U);
  EXPECT_EQ(refused({{1, 5}, {1, 5}, {1, -1}}, 4, 1), 2U);
  EXPECT_EQ(refused({{1, 5, 0}}, 4, 1), 0U);
  EXPECT_EQ(refused({{1, 5}}, 4, 0), 0U);
  constexpr auto most = std::numeric_limits<time_units>::max();
  EXPECT_EQ(refused({{1, most}}, 2, 1), 0U);
  EXPECT_EQ(refused({{2, most}}, 1, 1), 0U);
  EXPECT_EQ(refused({{std::size_t{1} << 32, most, 1}}, std::size_t{1} << 32, std::size_t{1} << 32),
            0U);
  EXPECT_EQ(disttrain_makespan(std::array{module_pace{1, most}}, 1), most);
  auto const error = dflop_makespan(std::array{module_pace{1, most}}, 2).error();
  EXPECT_EQ(error.code, ballast::error_code::out_of_range);
  EXPECT_NE(error.message.find("coarser unit"), std::string::npos);
}

}  // namespace
