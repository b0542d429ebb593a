// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/phase_planner.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/orchestrated_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/capped.hpp>
#include <ballast/partition/least_movement.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/runtime/multimodal_samples.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/phase.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace {

using ballast::error_code;
using ballast::gathered_samples;
using ballast::longest_processing_time;
using ballast::orchestrated_step;
using ballast::padded_batches;
using ballast::phase;
using ballast::quadratic_cost;
using ballast::rank_id;
using ballast::sample_id;
using ballast::sample_part;
using ballast::subsequence;
using ballast::tokens;
using ballast::workspace;
using testing::ElementsAre;
using testing::HasSubstr;

gathered_samples<subsequence> gather(ballast_test::read_step const& read)
{
  gathered_samples<subsequence> all;
  for (std::size_t rank = 0; rank < read.size(); ++rank) {
    auto const own = ballast_test::samples_of(read[rank]);
    for (subsequence const each : own.entries()) {
      all.samples.push_back(each);
      all.source.push_back(ballast::to_id<rank_id>(rank));
    }
  }
  return all;
}

constexpr quadratic_cost lines{.linear = 3, .quadratic = 1};

TEST(PhasePlanner, PlansEveryPhaseAsPartitionDoes)  // Ensures (2)
{
  constexpr std::size_t ranks = 6;
  phase const vision{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}, 4};
  phase const audio{ballast::one_gpu_bags(ranks), lines, padded_batches{}, 2};
  phase const llm{ballast_test::mixed_bags(ranks), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{vision, audio}, llm);
  ballast::random_source random(5);
  orchestrated_step step;
  workspace memory;
  for (int trial = 0; trial < 100; ++trial) {
    auto const all = gather(ballast_test::draw_step(random, ranks, 2));
    ASSERT_TRUE(planner(step, memory, all, ranks, rank_id{2}));
    auto const planned = [](auto const& own, auto const& lengths) {
      return ballast::partition(lengths, own.bags, own.policy, own.cost_of).value().digest();
    };
    EXPECT_EQ(step.modalities[0].planned.digest(), planned(vision, step.modalities[0].lengths));
    EXPECT_EQ(step.modalities[1].planned.digest(), planned(audio, step.modalities[1].lengths));
    EXPECT_EQ(step.planned.digest(), planned(llm, step.lengths));
  }
}

TEST(PhasePlanner, SortsByModalityAndLaysOutSequences)
{
  phase const vision{ballast::one_gpu_bags(3), lines, longest_processing_time{}, 4};
  phase const rest{ballast::one_gpu_bags(3), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{vision, rest}, rest);
  auto const all = gather({{{{2, 3}, {0, 9}, {2, 2}}, {}}, {}, {{{0, 0}, {1, 5}, {0, 4}}}});
  orchestrated_step step;
  workspace memory;
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(planner(step, memory, all, 3, rank_id{0}));
    ASSERT_EQ(step.modalities.size(), 3U);
    EXPECT_THAT(step.lengths, ElementsAre(8, 0, 6));
    EXPECT_THAT(step.source, ElementsAre(rank_id{0}, rank_id{0}, rank_id{2}));
    EXPECT_THAT(step.modalities[0].lengths, ElementsAre(9, 0, 4));
    EXPECT_THAT(step.modalities[0].source, ElementsAre(rank_id{0}, rank_id{2}, rank_id{2}));
    EXPECT_THAT(step.modalities[0].parts,
                ElementsAre(sample_part{sample_id{0}, 3, 3}, sample_part{sample_id{2}, 0, 0},
                            sample_part{sample_id{2}, 5, 1}));
    EXPECT_THAT(step.modalities[1].parts, ElementsAre(sample_part{sample_id{2}, 0, 5}));
    EXPECT_THAT(step.modalities[2].lengths, ElementsAre(3, 2));
    EXPECT_THAT(step.modalities[2].parts,
                ElementsAre(sample_part{sample_id{0}, 0, 3}, sample_part{sample_id{0}, 6, 2}));
  }
  ASSERT_TRUE(planner(step, memory, {}, 3, rank_id{0}));
  EXPECT_TRUE(step.lengths.empty());
}

TEST(PhasePlanner, SaysWhichSampleIsImpossible)
{
  phase const each{ballast::one_gpu_bags(4), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{each, each}, each);
  auto const refusal = [&](subsequence last) {
    orchestrated_step step;
    workspace memory;
    auto const all = gather(
        {{{{0, 1}}}, {}, {}, {{{2, ballast::longest_sample}, {last.modality, last.length}}}});
    return planner(step, memory, all, 4, rank_id{0}).error();
  };
  for (auto const& why : {refusal({0, -1}), refusal({0, ballast::longest_sample + 1}),
                          refusal({3, 5}), refusal({1, 1})}) {
    EXPECT_EQ(why.code, error_code::out_of_range);
    EXPECT_EQ(why.position, 1U);
    EXPECT_THAT(why.message, testing::StartsWith("sample 1, which rank 3 has read, has "));
  }
  EXPECT_EQ(refusal({3, 5}).message,
            "sample 1, which rank 3 has read, has a subsequence of modality 3, and there are 2 "
            "encoders; number modalities as the encoders, and text after them");
}

TEST(PhasePlanner, PlansTheSameOnEveryRankAndRoutesThatFit)  // Ensures (1)
{
  constexpr std::size_t ranks = 5;
  phase const vision{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}, 3};
  phase const llm{ballast_test::mixed_bags(ranks), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{vision}, llm);
  ballast::random_source random(6);
  workspace memory;
  for (int trial = 0; trial < 50; ++trial) {
    auto const all = gather(ballast_test::draw_step(random, ranks, 1));
    std::vector<orchestrated_step> steps(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(planner(steps[rank], memory, all, ranks, ballast::to_id<rank_id>(rank)));
      EXPECT_EQ(steps[rank].digest(), steps[0].digest());
      for (std::size_t m = 0; m < 2; ++m) {
        auto const& own = steps[rank].modalities[m];
        EXPECT_EQ(own.as_encoded, steps[0].modalities[m].as_encoded);
        EXPECT_EQ(own.as_needed, steps[0].modalities[m].as_needed);
        for (std::size_t peer = 0; peer < rank; ++peer) {
          auto const& other = steps[peer].modalities[m];
          EXPECT_EQ(own.to_model.sent.rows()[peer], other.to_model.received.rows()[rank]);
          EXPECT_EQ(own.to_model.received.rows()[peer], other.to_model.sent.rows()[rank]);
        }
        EXPECT_EQ(own.to_model.rows_after, steps[rank].as_computed.rows(own.to_model.rank));
      }
    }
  }
}

TEST(PhasePlanner, KeepsToCapsAndHomes)
{
  phase<quadratic_cost, ballast::capped<longest_processing_time>> vision{
      ballast::one_gpu_bags(2), lines, {}};
  vision.most_per_gpu = 10;
  phase<quadratic_cost, ballast::least_movement<>> llm{ballast::one_gpu_bags(2), lines, {}};
  llm.homes = true;
  ballast::phase_planner const planner(std::tuple{vision}, llm);
  orchestrated_step step;
  workspace memory;
  ASSERT_TRUE(planner(step, memory, gather({{{{0, 6}}, {{0, 6}}}, {}}), 2, rank_id{0}));
  EXPECT_EQ(step.modalities[0].planned.samples[ballast::bag_id{0}].size(), 1U);
  EXPECT_EQ(step.planned.moved, (ballast::ratio{6, 12}));
  auto const refused = planner(step, memory, gather({{{{0, 6}, {0, 6}, {0, 6}}}, {}}), 2, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, error_code::infeasible);
  EXPECT_THAT(refused.error().message, testing::StartsWith("phase 0: "));
}

TEST(PhasePlanner, RefusesBagsThatItCannotUse)
{
  auto const one = ballast::one_gpu_bags(2);
  std::vector<ballast::bag> const pair{{rank_id{0}, 2}};
  ballast::bag_layout const two(pair);
  auto const plan = [&](ballast::bag_layout const& of_encoder, ballast::bag_layout const& of_llm,
                        std::uint32_t rate) {
    phase const encoder{of_encoder, lines, longest_processing_time{}, rate};
    phase const llm{of_llm, lines, longest_processing_time{}};
    orchestrated_step step;
    workspace memory;
    return ballast::phase_planner(std::tuple{encoder}, llm)(step, memory, gather({{{{0, 8}}}, {}}),
                                                            2, {});
  };
  EXPECT_TRUE(plan(two, two, 1));
  EXPECT_TRUE(plan(one, two, 2));
  auto const straddles = plan(two, one, 2);
  ASSERT_FALSE(straddles);
  EXPECT_EQ(straddles.error().code, error_code::out_of_range);
  EXPECT_EQ(straddles.error().position, 0U);
  EXPECT_THAT(straddles.error().message, HasSubstr("phase 0 makes one token of 2"));
  auto const other_job = plan(one, ballast::one_gpu_bags(3), 1);
  ASSERT_FALSE(other_job);
  EXPECT_EQ(other_job.error().position, 1U);
  EXPECT_EQ(other_job.error().message,
            "the bags of phase 1 have 3 GPUs and the job has 2 ranks; lay the bags out over one "
            "GPU for each rank");
}

TEST(PhasePlanner, AllocatesNothingForAStepThatItHasSeen)  // Ensures (3)
{
  constexpr std::size_t ranks = 8;
  phase const vision{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}, 4};
  phase const audio{ballast::one_gpu_bags(ranks), lines, padded_batches{}, 2};
  phase const llm{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{vision, audio}, llm);
  ballast::random_source random(7);
  auto const all = gather(ballast_test::draw_step(random, ranks, 2));
  orchestrated_step step;
  workspace memory;
  for (int again = 0; again < 3; ++again) {
    std::size_t const before = ballast_test::allocations();
    ASSERT_TRUE(planner(step, memory, all, ranks, rank_id{0}));
    if (again > 0) { EXPECT_EQ(ballast_test::allocations(), before); }
  }
}

TEST(PhasePlannerDeathTest, RefusesRatesThatMakeNothing)
{
  auto const of_rate = [](std::uint32_t rate) {
    return phase{ballast::one_gpu_bags(1), lines, longest_processing_time{}, rate};
  };
  EXPECT_DEATH(ballast::phase_planner(std::tuple{of_rate(0)}, of_rate(1)), "a rate of 0");
  EXPECT_DEATH(ballast::phase_planner(std::tuple{of_rate(1)}, of_rate(2)),
               "the language model has a rate of 2");
}

}  // namespace
