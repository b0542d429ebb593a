// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/pipeline_setup.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "../support/toy_pipeline.hpp"

#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/topology/process_grid.hpp>

namespace {

using ballast::microbatch_id;
using ballast::pipeline_runner;
using ballast::rank_id;
using ballast::tokens;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

TEST(PipelineSetup, RefusesSetupsThatDoNotFitTogether)  // make: Errors
{
  auto const job = toy::chain_job(3, 3);
  auto const refused = [](ballast::pipeline_setup const& setup, rank_id rank = {}) {
    auto const made = pipeline_runner<>::make(setup, rank);
    return made ? "" : made.error().message;
  };
  auto setup = job.setup;
  setup.row_bytes.pop_back();
  EXPECT_THAT(refused(setup), HasSubstr("row_bytes has 1 entry for 2 links"));
  setup = job.setup;
  setup.row_bytes[1] = 0;
  EXPECT_THAT(refused(setup), HasSubstr("rows of link 1 have 0 bytes"));
  EXPECT_THAT(refused(job.setup, rank_id{3}), HasSubstr("rank 3 of a grid of 3"));
  auto const two = ballast::process_grid::make({{1, 2, 1}}).value();
  setup = {two, job.setup.schedule, {8, 8}};
  EXPECT_THAT(refused(setup), HasSubstr("2 pipeline ranks long, and the schedule is for 3"));
  setup = {
      ballast::process_grid::make({{1, 1, 2}}).value(),
      ballast::compiled_schedule::make(ballast::chain_of_stages(2, 1), ballast::gpipe{}, 1).value(),
      {8}};
  EXPECT_EQ(refused(setup), "");
  setup.tensor = ballast::tensor_gradients::float32_parts;
  EXPECT_THAT(refused(setup), HasSubstr("stages 0 and 1 are on one rank"));
  using ballast::pipeline_rank;
  auto const sends =
      ballast::stage_graph::make({{}, {pipeline_rank{1}, false, ballast::model_part::transfer}},
                                 {{ballast::stage_id{0}, ballast::stage_id{1}}});
  setup = {two, ballast::compiled_schedule::make(sends.value(), ballast::gpipe{}, 1).value(), {8}};
  EXPECT_THAT(refused(setup), HasSubstr("stage 1 of the schedule is a transfer"));
}

TEST(PipelinePlan, RefusesPlansOfOtherGrids)  // plan: Errors
{
  auto const job = toy::chain_job(2, 2);
  auto runner = pipeline_runner<>::make(job.setup, rank_id{0}).value();
  auto const refused = [&](auto change) {
    auto plan = job.plan;
    change(plan);
    auto const done = runner.plan(plan);
    return done ? "" : done.error().message;
  };
  EXPECT_THAT(refused([](auto& plan) { plan.microbatches = 1; }),
              HasSubstr("sample 1 of the plan is in microbatch 1 of 1"));
  EXPECT_THAT(refused([](auto& plan) { plan.rows.pop_back(); }), HasSubstr("rows of 0 links"));
  EXPECT_THAT(refused([](auto& plan) { plan.rows[0].pop_back(); }),
              HasSubstr("link 0 of the plan has rows of 1 sample of 2"));
  EXPECT_THAT(refused([](auto& plan) { plan.rows[0][1] = -1; }), HasSubstr("a sample of -1 rows"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica.emplace_back(); }),
              HasSubstr("replicas of 2 modules, and the grid has 1"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica[0] = {0}; }),
              HasSubstr("replicas for 1 sample of 2"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica[0] = {0, 1}; }),
              HasSubstr("a sample on replica 1 of 1"));
}

// Encoders on 4 replicas, an LLM on 2: two groups, each of one LLM and two encoders.
struct filled_plan {
  ballast::pipeline_setup setup{
      ballast::process_grid::make({{4, 1, 1}, {2, 1, 1}}).value(),
      ballast::compiled_schedule::make(
          ballast::joined_stages({.encoders = {{1}}, .llm = {1}, .generators = {}}).value(),
          ballast::one_forward_one_backward{}, 3)
          .value(),
      {8}};
  ballast::pipeline_plan plan;
};

TEST(PipelinePlan, IsFilledByRules)
{
  filled_plan all;
  auto const rows_of = [](std::size_t sample, std::size_t link) { return 10 * link + sample; };
  std::vector const given{microbatch_id{2}, microbatch_id{0}, microbatch_id{0}, microbatch_id{1},
                          microbatch_id{2}};
  all.plan.fill(all.setup, given, rows_of);
  EXPECT_EQ(all.plan.microbatches, 3U);
  EXPECT_EQ(all.plan.microbatch, given);
  EXPECT_THAT(all.plan.rows, ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
  EXPECT_THAT(all.plan.replica,
              ElementsAre(ElementsAre(0, 1, 2, 3, 0), ElementsAre(0, 1, 0, 1, 0)));
  std::size_t const before = ballast_test::allocations();
  all.plan.fill(all.setup, given, rows_of, [](std::size_t sample, std::size_t module) {
    return module == 0 ? 3 - sample % 4 : 1;
  });
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_THAT(all.plan.replica,
              ElementsAre(ElementsAre(3, 2, 1, 0, 3), ElementsAre(1, 1, 1, 1, 1)));
}

TEST(PipelinePlan, HasTheMicrobatchesOfAScheduledStep)
{
  filled_plan all;
  // The scheduler's pipeline has both encoders of a group, and the LLM behind them.
  auto const stages = ballast::stage_graph::make(
      {{}, {ballast::pipeline_rank{1}}, {ballast::pipeline_rank{2}}},
      {{ballast::stage_id{0}, ballast::stage_id{2}}, {ballast::stage_id{1}, ballast::stage_id{2}}});
  auto const times_of = [](std::span<tokens const, 2> sizes) {
    return std::array{ballast::stage_time{sizes[0], sizes[0]},
                      ballast::stage_time{sizes[1], 2 * sizes[1]}};
  };
  auto schedule =
      ballast::compiled_schedule::make(stages.value(), ballast::one_forward_one_backward{}, 3);
  auto scheduler = ballast::microbatch_scheduler<2, decltype(times_of)>::make(
      {*std::move(schedule), {{4, {1}}, {2, {1}}}}, times_of);
  ballast::random_source random(5);
  std::vector<tokens> sizes(2 * 40);
  for (tokens& each : sizes) { each = 1 + static_cast<tokens>(random.below(100)); }
  ballast::scheduled_step<2> step;
  ballast::or_throw((*scheduler)(step, sizes, 1, 0, {}));
  all.plan.fill(all.setup, step, [](std::size_t, std::size_t) { return 1; });
  for (std::size_t module = 0; module < 2; ++module) {
    for (std::uint32_t replica = 0; replica < step.replicas[module]; ++replica) {
      for (std::size_t position = 0; position < 3; ++position) {
        std::vector<ballast::sample_id> here;
        for (std::size_t sample = 0; sample < 40; ++sample) {
          if (all.plan.replica[module][sample] == replica &&
              all.plan.microbatch[sample] == ballast::to_id<microbatch_id>(position)) {
            here.push_back(ballast::to_id<ballast::sample_id>(sample));
          }
        }
        EXPECT_THAT(step.microbatch(module, replica, position), ElementsAreArray(here));
      }
    }
  }
}

}  // namespace
