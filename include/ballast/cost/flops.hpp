// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

struct flop_polynomial;

namespace detail {

/// Refuses coefficients that do not fit 64 bits.
[[nodiscard]] inline result<flop_polynomial> checked_flops(uint128 linear, uint128 quadratic);

}  // namespace detail

/// Floating-point operations of a model as a function of sample length, in exact integers.
///
/// A multiplication and the addition after it are two operations. Only matrix products count:
/// norms, activations and softmax are less than one per cent of a transformer's, and by custom are
/// left out.
///
/// Units       linear: FLOP per token; quadratic: FLOP per token^2.
struct flop_polynomial {
  std::uint64_t linear = 0;
  std::uint64_t quadratic = 0;

  /// linear l + quadratic l^2, exactly.
  ///
  /// Expects     0 <= length <= longest_sample, for which it always fits.
  /// Complexity  O(1).
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr uint128 exact(tokens length) const
  {
    BALLAST_EXPECTS(length >= 0 && length <= longest_sample, "the FLOP of ", length,
                    " tokens were asked for, which is not from 0 to ", longest_sample);
    auto const l = static_cast<std::uint64_t>(length);
    std::uint64_t const squared = l * l;  // below 2^62
    return static_cast<uint128>(linear) * l + static_cast<uint128>(quadratic) * squared;
  }

  /// `exact` as a double, for rates and reports; no plan is decided on it.
  [[nodiscard]] double of(tokens length) const { return static_cast<double>(exact(length)); }

  /// The FLOP of this module and another one that a sample passes at the same length.
  ///
  /// Errors      out_of_range where a coefficient does not fit 64 bits.
  [[nodiscard]] result<flop_polynomial> plus(flop_polynomial other) const
  {
    return detail::checked_flops(static_cast<uint128>(linear) + other.linear,
                                 static_cast<uint128>(quadratic) + other.quadratic);
  }

  /// The FLOP of `count` such modules in a row.
  ///
  /// Errors      as for plus().
  [[nodiscard]] result<flop_polynomial> times(std::uint64_t count) const
  {
    return detail::checked_flops(static_cast<uint128>(linear) * count,
                                 static_cast<uint128>(quadratic) * count);
  }

  friend bool operator==(flop_polynomial const&, flop_polynomial const&) = default;
};

namespace detail {

/// Nothing where a coefficient does not fit 64 bits.
[[nodiscard]] constexpr std::optional<flop_polynomial> flops_in_64_bits(uint128 linear,
                                                                        uint128 quadratic)
{
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  if (linear > largest || quadratic > largest) { return std::nullopt; }
  return flop_polynomial{.linear = static_cast<std::uint64_t>(linear),
                         .quadratic = static_cast<std::uint64_t>(quadratic)};
}

[[nodiscard]] inline result<flop_polynomial> checked_flops(std::optional<flop_polynomial> fitting)
{
  if (!fitting) {
    return fail(error_code::out_of_range, 0,
                "the FLOP per token of this model do not fit 64 bits; check its dimensions");
  }
  return *fitting;
}

[[nodiscard]] inline result<flop_polynomial> checked_flops(uint128 linear, uint128 quadratic)
{
  return checked_flops(flops_in_64_bits(linear, quadratic));
}

}  // namespace detail

/// What has to pass backward through a frozen module, whose own weights get no gradient.
enum class frozen_gradient : std::uint8_t {
  passes_through,  ///< something that feeds the module is trained
  stops            ///< nothing that feeds the module is trained, as for a frozen encoder
};

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

  /// The passes of a module once its weights are frozen.
  ///
  /// Ensures     (1) passes_through: half the backward products with weights, attention as before
  ///             (2) stops: the forward pass alone, and nothing to recompute
  /// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
  ///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025.
  [[nodiscard]] constexpr training_passes frozen(frozen_gradient gradient) const
  {
    if (gradient == frozen_gradient::stops) {
      return {.forward = forward, .backward = 0, .attention_backward = 0};
    }
    training_passes fewer = *this;
    fewer.backward /= 2;
    return fewer;
  }

  friend bool operator==(training_passes const&, training_passes const&) = default;
};

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

/// Which keys a query looks at: all of its sample, or those up to its own position.
enum class attention_mask : std::uint8_t { full, causal };

/// The dimensions of a transformer on which its FLOP depend, as model configurations name them.
///
/// Parallel branches (as in a diffusion transformer's two streams) are modules of their own, added
/// by `plus`.
struct transformer_shape {
  std::uint32_t hidden = 0;
  std::uint32_t layers = 1;
  std::uint32_t heads = 1;
  std::uint32_t kv_heads = 1;    ///< below heads: grouped-query attention; 1: multi-query
  std::uint32_t head_dim = 0;    ///< heads * head_dim need not be hidden
  std::uint32_t ffn_hidden = 0;  ///< the intermediate size of the feed-forward network
  bool gated_ffn = false;        ///< three matrices (SwiGLU, GeGLU) instead of two
  attention_mask mask = attention_mask::full;
  std::uint32_t vocabulary = 0;  ///< columns of the output head; 0: no head

  friend bool operator==(transformer_shape const&, transformer_shape const&) = default;
};

/// The classic shape: heads share the hidden size, every head has its keys, the feed-forward
/// network is four times as wide and not gated. The number of heads leaves the FLOP unchanged.
///
/// Expects     hidden < 2^30; heads >= 1 and a divisor of hidden.
/// Ensures     (1) the forward pass takes exactly 24 l d^2 + 4 l^2 d FLOP per layer, d = hidden
[[nodiscard]] constexpr transformer_shape classic_transformer(std::uint32_t hidden,
                                                              std::uint32_t layers = 1,
                                                              std::uint32_t heads = 1)
{
  BALLAST_EXPECTS(hidden < (std::uint32_t{1} << 30), "a classic transformer has a hidden size of ",
                  hidden, ", which is not below 2^30");
  BALLAST_EXPECTS(heads >= 1 && hidden % heads == 0, "a classic transformer has ", heads,
                  " heads, which do not divide its hidden size of ", hidden);
  return {.hidden = hidden,
          .layers = layers,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = hidden / heads,
          .ffn_hidden = 4 * hidden};
}

namespace detail {

/// Why a shape is no transformer, if it is none.
enum class shape_fault : std::uint8_t { none, zero_dimension, unequal_head_groups };

struct checked_shape {
  shape_fault fault = shape_fault::none;
  std::size_t place = 0;  ///< of the member in transformer_shape
};

[[nodiscard]] constexpr checked_shape check_shape(transformer_shape const& shape)
{
  std::array<std::uint32_t, 6> const dimensions = {
      shape.hidden, shape.layers, shape.heads, shape.kv_heads, shape.head_dim, shape.ffn_hidden};
  for (std::size_t place = 0; place < dimensions.size(); ++place) {
    if (dimensions[place] == 0) { return {shape_fault::zero_dimension, place}; }
  }
  if (shape.heads % shape.kv_heads != 0) { return {shape_fault::unequal_head_groups, 3}; }
  return {};
}

/// The FLOP of a shape without fault; nothing where they do not fit 64 bits.
[[nodiscard]] constexpr std::optional<flop_polynomial> count_flops(transformer_shape const& shape)
{
  // Products of at most three 32-bit dimensions: their sum is far from 2^128.
  uint128 const d = shape.hidden;
  uint128 const q = static_cast<uint128>(shape.heads) * shape.head_dim;
  uint128 const k = static_cast<uint128>(shape.kv_heads) * shape.head_dim;
  uint128 const matrices = shape.gated_ffn ? 3 : 2;
  uint128 const per_token = 2 * d * q + 4 * d * k + 2 * q * d + 2 * d * shape.ffn_hidden * matrices;
  uint128 const per_pair = shape.mask == attention_mask::causal ? 2 * q : 4 * q;

  auto const layer = flops_in_64_bits(per_token, per_pair);
  if (!layer) { return std::nullopt; }
  auto const body = flops_in_64_bits(static_cast<uint128>(layer->linear) * shape.layers,
                                     static_cast<uint128>(layer->quadratic) * shape.layers);
  if (!body) { return std::nullopt; }
  return flops_in_64_bits(body->linear + 2 * d * shape.vocabulary, body->quadratic);
}

}  // namespace detail

/// The exact FLOP of one forward pass, embeddings looked up rather than multiplied.
///
/// With d = hidden, q = heads * head_dim, k = kv_heads * head_dim, f = ffn_hidden, V = vocabulary:
/// per token and layer 2 d q (queries) + 4 d k (keys, values) + 2 q d (output) + 4 d f
/// (feed-forward, 6 d f gated); per pair of tokens and layer 4 q (scores and their product with the
/// values); per token 2 d V (head). A causal mask halves the pairs: l^2 / 2, not l (l + 1) / 2, as
/// is the custom.
///
/// Ensures     (1) the numbers above, without rounding
/// Errors      out_of_range: a dimension is 0, heads are no multiple of kv_heads (position is the
///             place of the member in transformer_shape), or a coefficient does not fit 64 bits.
/// Complexity  O(1).
[[nodiscard]] inline result<flop_polynomial> forward_flops(transformer_shape const& shape)
{
  constexpr std::array<char const*, 6> names = {"hidden size",     "number of layers",
                                                "number of heads", "number of key-value heads",
                                                "head dimension",  "feed-forward size"};
  auto const [fault, place] = detail::check_shape(shape);
  if (fault == detail::shape_fault::zero_dimension) {
    return fail(error_code::out_of_range, place,
                std::string("the transformer's ") + names[place] + " is 0; give at least 1");
  }
  if (fault == detail::shape_fault::unequal_head_groups) {
    return fail(error_code::out_of_range, place, "the transformer's ",
                detail::counted(shape.heads, "head"), " cannot share ",
                detail::counted(shape.kv_heads, "key-value head"),
                " equally; give a divisor of the number of heads");
  }
  return detail::checked_flops(detail::count_flops(shape));
}

}  // namespace ballast::inline v0
