// SPDX-License-Identifier: Apache-2.0
#include <ballast/workload/synthetic_lengths.hpp>

#include "../support/test.hpp"

#include <ballast/core.hpp>

namespace {

using namespace ballast;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

// What a distribution must be, and nothing more.
struct archetype {
  archetype() = delete;
  explicit archetype(tokens first_bound) : bound(first_bound) {}
  tokens operator()(random_source& random) const { return random.between(0, bound); }
  tokens bound;
};

struct changes_itself {
  tokens operator()(random_source&) { return 1; }
};

struct draws_reals {
  double operator()(random_source&) const { return 1; }
};

static_assert(length_distribution<archetype>);
static_assert(!length_distribution<changes_itself>);
static_assert(!length_distribution<draws_reals>);
static_assert(!length_distribution<tokens>);

TEST(DrawLengths, DrawsOneAfterTheOther)
{
  random_source random(5);
  random_source again(5);
  archetype const draw(1000);
  std::vector<tokens> const lengths = draw_lengths(draw, 3, random);
  EXPECT_EQ(lengths, (std::vector<tokens>{again.between(0, 1000), again.between(0, 1000),
                                          again.between(0, 1000)}));
  EXPECT_EQ(random(), again());
  EXPECT_THAT(draw_lengths(draw, 0, random), IsEmpty());
}

namespace fixed = ballast::detail::fixed_point;

static_assert(ballast::length_distribution<constant_lengths>);
static_assert(ballast::length_distribution<uniform_lengths>);
static_assert(ballast::length_distribution<lognormal_lengths>);
static_assert(ballast::length_distribution<bounded_pareto_lengths>);
static_assert(
    ballast::length_distribution<mixed_lengths<lognormal_lengths, ballast::length_histogram>>);
static_assert(ballast::length_distribution<clamped_lengths<uniform_lengths>>);

constexpr std::size_t draws = 100'000;

template <class Distribution>
std::vector<tokens> draw_many(Distribution const& draw, std::uint64_t seed = 20240607)
{
  random_source random(seed);
  return draw_lengths(draw, draws, random);
}

// As many lengths are at most `limit` as the probability says, within five standard deviations of
// the binomial distribution.
void expect_share(std::vector<tokens> const& lengths, tokens limit, double probability)
{
  auto const seen = std::ranges::count_if(lengths, [&](tokens length) { return length <= limit; });
  auto const samples = static_cast<double>(lengths.size());
  EXPECT_NEAR(static_cast<double>(seen), samples * probability,
              5 * std::sqrt(samples * probability * (1 - probability)))
      << "at most " << limit;
}

double mean(std::vector<tokens> const& lengths)
{
  return static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), tokens{0})) /
         static_cast<double>(lengths.size());
}

std::uint64_t to_unsigned(tokens length)
{
  return static_cast<std::uint64_t>(length);
}

TEST(DrawNormal, FollowsThePolarMethod)
{
  random_source random(1);
  for (int trial = 0; trial < 10'000; ++trial) {
    random_source again = random;
    auto const z = ballast::detail::draw_normal(random);
    long double x = 0;
    long double s = 0;
    std::uint64_t bits = 0;
    do {
      bits = again();
      x = static_cast<long double>((bits >> 32) | 1) * 0x1p-32L;
      long double const y = static_cast<long double>((bits & 0xffffffff) | 1) * 0x1p-32L;
      s = x * x + y * y;
    } while (s >= 1);
    long double const exact = x * std::sqrt(-2 * std::log(s) / s);
    // Roots and the quotient lose a unit each; that of s, 2^-32, counts more the smaller s is.
    long double const error = 0x1p-27L + exact * 0x1p-32L / std::sqrt(s);
    EXPECT_LE(std::abs(static_cast<long double>(z.magnitude) * 0x1p-28L - exact), error);
    EXPECT_EQ(z.negative, (bits & 1) != 0);
    EXPECT_EQ(random(), again());
  }
}

TEST(ConstantLengths, NeverVary)
{
  EXPECT_THAT(draw_many(constant_lengths{512}), Each(512));
  EXPECT_THAT(draw_many(constant_lengths{0}), Each(0));
}

TEST(UniformLengths, ReachBothBoundsEquallyOften)
{
  auto const lengths = draw_many(uniform_lengths{11, 20});
  EXPECT_EQ(std::ranges::min(lengths), 11);
  EXPECT_EQ(std::ranges::max(lengths), 20);
  for (tokens limit = 10; limit <= 20; ++limit) {
    expect_share(lengths, limit, static_cast<double>(limit - 10) / 10);
  }
}

TEST(LognormalLengths, FollowTheFormula)  // Ensures (1)
{
  random_source random(20240607);
  for (tokens const median : {tokens{1}, tokens{1000}, tokens{70'000}, longest_sample}) {
    for (double const sigma : {0.0, 0.1, 1.0, 2.5, 16.0}) {
      for (int trial = 0; trial < 1000; ++trial) {
        random_source again = random;
        auto const z = ballast::detail::draw_normal(again);
        long double const exponent =
            (z.negative ? -1.0L : 1.0L) * static_cast<long double>(z.magnitude) * 0x1p-28L * sigma;
        long double const exact = std::clamp(static_cast<long double>(median) * std::exp(exponent),
                                             1.0L, static_cast<long double>(longest_sample));
        auto const length = lognormal_lengths{median, sigma}(random);
        EXPECT_GE(length, 1);
        EXPECT_LE(length, longest_sample);
        EXPECT_LE(std::abs(static_cast<long double>(length) - exact), 1 + exact * 1e-8L);
      }
    }
  }
}

TEST(BoundedParetoLengths, FollowTheFormula)  // Ensures (1)
{
  random_source random(20240607);
  for (auto const& [shortest, longest] : std::initializer_list<std::pair<tokens, tokens>>{
           {1, longest_sample}, {100, 100}, {100, 100'000}, {7, 8}}) {
    for (double const alpha : {1.0 / 1024, 0.5, 1.0, 2.0, 1024.0}) {
      bounded_pareto_lengths const draw{shortest, longest, alpha};
      auto const first = static_cast<long double>(shortest);
      auto const last = static_cast<long double>(longest);
      // The least w decides which random numbers are rejected, so the oracle needs it to the bit.
      auto const log2_ratio = static_cast<long double>(fixed::log2(to_unsigned(longest)) -
                                                       fixed::log2(to_unsigned(shortest)));
      auto const log2_least =
          63 * fixed::log2_one - static_cast<std::int64_t>(std::floor(log2_ratio * alpha));
      std::uint64_t const least = std::max(fixed::exp2(log2_least), std::uint64_t{1});
      long double const share = std::pow(first / last, static_cast<long double>(alpha));
      EXPECT_LE(std::abs(static_cast<long double>(least) - share * 0x1p63L),
                1 + share * 0x1p63L * 1e-10L);

      for (int trial = 0; trial < 1000; ++trial) {
        random_source again = random;
        std::uint64_t const w = least + again.below((std::uint64_t{1} << 63) - least + 1);
        long double const exact =
            first * std::pow(static_cast<long double>(w) * 0x1p-63L, -1.0L / alpha);
        tokens const length = draw(random);
        EXPECT_GE(length, shortest);
        EXPECT_LE(length, longest);
        EXPECT_LE(std::abs(static_cast<long double>(length) - std::min(exact, last)),
                  1 + exact * 1e-8L)
            << shortest << " " << longest << " " << alpha;
      }
    }
  }
}

TEST(BoundedParetoLengths, HaveTheQuantilesAndTheMeanOfTheTheory)
{
  double const first = 100;
  double const last = 50'000;
  double const alpha = 1.3;
  auto const lengths = draw_many(bounded_pareto_lengths{100, 50'000, alpha});
  double const whole = 1 - std::pow(first / last, alpha);
  for (tokens const limit : {100, 110, 150, 200, 500, 2000, 10'000, 40'000}) {
    // Rounding to nearest moves the boundary by a half.
    double const share = std::pow(first / (static_cast<double>(limit) + 0.5), alpha);
    expect_share(lengths, limit, (1 - share) / whole);
  }
  auto const moment = [&](double power) {
    return alpha * std::pow(first, alpha) / whole / (power - alpha) *
           (std::pow(last, power - alpha) - std::pow(first, power - alpha));
  };
  double const deviation = std::sqrt(moment(2) - moment(1) * moment(1));
  EXPECT_NEAR(mean(lengths), moment(1), 5 * deviation / std::sqrt(static_cast<double>(draws)));
}

TEST(MixedLengths, TakeTheirShareOfTheSecond)
{
  auto const lengths = draw_many(mixed_lengths{constant_lengths{1}, constant_lengths{2}, {3, 10}});
  EXPECT_EQ(std::ranges::min(lengths), 1);
  EXPECT_EQ(std::ranges::max(lengths), 2);
  expect_share(lengths, 1, 0.7);
  EXPECT_THAT(draw_many(mixed_lengths{constant_lengths{1}, constant_lengths{2}, {0, 1}}), Each(1));
  EXPECT_THAT(draw_many(mixed_lengths{constant_lengths{1}, constant_lengths{2}, {1, 1}}), Each(2));
}

TEST(ClampedLengths, KeepTheirBounds)
{
  auto const free = draw_many(uniform_lengths{1, 100});
  auto const kept = draw_many(clamped_lengths{uniform_lengths{1, 100}, 30, 60});
  for (std::size_t i = 0; i < draws; ++i) {
    ASSERT_EQ(kept[i], free[i] < 30 ? 30 : free[i] > 60 ? 60 : free[i]);
  }
}

template <class Distribution>
std::uint64_t fingerprint(Distribution const& draw)
{
  random_source random(42);
  return digest{}.add(std::span<tokens const>(draw_lengths(draw, 1000, random))).value();
}

TEST(SyntheticLengths, AreTheSameUnderEveryCompiler)  // Ensures (2)
{
  // [synthetic]
  ballast::lognormal_lengths const captions{.median = 59, .sigma = 0.25};
  ballast::bounded_pareto_lengths const videos{.shortest = 1'300, .longest = 67'000, .alpha = 0.9};
  ballast::mixed_lengths const samples{captions, videos, {1, 10}};  // one video in ten samples

  ballast::random_source random(/*seed=*/42);
  std::vector<ballast::tokens> const lengths = ballast::draw_lengths(samples, 1000, random);
  // [synthetic]
  EXPECT_EQ(digest{}.add(std::span<tokens const>(lengths)).value(), 9521753182985831780U);
  EXPECT_EQ(fingerprint(uniform_lengths{1, 100'000}), 9976148585796441210U);
  EXPECT_EQ(fingerprint(lognormal_lengths{1024, 1.0}), 17793425171023740277U);
  EXPECT_EQ(fingerprint(lognormal_lengths{100'000, 3.3}), 13035849494049049881U);
  EXPECT_EQ(fingerprint(bounded_pareto_lengths{1, longest_sample, 0.7}), 746112915086892627U);
  EXPECT_EQ(fingerprint(bounded_pareto_lengths{100, 100'000, 1.1}), 344624740971657473U);
}

TEST(SyntheticLengthsDeathTest, RejectParametersWithoutADistribution)  // Expects
{
  random_source random(1);
  EXPECT_DEATH((void)constant_lengths{-1}(random), "constant_lengths has a length of -1,");
  EXPECT_DEATH((void)(uniform_lengths{2, 1}(random)), "uniform_lengths has lengths from 2 to 1,");
  EXPECT_DEATH((void)(lognormal_lengths{0, 1.0}(random)), "a median of 0,");
  EXPECT_DEATH((void)(lognormal_lengths{1, -0.5}(random)), "a sigma of -0.5,");
  EXPECT_DEATH((void)(bounded_pareto_lengths{1, 10, 0.0}(random)), "an alpha of 0,");
  EXPECT_DEATH((void)(bounded_pareto_lengths{0, 10, 1.0}(random)),
               "lengths from 0 to 10, which do not rise between 1 and ");
  EXPECT_DEATH((void)(mixed_lengths{constant_lengths{1}, constant_lengths{2}, {2, 1}}(random)),
               "share_of_second of 2 / 1,");
  EXPECT_DEATH((void)(clamped_lengths{constant_lengths{1}, 2, 1}(random)),
               "clamped_lengths has lengths from 2 to 1,");
}

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
  EXPECT_EQ(lengths.quantile({INT64_MAX, INT64_MAX}), 100);

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
