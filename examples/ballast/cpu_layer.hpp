// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/block_attention.hpp"
#include "../common/block_math.hpp"
#include "../common/block_weights.hpp"
#include "layer_part.hpp"

#include <ballast/core.hpp>

namespace cli {

/// A layer of the transformer block in examples/common on one core, for the profiler. It computes
/// sequences of one length, which attend to themselves alone.
///
/// Its shape is what one GPU of a tensor-parallel group has: a share of the heads and of the hidden
/// columns. What the GPUs of the group would send each other is not part of it.
class cpu_layer {
 public:
  cpu_layer(block::shape const& shape, std::size_t sequences, std::size_t length, layer_part part);
  cpu_layer(cpu_layer const&) = delete;
  cpu_layer& operator=(cpu_layer const&) = delete;

  void forward();
  void backward();

  /// What a layer holds: weights, their gradients and two moments of Adam.
  [[nodiscard]] static std::size_t state_bytes(block::shape const& shape);
  /// What a layer keeps of a row between forward() and backward().
  [[nodiscard]] static std::size_t activation_bytes(block::shape const& shape);

 private:
  layer_part part_;
  std::vector<ballast::tokens> lengths_;
  block::parameters weights_;
  block::parameters gradients_;
  block::block_weights layer_;
  block::block_attention attention_;
  block::values x_, y_, dx_, q_, k_, v_, o_;
};

}  // namespace cli
