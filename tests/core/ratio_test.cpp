// SPDX-License-Identifier: Apache-2.0
#include <boost/multiprecision/cpp_int.hpp>

#include "../support/test.hpp"

namespace {

using ballast::certified;
using ballast::ratio;
using rational = boost::multiprecision::cpp_rational;

constexpr auto greatest_term = std::numeric_limits<std::int64_t>::max();

static_assert(std::is_trivially_copyable_v<ratio>);
static_assert(ratio{1, 3} < ratio{1, 2} && ratio{1, 2} == ratio{2, 4});

rational exactly(ratio of)
{
  return rational(of.numerator, of.denominator);
}

bool compares_as_rationals_do(ratio a, ratio b)  // Ensures (1)
{
  rational const x = exactly(a);
  rational const y = exactly(b);
  return (a < b) == (x < y) && (a == b) == (x == y) && (a > b) == (x > y) && (a <= b) == (x <= y) &&
         (a >= b) == (x >= y) && (a != b) == (x != y);
}

// Half of the denominators and of the differences are small, where ties and near misses live.
rc::Gen<ratio> any_ratio()
{
  auto const numerator =
      rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 10),
                     rc::gen::inRange<std::int64_t>(greatest_term - 10, greatest_term),
                     rc::gen::inRange<std::int64_t>(0, greatest_term));
  auto const denominator =
      rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 10),
                     rc::gen::inRange<std::int64_t>(greatest_term - 10, greatest_term),
                     rc::gen::inRange<std::int64_t>(1, greatest_term));
  return rc::gen::construct<ratio>(numerator, denominator);
}

RC_GTEST_PROP(Ratio, ComparesAsRationalsDo, ())
{
  RC_ASSERT(compares_as_rationals_do(*any_ratio(), *any_ratio()));
}

TEST(Ratio, ComparesSmallFractionsAsRationalsDo)
{
  for (std::int64_t a = 0; a <= 6; ++a) {
    for (std::int64_t b = 1; b <= 6; ++b) {
      for (std::int64_t c = 0; c <= 6; ++c) {
        for (std::int64_t d = 1; d <= 6; ++d) {
          ASSERT_TRUE(compares_as_rationals_do({a, b}, {c, d}))
              << a << '/' << b << ' ' << c << '/' << d;
        }
      }
    }
  }
}

TEST(Ratio, ComparesTheExtremesWithoutOverflow)  // Ensures (2)
{
  EXPECT_LT((ratio{0, greatest_term}), (ratio{1, greatest_term}));
  EXPECT_LT((ratio{greatest_term - 1, greatest_term}), (ratio{greatest_term, greatest_term}));
  EXPECT_LT((ratio{greatest_term - 2, greatest_term - 1}),
            (ratio{greatest_term - 1, greatest_term}));
  EXPECT_EQ((ratio{greatest_term, greatest_term}), (ratio{1, 1}));
  EXPECT_GT((ratio{greatest_term, 1}), (ratio{greatest_term - 1, 1}));
}

TEST(Ratio, IsZeroAtFirst)
{
  EXPECT_EQ(ratio{}, (ratio{0, 5}));
  EXPECT_EQ(ratio{}.value(), 0.0);
}

TEST(Ratio, HasAValueForDisplay)
{
  EXPECT_EQ((ratio{3, 4}.value()), 0.75);
  EXPECT_EQ((ratio{greatest_term, 1}.value()), 0x1p63);
}

TEST(Ratio, SaysHowFarItIsAboveABound)
{
  EXPECT_EQ(gap_above(ratio{5, 4}, ratio{1, 1}), 0.25);
  EXPECT_EQ(gap_above(ratio{6, 4}, ratio{3, 2}), 0.0);
  EXPECT_EQ(gap_above(ratio{}, ratio{}), 0.0);
  // Quotients of these differ by less than a double can hold.
  EXPECT_EQ(gap_above(ratio{greatest_term, 1}, ratio{greatest_term - 1, 1}), 0x1p-63);
}

TEST(Certified, SaysHowFarAPlanCanBeFromTheBest)
{
  constexpr certified<ratio> plan{{5, 2}, {2, 1}};
  EXPECT_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
  EXPECT_TRUE(plan.proven_within(0.25));
  EXPECT_FALSE(plan.proven_within(0.2));
  constexpr std::int64_t bound = 1'000'000'000'000'000;
  constexpr certified<ratio> near{{bound + 100'000'000, 1}, {bound, 1}};  // 1e-7
  EXPECT_TRUE(near.proven_within(1e-6));
  EXPECT_FALSE(near.proven_within(9e-8));
  EXPECT_FALSE((certified<ratio>{{bound + 1, 1}, {bound, 1}}.proven_within(0)));
  EXPECT_TRUE((certified<ratio>{{50, 2}, {25, 1}}.proven_within(0)));
  // Rounded quotients make no gap below zero.
  constexpr certified<ratio> thirds{{greatest_term - 1, 3}, {greatest_term - 2, 3}};
  EXPECT_GE(thirds.gap(), 0.0);
  EXPECT_FALSE(thirds.proven_optimal());
  constexpr certified<std::int64_t> best{7, 7};
  EXPECT_EQ(best.gap(), 0);
  EXPECT_TRUE(best.proven_optimal());
  EXPECT_EQ(certified<std::int64_t>{}.gap(), 0);
  EXPECT_TRUE(certified<ratio>{}.proven_within(0));
}

static_assert(std::is_same_v<ballast::tokens, std::int64_t>);
static_assert(std::is_same_v<ballast::cost_units, std::int64_t>);

static_assert(ballast::longest_sample <= greatest_term / ballast::longest_sample,
              "its square fits");
static_assert(ballast::no_cost == std::numeric_limits<ballast::cost_units>::max());

}  // namespace
