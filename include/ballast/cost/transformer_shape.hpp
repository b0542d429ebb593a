// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_TRANSFORMER_SHAPE_HPP
#define BALLAST_COST_TRANSFORMER_SHAPE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/cost/flops.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ballast::inline v0 {

/// Which keys a query looks at: all of its sample, or those up to its own position.
enum class attention_mask : std::uint8_t { full, causal };

/// The dimensions of a transformer on which its FLOP depend, as model configurations name them.
///
/// Parallel branches (as in a diffusion transformer's two streams) are modules of their own, added
/// with `add`.
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
  BALLAST_EXPECTS(hidden < (std::uint32_t{1} << 30));
  BALLAST_EXPECTS(heads >= 1 && hidden % heads == 0);
  return {.hidden = hidden,
          .layers = layers,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = hidden / heads,
          .ffn_hidden = 4 * hidden};
}

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
  struct dimension {
    char const* name;
    std::uint32_t value;
  };
  std::array<dimension, 6> const dimensions = {{
      {.name = "hidden size", .value = shape.hidden},
      {.name = "number of layers", .value = shape.layers},
      {.name = "number of heads", .value = shape.heads},
      {.name = "number of key-value heads", .value = shape.kv_heads},
      {.name = "head dimension", .value = shape.head_dim},
      {.name = "feed-forward size", .value = shape.ffn_hidden},
  }};
  for (std::size_t place = 0; place < dimensions.size(); ++place) {
    if (dimensions[place].value == 0) {
      return fail(
          error_code::out_of_range, place,
          std::string("the transformer's ") + dimensions[place].name + " is 0; give at least 1");
    }
  }
  if (shape.heads % shape.kv_heads != 0) {
    return fail(error_code::out_of_range, 3,
                "the transformer's " + std::to_string(shape.heads) + " heads cannot share " +
                    std::to_string(shape.kv_heads) +
                    " key-value heads equally; give a divisor of the number of heads");
  }

  // Products of at most three 32-bit dimensions: their sum is far from 2^128.
  uint128 const d = shape.hidden;
  uint128 const q = static_cast<uint128>(shape.heads) * shape.head_dim;
  uint128 const k = static_cast<uint128>(shape.kv_heads) * shape.head_dim;
  uint128 const matrices = shape.gated_ffn ? 3 : 2;
  uint128 const per_token = 2 * d * q + 4 * d * k + 2 * q * d + 2 * d * shape.ffn_hidden * matrices;
  uint128 const per_pair = shape.mask == attention_mask::causal ? 2 * q : 4 * q;

  return detail::checked_flops(per_token, per_pair)
      .and_then([&](flop_polynomial layer) { return multiply(layer, shape.layers); })
      .and_then([&](flop_polynomial body) {
        return detail::checked_flops(body.linear + 2 * d * shape.vocabulary, body.quadratic);
      });
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_TRANSFORMER_SHAPE_HPP
