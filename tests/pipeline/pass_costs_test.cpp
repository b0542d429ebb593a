// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/pass_costs.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/cost/latency_fit.hpp>

#include <concepts>
#include <cstdint>
#include <limits>

namespace {

using ballast::error_code;
using ballast::flop_polynomial;
using ballast::frozen;
using ballast::frozen_gradient;
using ballast::pass_costs;
using ballast::price_passes;
using ballast::quadratic_cost;
using ballast::stage_time;
using ballast::training_passes;

static_assert(std::regular<pass_costs>);

ballast::result<quadratic_cost> as_they_are(flop_polynomial flops)
{
  return quadratic_cost{.linear = flops.linear, .quadratic = flops.quadratic};
}

constexpr flop_polynomial forward_pass{.linear = 1000, .quadratic = 10};

TEST(PassCosts, OfATrainedModuleAreTwiceAsHighBackward)
{
  auto const costs = price_passes(forward_pass, {}, as_they_are).value();
  EXPECT_EQ(costs(7), (stage_time{7490, 14980}));
  EXPECT_EQ(costs(0), stage_time{});
  EXPECT_EQ(costs(-1), (stage_time{ballast::no_cost, ballast::no_cost}));
  EXPECT_TRUE(costs.has_backward());
}

TEST(PassCosts, AddUpToTheStep)  // Ensures (1)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 500; ++trial) {
    auto const often = [&] { return static_cast<std::uint32_t>(random.below(4)); };
    training_passes const passes{often(), often(), often(), often()};
    flop_polynomial const flops{random.below(1 << 20), random.below(1 << 20)};
    auto const costs = price_passes(flops, passes, as_they_are).value();
    EXPECT_EQ(costs.forward.linear, flops.linear * passes.forward);
    EXPECT_EQ(costs.forward.quadratic, flops.quadratic * passes.forward);
    auto const step = ballast::step_flops(flops, passes).value();
    EXPECT_EQ(costs.forward.linear + costs.backward.linear, step.linear);
    EXPECT_EQ(costs.forward.quadratic + costs.backward.quadratic, step.quadratic);
  }
}

TEST(PassCosts, OfAFrozenFrontHaveNoBackward)  // Ensures (2)
{
  auto const passes = frozen({.recompute = 1}, frozen_gradient::stops);
  auto const costs = price_passes(forward_pass, passes, as_they_are).value();
  EXPECT_FALSE(costs.has_backward());
  EXPECT_EQ(costs(7), (stage_time{7490, 0}));

  // Nor in picoseconds, where no FLOP are a coefficient of 0 with many fraction bits.
  ballast::gamma_fit const fit{.seconds_per_flop = 1e-12, .gamma = 2};
  auto const timed = price_passes(forward_pass, passes,
                                  [&](flop_polynomial all) { return latency_cost(fit, all); });
  ASSERT_TRUE(timed);
  EXPECT_FALSE(timed->has_backward());
  EXPECT_EQ((*timed)(7), (stage_time{7000 + 2 * 490, 0}));
}

TEST(PassCosts, OfAFrozenModuleThatPassesGradientsOnKeepItsAttention)
{
  auto const costs =
      price_passes(forward_pass, frozen({}, frozen_gradient::passes_through), as_they_are).value();
  EXPECT_EQ(costs(7), (stage_time{7490, 7000 + 2 * 490}));
}

TEST(PassCosts, SayWhatCouldNotBePriced)  // Errors
{
  auto const refuse_attention = [](flop_polynomial flops) -> ballast::result<quadratic_cost> {
    if (flops.quadratic > 10) { return ballast::fail(error_code::unreadable, 3, "no attention"); }
    return as_they_are(flops);
  };
  EXPECT_EQ(price_passes({0, 11}, {}, refuse_attention).error().message, "no attention");
  EXPECT_EQ(price_passes({0, 10}, {}, refuse_attention).error().position, 3U);  // backward: 20
  EXPECT_TRUE(price_passes({0, 5}, {}, refuse_attention).has_value());
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_TRUE(price_passes({most / 2, 0}, {}, as_they_are).has_value());
  EXPECT_EQ(price_passes({most / 2 + 1, 0}, {}, as_they_are).error().code,
            error_code::out_of_range);
  EXPECT_EQ(price_passes({most, 0}, {.forward = 2}, as_they_are).error().code,
            error_code::out_of_range);
}

}  // namespace
