// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_TRAINING_PASSES_HPP
#define BALLAST_COST_TRAINING_PASSES_HPP

#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/cost/flops.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// How often a training step repeats the FLOP of a module's forward pass.
///
/// A product with a weight matrix has one product for the gradient of its input and one for that of
/// the weights. Attention has no weights, but each of its two products has two inputs: backward it
/// costs twice the forward pass as well. A fused kernel that recomputes the scores does half a
/// forward pass of attention more, which by custom is not counted.
///
/// The default is what model FLOP utilisation (MFU) counts, 3 times the forward pass. Hardware FLOP
/// utilisation (HFU) of a fully recomputed module counts 4: `training_passes{.recompute = 1}`.
struct training_passes {
  std::uint32_t forward = 1;
  std::uint32_t backward = 2;  ///< of the products with weights
  std::uint32_t attention_backward = 2;
  std::uint32_t recompute = 0;

  friend bool operator==(training_passes const&, training_passes const&) = default;
};

/// What has to pass backward through a frozen module, whose own weights get no gradient.
enum class frozen_gradient : std::uint8_t {
  passes_through,  ///< something that feeds the module is trained
  stops            ///< nothing that feeds the module is trained, as for a frozen encoder
};

/// The passes of a module once its weights are frozen.
///
/// Ensures     (1) passes_through: half the backward products with weights, attention as before
///             (2) stops: the forward pass alone, and nothing to recompute
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025.
[[nodiscard]] constexpr training_passes frozen(training_passes passes, frozen_gradient gradient)
{
  if (gradient == frozen_gradient::stops) {
    return {.forward = passes.forward, .backward = 0, .attention_backward = 0};
  }
  passes.backward /= 2;
  return passes;
}

/// The FLOP of a whole training step of a module.
///
/// Errors      out_of_range where a coefficient does not fit 64 bits.
[[nodiscard]] inline result<flop_polynomial> step_flops(flop_polynomial forward,
                                                        training_passes passes)
{
  uint128 const always = static_cast<uint128>(passes.forward) + passes.recompute;
  return detail::checked_flops(forward.linear * (always + passes.backward),
                               forward.quadratic * (always + passes.attention_backward));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_TRAINING_PASSES_HPP
