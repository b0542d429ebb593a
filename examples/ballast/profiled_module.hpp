// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/block_weights.hpp"
#include "layer_device.hpp"
#include "layer_part.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/model_profiler.hpp>

namespace cli {

/// A module that is profiled, and what its layers are.
struct profiled_module {
  ballast::model_profiler grid;
  ballast::transformer_shape shape;
  std::size_t tokens_per_item = 0;  // 0: sizes are tokens

  /// What one GPU of a tensor-parallel group has of a layer.
  [[nodiscard]] block::shape share(std::uint32_t tp) const
  {
    return {shape.hidden, shape.heads / tp, shape.kv_heads / tp, shape.head_dim,
            shape.ffn_hidden / tp};
  }
};

/// Adds what a trainer's layers hold to the file.
[[nodiscard]] inline ballast::result<void> measure_memory(ballast::profile_file& file,
                                                          profiled_module const& module,
                                                          layer_device const& device)
{
  auto const [least, most] = std::ranges::minmax(module.grid.sizes);
  return module.grid.profile_memory(file, {1, module.grid.layers + 1}, {least, most},
                                    [&](ballast::model_profiler::point const& probe) {
                                      block::shape const shape = module.share(probe.tp);
                                      auto const rows =
                                          static_cast<std::size_t>(probe.size) *
                                          std::max<std::size_t>(module.tokens_per_item, 1);
                                      return ballast::model_profiler::held_bytes{
                                          probe.layers * device.state_bytes(shape),
                                          probe.layers * rows * device.activation_bytes(shape)};
                                    });
}

/// Adds the speeds that the file lacks. report: as of model_profiler.
template <class Report>
[[nodiscard]] ballast::result<ballast::model_profiler::summary> measure_speeds(
    ballast::profile_file& file, profiled_module const& module, layer_device& device,
    Report const& report)
{
  auto const prepare = [&](ballast::model_profiler::point const& point) {
    auto const size = static_cast<std::size_t>(point.size);
    bool const of_items = module.tokens_per_item > 0;
    layer_part const part = of_items             ? layer_part::both
                            : point.is_attention ? layer_part::attention
                                                 : layer_part::weights;
    return device.prepare(module.share(point.tp), of_items ? size : 1,
                          of_items ? module.tokens_per_item : size, part);
  };
  device_clock clock(device);
  return module.grid.profile(file, prepare, clock, report);
}

}  // namespace cli
