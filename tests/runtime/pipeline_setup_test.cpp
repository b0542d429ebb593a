// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/pipeline_setup.hpp>

#include "../support/toy_pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/gpipe.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/topology/process_grid.hpp>

#include <span>
#include <string>
#include <utility>

namespace {

using ballast::pipeline_runner;
using ballast::rank_id;
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
  EXPECT_THAT(refused(setup), HasSubstr("row_bytes has 1 entries for 2 links"));
  setup = job.setup;
  setup.row_bytes[1] = 0;
  EXPECT_THAT(refused(setup), HasSubstr("rows of link 1 have 0 bytes"));
  EXPECT_THAT(refused(job.setup, rank_id{3}), HasSubstr("rank 3 of a grid of 3"));
  ballast::unit_sizes const two{1, 2, 1};
  setup = {ballast::process_grid::make(std::span(&two, 1)).value(), job.setup.schedule, {8, 8}};
  EXPECT_THAT(refused(setup), HasSubstr("2 pipeline ranks long, and the schedule is for 3"));
  ballast::unit_sizes const one{1, 1, 2};
  setup = {
      ballast::process_grid::make(std::span(&one, 1)).value(),
      ballast::compiled_schedule::make(ballast::chain_of_stages(2, 1), ballast::gpipe{}, 1).value(),
      {8}};
  EXPECT_EQ(refused(setup), "");
  setup.tensor = ballast::tensor_gradients::float32_parts;
  EXPECT_THAT(refused(setup), HasSubstr("stages 0 and 1 are on one rank"));
  using ballast::pipeline_rank;
  auto const sends =
      ballast::stage_graph::make({{}, {pipeline_rank{1}, false, ballast::model_part::transfer}},
                                 {{ballast::stage_id{0}, ballast::stage_id{1}}});
  setup = {ballast::process_grid::make(std::span(&two, 1)).value(),
           ballast::compiled_schedule::make(sends.value(), ballast::gpipe{}, 1).value(),
           {8}};
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
              HasSubstr("link 0 of the plan has rows of 1 samples of 2"));
  EXPECT_THAT(refused([](auto& plan) { plan.rows[0][1] = -1; }), HasSubstr("a sample of -1 rows"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica.emplace_back(); }),
              HasSubstr("replicas of 2 modules, and the grid has 1"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica[0] = {0}; }),
              HasSubstr("replicas for 1 samples of 2"));
  EXPECT_THAT(refused([](auto& plan) { plan.replica[0] = {0, 1}; }),
              HasSubstr("a sample on replica 1 of 1"));
}

}  // namespace
