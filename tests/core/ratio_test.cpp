// SPDX-License-Identifier: Apache-2.0
#include <boost/multiprecision/cpp_int.hpp>

#include "../support/test.hpp"

namespace {

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

}  // namespace
