// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/gamma_correction.hpp>  // first: proves it is self-contained

#include "../support/exact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/cost/transformer_shape.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

namespace {

using ballast::classic_transformer;
using ballast::cost_units;
using ballast::error_code;
using ballast::flop_polynomial;
using ballast::forward_flops;
using ballast::gamma_corrected;
using ballast::no_cost;
using ballast::priced;
using ballast::quadratic_cost;
using ballast::tokens;
using ballast_test::cpp_rational;
using ballast_test::exact;
using ballast_test::power_of_two;
using testing::HasSubstr;

static_assert(std::regular<priced>);

// 24 l d^2 + gamma 4 l^2 d, in units, without rounding.
cpp_rational formula(flop_polynomial flops, double gamma, int log2_flops_per_unit, tokens length)
{
  cpp_rational const linear = cpp_rational(flops.linear) * length;
  cpp_rational const quadratic = cpp_rational(flops.quadratic) * length * length;
  return (linear + exact(gamma) * quadratic) * power_of_two(-log2_flops_per_unit);
}

flop_polynomial any_flops()
{
  auto const coefficient = [] {
    return *rc::gen::inRange<std::uint64_t>(
        0, std::numeric_limits<std::uint64_t>::max() >> *rc::gen::inRange(0, 60));
  };
  return {coefficient(), coefficient()};
}

double any_gamma()
{
  return *rc::gen::inRange(0, 1 << 20) * 0x1p-18;
}

void expect_within_bound(quadratic_cost const& cost, cpp_rational const& true_cost, tokens length)
{
  cpp_rational const bound =
      cpp_rational(1, 2) +
      cpp_rational(length) * length * power_of_two(1 - static_cast<int>(cost.fraction_bits));
  cost_units const found = cost(length);
  if (found == no_cost) {
    RC_ASSERT(true_cost + bound >= no_cost);
  } else {
    RC_ASSERT(abs(true_cost - found) <= bound);
  }
}

RC_GTEST_PROP(GammaCorrected, IsCloseToTheFormula, ())  // Ensures (1) of both
{
  flop_polynomial const flops = any_flops();
  double const gamma = any_gamma();
  auto const length =
      *rc::gen::inRange<tokens>(0, (ballast::longest_sample >> *rc::gen::inRange(0, 31)) + 1);

  auto const [cost, unit] = gamma_corrected(flops, gamma).value();
  expect_within_bound(cost, formula(flops, gamma, unit, length), length);

  int const coarser = unit + *rc::gen::inRange(0, 12);
  auto const explicitly = gamma_corrected(flops, gamma, coarser).value();
  expect_within_bound(explicitly, formula(flops, gamma, coarser, length), length);
}

RC_GTEST_PROP(GammaCorrected, ChoosesAUnitThatSuitsTheModel, ())  // Ensures (1) of the second
{
  flop_polynomial flops = any_flops();
  flops.linear += 1;
  double const gamma = any_gamma();
  auto const [cost, unit] = gamma_corrected(flops, gamma).value();
  cpp_rational const larger =
      std::max(cpp_rational(flops.linear), exact(gamma) * flops.quadratic) * power_of_two(-unit);
  RC_ASSERT(larger >= power_of_two(11));
  RC_ASSERT(larger < power_of_two(12));
  RC_ASSERT(cost.fraction_bits == 51U);
}

TEST(GammaCorrected, PricesTheSequencesOfMixedResolutionTraining)
{
  // [gamma]
  // One layer of a diffusion transformer of width 3072, whose attention takes 0.405 times as long
  // per FLOP as its other products.
  auto const layer = ballast::forward_flops(ballast::classic_transformer(3072)).value();
  auto const [cost, log2_flops_per_unit] = ballast::gamma_corrected(layer, 0.405).value();

  EXPECT_EQ(log2_flops_per_unit, 16);  // a unit is 65,536 FLOP, so a token's linear part is 3,456
  EXPECT_EQ(cost(256), 889'713);       // a 256-pixel image
  EXPECT_EQ(cost(4488), 17'040'072);   // a 1024-pixel image with 392 tokens of text
  EXPECT_EQ(cost(16776), 79'349'264);  // a 2048-pixel image with as much text
  // [gamma]
  EXPECT_EQ(forward_flops(classic_transformer(3072)).value(),
            (flop_polynomial{226'492'416, 12'288}));
}

TEST(GammaCorrected, CountsFlopsWhereGammaIsOne)
{
  EXPECT_EQ(gamma_corrected({24, 4}, 1.0, 0).value()(10), 640);
  EXPECT_EQ(gamma_corrected({24, 4}, 0.0, 0).value()(10), 240);
  EXPECT_EQ(gamma_corrected({24, 4}, -0.0, 0).value()(10), 240);
  EXPECT_EQ(gamma_corrected({24, 4}, 1.0, 6).value()(10), 10);
  EXPECT_EQ(gamma_corrected({24, 4}, 1.0, -1).value()(10), 1280);
}

TEST(GammaCorrected, GivesModelsOneUnit)
{
  auto const llm =
      gamma_corrected(forward_flops(classic_transformer(4096, 32)).value(), 0.5).value();
  auto const encoder = gamma_corrected(forward_flops(classic_transformer(1024, 24)).value(), 0.5,
                                       llm.log2_flops_per_unit);
  // 24 layers of width 1024 against 32 of width 4096: 1/21.33 of the linear part.
  EXPECT_EQ(llm.cost(1), 3072);
  EXPECT_EQ(encoder.value()(1), 144);
}

TEST(GammaCorrected, ChargesNothingForNoFlops)
{
  auto const [cost, unit] = gamma_corrected({}, 0.4).value();
  EXPECT_EQ(unit, -11);
  EXPECT_EQ(cost(ballast::longest_sample), 0);
}

TEST(GammaCorrected, KeepsItsUnitWhereGammaVanishes)  // Ensures (2) of the second
{
  auto const [cost, unit] = gamma_corrected({0, 1}, 0x1p-30).value();
  EXPECT_EQ(unit, -11);
  EXPECT_EQ(cost(1 << 20), cost_units{1} << (40 - 30 + 11));
}

TEST(GammaCorrected, RefusesAGammaThatIsNoFactor)
{
  using limits = std::numeric_limits<double>;
  for (double const gamma : {-1.0, limits::infinity(), -limits::infinity(), limits::quiet_NaN()}) {
    auto const failed = gamma_corrected({24, 4}, gamma);
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, error_code::out_of_range);
    EXPECT_THAT(failed.error().message, HasSubstr("gamma is negative or not finite"));
  }
}

TEST(GammaCorrected, RefusesAUnitThatIsTooSmall)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_TRUE(gamma_corrected({most, 0}, 1.0, 0).has_value());
  EXPECT_THAT(gamma_corrected({most, 0}, 1.0, -1).error().message, HasSubstr("2^64 units"));
  EXPECT_THAT(gamma_corrected({1, 1}, 1e300).error().message, HasSubstr("2^64 units"));
}

TEST(GammaCorrectedDeathTest, RejectsAnAbsurdUnit)
{
  EXPECT_DEATH((void)gamma_corrected({1, 1}, 1.0, 65), "log2_flops_per_unit is 65,");
  EXPECT_DEATH((void)gamma_corrected({1, 1}, 1.0, -65), "log2_flops_per_unit is -65,");
}

}  // namespace
