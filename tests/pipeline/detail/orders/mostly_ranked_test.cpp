// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/detail/orders/mostly_ranked.hpp>  // first: proves it is self-contained

#include "../../../support/compiled_schedules.hpp"
#include "../../../support/microbatch_families.hpp"
#include "../../../support/pipeline_families.hpp"

#include <gtest/gtest.h>
#include <ballast/pipeline/joined_stages.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>

#include <cstddef>
#include <cstdint>

namespace {

using ballast::pipeline_times;
using ballast::detail::mostly_ranked;
using ballast_test::chain_schedule;
using ballast_test::time_family;

TEST(MostlyRanked, CountsPairsThatOneIsNowhereLongerIn)
{
  auto const schedule = chain_schedule(2, 4);
  pipeline_times times(4, 2);
  times.rows = {{1, 1}, {5, 5},  //
                {2, 2}, {6, 6},  //
                {3, 3}, {7, 7},  //
                {4, 4}, {8, 8}};
  EXPECT_TRUE(mostly_ranked({schedule, times}));
  times.rows[1].backward = 6;  // equal to the next one's is not longer
  EXPECT_TRUE(mostly_ranked({schedule, times}));
  times.rows[1].backward = 7;  // one pair of six
  EXPECT_TRUE(mostly_ranked({schedule, times}));
  times.rows[1].backward = 8;  // two of six
  EXPECT_FALSE(mostly_ranked({schedule, times}));
}

TEST(MostlyRanked, LeavesOutBackwardsOfStagesWithoutBackward)  // Ensures (1)
{
  auto const stages =
      ballast::joined_stages({.encoders = {{.stages = 1, .backward = false}}, .llm = {}}).value();
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 2).value();
  pipeline_times times(2, 2);
  times.rows = {{1, 9},
                {1, 1},  //
                {2, 0},
                {2, 2}};
  EXPECT_TRUE(mostly_ranked({schedule, times}));
  times.rows[0].forward = 3;
  EXPECT_FALSE(mostly_ranked({schedule, times}));
}

TEST(MostlyRanked, IsTrueForEqualMicrobatchesAndFewerThanTwo)  // Ensures (2)
{
  for (std::size_t const microbatches : {0U, 1U, 2U, 5U}) {
    auto const schedule = chain_schedule(3, microbatches);
    EXPECT_TRUE(mostly_ranked({schedule, pipeline_times(microbatches, 3)}));
  }
}

TEST(MostlyRanked, TellsOneLengthFromSeveral)
{
  auto const schedule = chain_schedule(8, 64);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    for (auto const& [family, name] : ballast_test::named_families) {
      bool const one_length = family == time_family::first_stage ||
                              family == time_family::first_quarter ||
                              family == time_family::proportional;
      auto const times = ballast_test::times_of(family, 64, 8, seed);
      EXPECT_EQ(mostly_ranked({schedule, times}), one_length) << name << ", seed " << seed;
    }
    EXPECT_FALSE(mostly_ranked({schedule, ballast_test::near_equal_times(64, 8, seed)}));
  }
}

}  // namespace
