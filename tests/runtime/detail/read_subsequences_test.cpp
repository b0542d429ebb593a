// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/detail/read_subsequences.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/runtime/multimodal_samples.hpp>
#include <ballast/runtime/orchestrated_step.hpp>

#include <array>
#include <cstdint>

namespace {

using ballast::gathered_samples;
using ballast::rank_id;
using ballast::sample_id;
using ballast::sample_part;
using ballast::subsequence;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t begins_one = ballast::multimodal_samples::begins_sample;
constexpr std::array<std::uint32_t, 2> rates{4, 1};

TEST(ReadSubsequences, SortsByModalityAndLaysOutSequences)
{
  gathered_samples<subsequence> const all{
      .samples = {{begins_one, 0},
                  {2, 3},
                  {0, 9},
                  {2, 2},
                  {begins_one, 0},
                  {begins_one, 0},
                  {0, 0},
                  {1, 5},
                  {0, 4}},
      .source = {rank_id{0}, rank_id{0}, rank_id{0}, rank_id{0}, rank_id{0}, rank_id{2}, rank_id{2},
                 rank_id{2}, rank_id{2}}};
  ballast::orchestrated_step step;
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(ballast::detail::read_subsequences(step, all, rates));
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
  ASSERT_TRUE(ballast::detail::read_subsequences(step, {}, rates));
  EXPECT_THAT(step.lengths, IsEmpty());
}

TEST(ReadSubsequences, SaysWhichSampleIsImpossible)
{
  auto const refusal = [](subsequence last) {
    gathered_samples<subsequence> const all{
        .samples = {{begins_one, 0}, {0, 1}, {begins_one, 0}, {2, ballast::longest_sample}, last},
        .source = {rank_id{0}, rank_id{0}, rank_id{3}, rank_id{3}, rank_id{3}}};
    ballast::orchestrated_step step;
    return ballast::detail::read_subsequences(step, all, rates).error();
  };
  for (auto const& why : {refusal({0, -1}), refusal({0, ballast::longest_sample + 1}),
                          refusal({3, 5}), refusal({1, 1})}) {
    EXPECT_EQ(why.code, ballast::error_code::out_of_range);
    EXPECT_EQ(why.position, 1U);
    EXPECT_THAT(why.message, testing::StartsWith("sample 1, which rank 3 has read, has "));
  }
  EXPECT_EQ(refusal({3, 5}).message,
            "sample 1, which rank 3 has read, has a subsequence of modality 3, and there are 2 "
            "encoders; number modalities as the encoders, and text after them");
}

}  // namespace
