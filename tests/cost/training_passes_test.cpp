// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/training_passes.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <concepts>
#include <limits>

namespace {

using ballast::error_code;
using ballast::flop_polynomial;
using ballast::frozen;
using ballast::frozen_gradient;
using ballast::step_flops;
using ballast::training_passes;

static_assert(std::regular<training_passes>);

constexpr flop_polynomial forward{.linear = 1000, .quadratic = 10};

TEST(TrainingPasses, AreThreeForTheModelAndFourForTheHardware)
{
  EXPECT_EQ(step_flops(forward, {}).value(), (flop_polynomial{3000, 30}));
  EXPECT_EQ(step_flops(forward, {.recompute = 1}).value(), (flop_polynomial{4000, 40}));
}

TEST(TrainingPasses, OfAFrozenModuleSkipTheGradientsOfItsWeights)  // Ensures (1)
{
  // Attention has no weights, so that freezing saves it nothing.
  auto const through = frozen_gradient::passes_through;
  EXPECT_EQ(step_flops(forward, frozen({}, through)).value(), (flop_polynomial{2000, 30}));
  EXPECT_EQ(step_flops(forward, frozen({.recompute = 1}, through)).value(),
            (flop_polynomial{3000, 40}));
}

TEST(TrainingPasses, OfAFrozenFrontAreTheForwardPassAlone)  // Ensures (2)
{
  auto const stops = frozen_gradient::stops;
  EXPECT_EQ(step_flops(forward, frozen({}, stops)).value(), forward);
  EXPECT_EQ(step_flops(forward, frozen({.recompute = 1}, stops)).value(), forward);
}

TEST(TrainingPasses, RefuseFlopsThatDoNotFit)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_TRUE(step_flops({most / 3, most / 3}, {}).has_value());
  EXPECT_EQ(step_flops({most / 3 + 1, 0}, {}).error().code, error_code::out_of_range);
  EXPECT_EQ(step_flops({0, most / 3 + 1}, {}).error().code, error_code::out_of_range);
  constexpr auto often = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(step_flops({most, most}, {often, often, often, often}).error().code,
            error_code::out_of_range);
}

}  // namespace
