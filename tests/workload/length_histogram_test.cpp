// SPDX-License-Identifier: Apache-2.0
#include <ballast/workload/length_histogram.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/workload/length_distribution.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace {

using ballast::length_bin;
using ballast::length_histogram;
using ballast::longest_sample;
using ballast::random_source;
using ballast::ratio;
using ballast::tokens;
using testing::ElementsAre;

static_assert(ballast::length_distribution<length_histogram>);

std::vector<tokens> random_lengths()
{
  auto const bound = *rc::gen::elementOf(std::vector<tokens>{2, 50, 1000, longest_sample});
  return *rc::gen::nonEmpty(
      rc::gen::container<std::vector<tokens>>(rc::gen::inRange<tokens>(0, bound)));
}

TEST(LengthHistogram, KnowsCountExtremesAndMean)  // Ensures (1)
{
  length_histogram const lengths({7, 0, 100, 7});
  EXPECT_EQ(lengths.samples(), 4U);
  EXPECT_EQ(lengths.min(), 0);
  EXPECT_EQ(lengths.max(), 100);
  EXPECT_EQ(lengths.mean(), (ratio{57, 2}));

  length_histogram const longest(std::vector<tokens>(1000, longest_sample));
  EXPECT_EQ(longest.mean(), (ratio{longest_sample, 1}));
}

RC_GTEST_PROP(LengthHistogram, FindsQuantilesByTheirDefinition, ())  // Ensures (2)
{
  auto const lengths = random_lengths();
  auto const whole = *rc::gen::inRange<std::int64_t>(1, 1000);
  auto const part = *rc::gen::inRange<std::int64_t>(0, whole + 1);
  auto const reaches = [&](tokens limit) {
    auto const samples = std::ranges::count_if(lengths, [&](tokens l) { return l <= limit; });
    return samples * whole >= part * static_cast<std::int64_t>(lengths.size());
  };
  tokens expected = std::ranges::max(lengths);
  for (tokens const length : lengths) {
    if (reaches(length)) { expected = std::min(expected, length); }
  }
  RC_ASSERT(length_histogram(lengths).quantile({part, whole}) == expected);
}

TEST(LengthHistogram, HasTheLowerMedian)  // Ensures (2)
{
  length_histogram const lengths({4, 1, 3, 2});
  EXPECT_EQ(lengths.quantile({0, 1}), 1);
  EXPECT_EQ(lengths.quantile({1, 2}), 2);
  EXPECT_EQ(lengths.quantile({501, 1000}), 3);
  EXPECT_EQ(lengths.quantile({1, 1}), 4);
  EXPECT_EQ(lengths.quantile({INT64_MAX, INT64_MAX}), 4);
}

RC_GTEST_PROP(LengthHistogram, PutsEverySampleInOneBin, ())  // Ensures (3)
{
  auto const lengths = random_lengths();
  auto const most = *rc::gen::inRange<std::size_t>(1, 60);
  auto const bins = length_histogram(lengths).bins(most);
  RC_ASSERT(!bins.empty());
  RC_ASSERT(bins.size() <= most);
  RC_ASSERT(bins.front().shortest == std::ranges::min(lengths));
  RC_ASSERT(bins.back().longest == std::ranges::max(lengths));
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    RC_ASSERT(bins[bin].shortest <= bins[bin].longest);
    if (bin > 0) { RC_ASSERT(bins[bin].shortest == bins[bin - 1].longest + 1); }
    auto const inside = std::ranges::count_if(lengths, [&](tokens length) {
      return bins[bin].shortest <= length && length <= bins[bin].longest;
    });
    RC_ASSERT(static_cast<std::size_t>(inside) == bins[bin].samples);
  }
}

TEST(LengthHistogram, DividesTheLogarithmEqually)  // Ensures (3)
{
  length_histogram const lengths({1000, 1'999'999});
  auto const bins = lengths.bins(24);
  ASSERT_EQ(bins.size(), 24U);
  for (std::size_t bin = 0; bin < 24; ++bin) {
    // One half for rounding, and an error of the oracle that is far below another.
    double const edge = 1000 * std::pow(2000.0, static_cast<double>(bin) / 24);
    EXPECT_NEAR(static_cast<double>(bins[bin].shortest), edge, 0.51);
  }

  EXPECT_THAT(length_histogram({0, 1, 2, 3, 7}).bins(3),
              ElementsAre(length_bin{0, 1, 2}, length_bin{2, 3, 2}, length_bin{4, 7, 1}));
  EXPECT_THAT(length_histogram({5, 5}).bins(100), ElementsAre(length_bin{5, 5, 2}));
  EXPECT_THAT(length_histogram({0}).bins(4), ElementsAre(length_bin{0, 0, 1}));
  EXPECT_THAT(length_histogram({longest_sample}).bins(1),
              ElementsAre(length_bin{longest_sample, longest_sample, 1}));
}

TEST(LengthHistogram, DrawsEverySampleEquallyOften)  // Ensures (4)
{
  length_histogram const lengths({10, 20, 20, 70});
  random_source random(42);
  std::map<tokens, int> drawn;
  for (int i = 0; i < 40'000; ++i) { ++drawn[lengths(random)]; }
  ASSERT_EQ(drawn.size(), 3U);
  // Five standard deviations of the binomial distribution.
  EXPECT_NEAR(drawn[10], 10'000, 5 * std::sqrt(40'000 * 0.25 * 0.75));
  EXPECT_NEAR(drawn[20], 20'000, 5 * std::sqrt(40'000 * 0.5 * 0.5));
  EXPECT_NEAR(drawn[70], 10'000, 5 * std::sqrt(40'000 * 0.25 * 0.75));
}

TEST(LengthHistogramDeathTest, RejectsWhatIsNoLength)  // Expects
{
  EXPECT_DEATH(length_histogram({}), "of no lengths");
  EXPECT_DEATH(length_histogram({1, -1}), "lengths from -1 to 1,");
  EXPECT_DEATH(length_histogram({longest_sample + 1}), "lengths from .* which are not from 0 to ");
  EXPECT_DEATH((void)length_histogram({1}).quantile({3, 2}), "a quantile was asked for at 3 / 2,");
  EXPECT_DEATH((void)length_histogram({1}).bins(0), "of 0 bins, which is not from 1 to 1024");
}

}  // namespace
