// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/cost/quadratic_cost.hpp>

#if defined(OF_AN_UNKNOWN_MODEL)
// EXPECT: no_known_model_has_this_name
constexpr auto shape = ballast::known_shape("llama3-8");
#else
constexpr auto shape = ballast::known_shape("llama3-8b");
#endif

#if defined(OF_NEGATIVE_GAMMA)
// EXPECT: gamma_is_finite_and_not_negative
constexpr auto cost = ballast::gamma_corrected(shape, -0.405);
#else
constexpr auto cost = ballast::gamma_corrected(shape, 0.405);
#endif

ballast::cost_units price()
{
#if defined(OF_FLOATING_POINT)
  // EXPECT: cost_model
  auto const constant = [](ballast::tokens) { return 0.5; };
#else
  auto const constant = [](ballast::tokens) { return 1; };
#endif
  auto const model = ballast::sum_of{ballast::quadratic_cost{1}, constant};
  return model(ballast::tokens{7}) + cost(16);
}
