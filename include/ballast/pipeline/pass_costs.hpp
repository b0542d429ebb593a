// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_PASS_COSTS_HPP
#define BALLAST_PIPELINE_PASS_COSTS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/pipeline/pipeline_times.hpp>

#include <concepts>
#include <type_traits>

namespace ballast::inline v0 {

/// How long a sample takes on a module, an encoder, an LLM or a generator, forward and backward.
///
/// Units       of time, one for all modules of a pipeline: a module with fewer or slower GPUs has a
///             cost model that says so, such as `latency_cost`.
struct pass_costs {
  quadratic_cost forward;
  quadratic_cost backward;

  [[nodiscard]] constexpr stage_time operator()(tokens length) const
  {
    return {.forward = forward(length), .backward = backward(length)};
  }

  /// Whether a gradient is computed in this module. Where not, its stages are `pipeline_stage`s
  /// without a backward.
  [[nodiscard]] constexpr bool has_backward() const
  {
    return backward.linear != 0 || backward.quadratic != 0;
  }

  friend bool operator==(pass_costs const&, pass_costs const&) = default;
};

/// What a module costs in its forward and in its backward pass, from the FLOP of its forward pass
/// and from how it is trained:
///
///     price_passes(flops, frozen({}, frozen_gradient::passes_through),
///                  [&](flop_polynomial all) { return latency_cost(fit, all); })
///
/// Recomputation counts as backward, since it is done then.
///
/// In          price(flops) returns the cost model for so many FLOP.
/// Ensures     (1) both passes together are the FLOP of step_flops(forward, passes)
///             (2) a module that is frozen and stops the gradient has no backward
/// Errors      those of step_flops and of price.
template <std::invocable<flop_polynomial> Price>
  requires std::same_as<std::invoke_result_t<Price const&, flop_polynomial>, result<quadratic_cost>>
[[nodiscard]] result<pass_costs> price_passes(flop_polynomial forward, training_passes passes,
                                              Price const& price)
{
  training_passes const only_forward{
      .forward = passes.forward, .backward = 0, .attention_backward = 0};
  passes.forward = 0;
  auto const forward_cost = step_flops(forward, only_forward).and_then(price);
  if (!forward_cost) { return tl::unexpected(forward_cost.error()); }
  auto const backward_cost = step_flops(forward, passes).and_then(price);
  if (!backward_cost) { return tl::unexpected(backward_cost.error()); }
  return pass_costs{.forward = *forward_cost, .backward = *backward_cost};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_PASS_COSTS_HPP
