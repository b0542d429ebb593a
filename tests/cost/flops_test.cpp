// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/flops.hpp>  // first: proves it is self-contained

#include "../support/exact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <concepts>
#include <cstdint>
#include <limits>

namespace {

using ballast::error_code;
using ballast::exact_flops;
using ballast::flop_polynomial;
using ballast::longest_sample;
using ballast::tokens;
using ballast_test::cpp_int;

static_assert(std::regular<flop_polynomial>);

constexpr auto most_coefficient = std::numeric_limits<std::uint64_t>::max();

RC_GTEST_PROP(Flops, AreTheFormulaExactly, (std::uint64_t linear, std::uint64_t quadratic))
{
  auto const length = *rc::gen::inRange<tokens>(0, longest_sample + 1);
  cpp_int const exact = cpp_int(linear) * length + cpp_int(quadratic) * length * length;
  RC_ASSERT(cpp_int(exact_flops({linear, quadratic}, length)) == exact);
}

TEST(Flops, OfTheLargestPolynomialAndLengthFit)
{
  cpp_int const l = longest_sample;
  EXPECT_EQ(cpp_int(exact_flops({most_coefficient, most_coefficient}, longest_sample)),
            most_coefficient * l + most_coefficient * l * l);
  EXPECT_EQ(exact_flops({most_coefficient, most_coefficient}, 0), 0U);
}

TEST(Flops, AsADoubleAreTheNearest)
{
  EXPECT_DOUBLE_EQ(ballast::flops({24, 4}, 10), 640);
  constexpr double l = longest_sample;
  EXPECT_DOUBLE_EQ(ballast::flops({0, most_coefficient}, longest_sample), 0x1p64 * l * l);
}

RC_GTEST_PROP(Flops, AddAndMultiplyExactlyOrFail,
              (std::uint64_t a, std::uint64_t b, std::uint64_t times))
{
  auto const expect = [](ballast::result<flop_polynomial> const& found, cpp_int const& linear,
                         cpp_int const& quadratic) {
    if (linear > most_coefficient || quadratic > most_coefficient) {
      RC_ASSERT(!found.has_value());
      RC_ASSERT(found.error().code == error_code::out_of_range);
    } else {
      flop_polynomial const expected{.linear = static_cast<std::uint64_t>(linear),
                                     .quadratic = static_cast<std::uint64_t>(quadratic)};
      RC_ASSERT(found.value() == expected);
    }
  };
  expect(ballast::add({a, b}, {b, a}), cpp_int(a) + b, cpp_int(a) + b);
  expect(ballast::add({a, 0}, {b, 5}), cpp_int(a) + b, 5);
  expect(ballast::multiply({a, 0}, times), cpp_int(a) * times, 0);
  expect(ballast::multiply({0, b}, times), 0, cpp_int(b) * times);
}

TEST(Flops, SayWhatToDoWhenTheyDoNotFit)
{
  EXPECT_EQ(ballast::add({most_coefficient, most_coefficient}, {0, 0}).value(),
            (flop_polynomial{most_coefficient, most_coefficient}));
  EXPECT_THAT(ballast::add({most_coefficient, 0}, {1, 0}).error().message,
              testing::HasSubstr("do not fit 64 bits; check its dimensions"));
}

TEST(FlopsDeathTest, RejectLengthsThatHaveNoCost)
{
  EXPECT_DEATH((void)exact_flops({1, 1}, -1), "the FLOP of -1 tokens");
  EXPECT_DEATH((void)exact_flops({1, 1}, longest_sample + 1), "which is not from 0 to ");
}

}  // namespace
