// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_CPU_MODULES_HPP
#define BALLAST_EXAMPLES_CPU_MODULES_HPP

#include "../common/block_weights.hpp"
#include "outcome.hpp"
#include "profile_command.hpp"

#include <ballast/cost/transformer_shape.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cli {

/// A module of the command line: what is profiled, and what computes it.
struct cpu_module {
  ballast::profiler_grid grid;
  ballast::transformer_shape shape;
  std::size_t tokens_per_item = 0;  // 0: sizes are tokens

  /// What one GPU of a tensor-parallel group has of a layer.
  [[nodiscard]] block::shape share(std::uint32_t tp) const
  {
    return {shape.hidden, shape.heads / tp, shape.kv_heads / tp, shape.head_dim,
            shape.ffn_hidden / tp};
  }
};

/// The encoder, where there is one, and then the LLM.
[[nodiscard]] outcome<std::vector<cpu_module>> read_modules(profile_options const& options);

}  // namespace cli

#endif  // BALLAST_EXAMPLES_CPU_MODULES_HPP
