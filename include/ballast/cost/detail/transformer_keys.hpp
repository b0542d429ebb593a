// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_DETAIL_TRANSFORMER_KEYS_HPP
#define BALLAST_COST_DETAIL_TRANSFORMER_KEYS_HPP

#include <ballast/core/config.hpp>

#include <array>
#include <string_view>

namespace ballast::inline v0::detail {

/// What a written transformer can say. Down to vocab in the order of transformer_shape's members,
/// as the positions of the errors of `forward_flops` are.
inline constexpr std::array<std::string_view, 11> transformer_keys = {
    "d",     "layers", "heads", "kv_heads",  "head_dim", "ffn",
    "gated", "causal", "vocab", "recompute", "gamma"};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COST_DETAIL_TRANSFORMER_KEYS_HPP
