// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/topology/bag_spec.hpp>
#include <ballast/topology/lay_out.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace {

using ballast::tokens;
using ballast::detail::check_cost;
using ballast::detail::named_sample;
using ballast::detail::read_samples;
using ballast::detail::saturated;
using testing::ElementsAre;

static_assert(saturated(std::uint64_t{1} << 63) == ballast::no_cost);
static_assert(saturated(std::uint32_t{5}) == 5 && saturated(-7) == -7);

ballast::result<void> free_of_charge(std::size_t, tokens, tokens)
{
  return {};
}

ballast::bag_layout pairs()
{
  return *ballast::lay_out(*ballast::parse_bags("g2n2"), 4);
}

TEST(ReadSamples, ReadsLengthsOnceWhereNoSampleCanBeShort)  // Ensures (1)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  std::vector<tokens> const samples{4, 0, 9};
  ballast::detail::sample_lengths all;
  ASSERT_TRUE(read_samples(all, samples, 3, pairs(), std::identity{}, scratch, free_of_charge));
  EXPECT_THAT(all.own, ElementsAre(4, 0, 9));
  EXPECT_EQ(all.own.data(), all.fitting.data());
  EXPECT_EQ(all.short_samples, 0U);
}

TEST(ReadSamples, LetsPoliciesSeeShortSamplesAsLongAsASmallestBag)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const bags = pairs().with_short_samples(ballast::short_samples::admitted);
  std::vector<tokens> const samples{1, 0, 9, 1};
  ballast::detail::sample_lengths all;
  ASSERT_TRUE(read_samples(all, samples, 4, bags, std::identity{}, scratch, free_of_charge));
  EXPECT_THAT(all.own, ElementsAre(1, 0, 9, 1));
  EXPECT_THAT(all.fitting, ElementsAre(2, 0, 9, 2));
  EXPECT_EQ(all.short_samples, 2U);
}

TEST(ReadSamples, PricesOnlySamplesWhoseLengthIsGood)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  for (tokens const bad :
       {tokens{-1}, tokens{1}, ballast::longest_sample + 1, std::numeric_limits<tokens>::min()}) {
    std::vector<std::size_t> priced;
    auto const price = [&priced](std::size_t sample, tokens, tokens) -> ballast::result<void> {
      priced.push_back(sample);
      return {};
    };
    std::vector<tokens> const samples{4, bad, 5};
    ballast::detail::sample_lengths all;
    auto const read = read_samples(all, samples, 3, pairs(), std::identity{}, scratch, price);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().position, 1U);
    EXPECT_THAT(read.error().message, testing::StartsWith("sample 1 "));
    EXPECT_THAT(priced, ElementsAre(0U));
  }
}

TEST(ReadSamples, ReturnsTheErrorOfAPrice)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  auto const price = [](std::size_t sample, tokens, tokens length) {
    return check_cost({sample, length}, length - 5, 0);
  };
  ballast::detail::sample_lengths all;
  auto const read =
      read_samples(all, std::vector<tokens>{6, 7, 3}, 3, pairs(), std::identity{}, scratch, price);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "sample 2 of 3 tokens has a negative cost; correct the cost model");
}

TEST(CheckCost, SaysWhichCostOfWhichSample)
{
  EXPECT_TRUE(check_cost({0}, 0, 0));
  EXPECT_TRUE(check_cost({0}, 5, ballast::no_cost - 6));
  auto const said = [](named_sample const& of, ballast::cost_units cost,
                       ballast::cost_units total) {
    auto const checked = check_cost(of, cost, total);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(said({.sample = 4, .dimension = 1}, -1, 0),
            "sample 4 has a negative cost in dimension 1; correct the cost model");
  EXPECT_THAT(said({4, 17}, ballast::no_cost, 0),
              testing::StartsWith("sample 4 of 17 tokens has no cost: "));
  EXPECT_THAT(said({4, 17, 0}, 6, ballast::no_cost - 6),
              testing::StartsWith(
                  "sample 4 of 17 tokens brings the total cost in dimension 0 above 63 bits"));
}

}  // namespace
