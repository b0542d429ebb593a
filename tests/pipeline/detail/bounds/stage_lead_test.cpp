// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/bounds/stage_lead.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace {

using ballast::stage_id;
using ballast::detail::lead_of;
using ballast_test::chain_schedule;
using ballast_test::gpipe_of;

TEST(LeadOf, IsTheNumberOfStagesBehindIn1F1B)
{
  auto const schedule = chain_schedule(4, 9);
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(lead_of(schedule, stage_id{stage}), 3 - stage);
  }
  auto const short_one = chain_schedule(4, 2);
  EXPECT_EQ(lead_of(short_one, stage_id{0}), 1U);  // two forwards are all there are
  EXPECT_EQ(lead_of(short_one, stage_id{3}), 0U);
}

TEST(LeadOf, IsOneLessThanAllMicrobatchesInGPipe)
{
  EXPECT_EQ(lead_of(gpipe_of(ballast::chain_of_stages(3, 3), 5), stage_id{1}), 4U);
}

TEST(LeadOf, IsNoneForOtherLists)
{
  EXPECT_EQ(lead_of(chain_schedule(2, 4, 2), stage_id{0}), std::nullopt);  // two stages on a rank
  auto const frozen = ballast::stage_graph::make({{ballast::pipeline_rank{0}, false}}, {}).value();
  EXPECT_EQ(lead_of(gpipe_of(frozen, 2), stage_id{0}), std::nullopt);
  using enum ballast::pass;
  auto const one = ballast::chain_of_stages(1, 1);
  stage_id const stage{0};
  auto const lead_in = [&](std::vector<ballast::pipeline_task> const& tasks) {
    return lead_of(ballast::compiled_schedule::make(one, {tasks.size() / 2, {tasks}}).value(),
                   stage);
  };
  EXPECT_EQ(lead_in({{0, stage, forward}, {0, stage, backward}}), 0U);
  EXPECT_EQ(
      lead_in(
          {{0, stage, forward}, {1, stage, forward}, {1, stage, backward}, {0, stage, backward}}),
      std::nullopt);
  EXPECT_EQ(lead_in({{0, stage, forward},
                     {1, stage, forward},
                     {0, stage, backward},
                     {1, stage, backward},
                     {2, stage, forward},
                     {2, stage, backward}}),
            std::nullopt);
}

}  // namespace
