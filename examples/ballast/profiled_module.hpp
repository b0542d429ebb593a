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

/// Adds what a trainer's layers hold to the file.
[[nodiscard]] inline ballast::result<void> measure_memory(ballast::profile_file& file,
                                                          profiled_module const& module,
                                                          layer_device const& device)
{
  auto const [least, most] = std::ranges::minmax(module.grid.sizes);
  return ballast::profile_memory(
      file, module.grid.name, module.grid.degrees, {1, module.grid.layers + 1}, {least, most},
      [&](ballast::memory_probe const& probe) {
        block::shape const shape = module.share(probe.tp);
        auto const rows =
            static_cast<std::size_t>(probe.size) * std::max<std::size_t>(module.tokens_per_item, 1);
        return ballast::held_bytes{probe.layers * device.state_bytes(shape),
                                   probe.layers * rows * device.activation_bytes(shape)};
      });
}

/// Adds the speeds that the file lacks. report: as of profile_module.
template <class Report>
[[nodiscard]] ballast::result<ballast::profiler_summary> measure_speeds(
    ballast::profile_file& file, profiled_module const& module, layer_device& device,
    ballast::profiler_settings const& settings, Report const& report)
{
  auto const prepare = [&](ballast::profiler_point const& point) {
    auto const size = static_cast<std::size_t>(point.size);
    bool const of_items = module.tokens_per_item > 0;
    layer_part const part = of_items                                       ? layer_part::both
                            : point.part == ballast::profiled_part::linear ? layer_part::weights
                                                                           : layer_part::attention;
    return device.prepare(module.share(point.tp), of_items ? size : 1,
                          of_items ? module.tokens_per_item : size, part);
  };
  device_clock clock(device);
  return ballast::profile_module(file, module.grid, prepare, clock, settings, report);
}

}  // namespace cli
