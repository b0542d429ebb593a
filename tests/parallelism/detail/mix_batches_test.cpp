// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/detail/mix_batches.hpp>  // first: proves it is self-contained

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using ballast::quadratic_cost;
using ballast::sample_batch;
using ballast::detail::read_mix_batches;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(MixBatches, AreSortedWithTheirSums)
{
  std::vector<sample_batch> const batches = {{{3, 0, 7, 3}}, {{}}, {{2}}};
  auto const read = read_mix_batches(batches, 0, {}, 8, quadratic_cost{.linear = 2});
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->batches.size(), 3U);
  EXPECT_EQ(read->samples, 5U);
  EXPECT_EQ(read->shortest, 2);
  auto const& first = read->batches.front();
  EXPECT_THAT(first.cost_before, ElementsAre(0, 14, 20, 26, 26));
  EXPECT_THAT(first.tokens_before, ElementsAre(0, 7, 10, 13, 13));
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first.length(0), 7);
  EXPECT_EQ(first.cost(2), 6U);
  EXPECT_EQ(first.cost(3), 0U);
  EXPECT_THAT(read->batches[1].cost_before, ElementsAre(0));
  EXPECT_TRUE(read_mix_batches({}, 0, {}, 8, quadratic_cost{})->batches.empty());
}

TEST(MixBatches, SayWhatCannotBeRead)  // Errors
{
  auto const refused = [](std::vector<sample_batch> const& batches, quadratic_cost cost,
                          std::size_t position) {
    auto const read = read_mix_batches(batches, 3, {}, 8, cost);
    if (read) { return std::string("none"); }
    EXPECT_EQ(read.error().code, ballast::error_code::out_of_range);
    EXPECT_EQ(read.error().position, position);
    return read.error().message;
  };
  quadratic_cost const linear{.linear = 1};
  EXPECT_THAT(refused({{{1}}, {{4, -2}}}, linear, 4),
              HasSubstr("sample 1 of batch 4 has -2 tokens"));
  EXPECT_THAT(refused({{{ballast::longest_sample}}}, {.quadratic = std::uint64_t{1} << 40}, 3),
              HasSubstr("tokens has no cost"));
  std::uint64_t const large = std::uint64_t{1} << 58;
  EXPECT_THAT(refused({{{1}}, {{1}}}, {.linear = large}, 4),
              HasSubstr("up to batch 4 add up to 2^59"));
}

}  // namespace
