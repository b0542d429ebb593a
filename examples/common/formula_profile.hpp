// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_profile.hpp>

namespace dflop_models {

using namespace ballast;

inline constexpr double reached =
    0.5 * 989e12;  // FLOP/s of large products: half of what an H100 can do
inline constexpr double attention_reached = 0.3 * 989e12;
inline constexpr double link = 450e9;  // bytes per second of a GPU inside its node

// A profile by formulas, where nobody has measured one. Products reach half their speed at 256
// rows; tensor parallelism adds two all-reduces of 2 bytes per token and channel to a layer's
// forward, which nothing hides. A GPU holds 16 bytes of each parameter, and of each token and layer
// 34 bytes per channel where attention is recomputed, 2 where all is (V. Korthikanti et al., arXiv
// 2205.05198), as InternVL's own training has it for the encoder. An item of an encoder is so many
// tokens, which attend to themselves alone; for an LLM it is 0.
inline module_profile profile_of(std::string name, transformer_shape const& shape, tokens item,
                                 bool recomputed = false)
{
  transformer_shape layer = shape;
  layer.layers = 1;
  layer.vocabulary = 0;
  double const parameters =
      static_cast<double>(forward_flops(layer).value().linear) / 2;  // multiply and add
  double const h = shape.hidden;
  auto const flops =
      step_flops(forward_flops(shape).value(), {.recompute = recomputed ? 1U : 0U}).value();
  module_profile module{std::move(name), shape.layers, flops, {}};
  if (item > 0) { module.flops = {static_cast<std::uint64_t>(flops.exact(item)), 0}; }
  tokens const unit = std::max<tokens>(item, 1);
  for (std::uint32_t const tp : {1U, 2U, 4U, 8U}) {
    double const sent = 8 * h * (tp - 1) / link;  // of a token; divided by tp, as its FLOP
    double const shared = 1 / (1 + sent * reached / (2 * parameters));
    std::vector<tokens> sizes;
    std::vector<double> linear, attention;
    for (tokens size = item > 0 ? 1 : 64; size * unit <= 1 << 20; size *= 2) {
      auto const rows = static_cast<double>(size * unit);
      sizes.push_back(size);
      linear.push_back(reached * shared * rows / (rows + 256));
      attention.push_back(attention_reached * rows / (rows + 256));
    }
    auto const bytes = [tp](double all) { return static_cast<std::uint64_t>(all / tp); };
    auto const state = [&](double layers) {
      return bytes(16 * (layers * parameters + h * shape.vocabulary));
    };
    auto const held = [&](double layers) {
      return bytes((recomputed ? 2 : 34) * h * layers * static_cast<double>(64 * unit));
    };
    module.degrees.push_back({tp,
                              interpolated_throughput::make(sizes, linear).value(),
                              interpolated_throughput::make(sizes, attention).value(),
                              {.layers = {1, shape.layers},
                               .state_bytes = {state(1), state(shape.layers)},
                               .sizes = {0, 64},
                               .activation_bytes = {{{0, held(1)}, {0, held(shape.layers)}}}}});
  }
  return module;
}

}  // namespace dflop_models
