// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_MODULE_MEMORY_HPP
#define BALLAST_COST_MODULE_MEMORY_HPP

#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/units.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace ballast::inline v0 {

/// What a GPU holds of a module at one tensor-parallel degree, as measured with two numbers of
/// layers: state (weights, gradients, optimiser), and activations of a microbatch of two sizes.
///
/// Between the measurements and beyond them it is linear in the layers and in the size, since layers
/// are alike and fused attention keeps no l x l matrix. Measure the numbers of layers and the sizes
/// that stages will have, or what lies around them.
///
/// Shapes      activation_bytes[of layers][of size].
/// Units       bytes of one GPU; sizes in tokens, or in the items of an encoder.
struct module_memory {
  std::array<std::uint32_t, 2> layers{1, 2};
  std::array<std::uint64_t, 2> state_bytes{};
  std::array<tokens, 2> sizes{0, 1};
  std::array<std::array<std::uint64_t, 2>, 2> activation_bytes{};

  /// Of a stage of so many layers.
  ///
  /// Ensures     (1) exact where it was measured, else rounded up; at least 0, at most 2^64 - 1
  /// Complexity  O(1).
  [[nodiscard]] constexpr std::uint64_t state(std::uint32_t stage_layers) const noexcept
  {
    return line(layers[0], state_bytes[0], layers[1], state_bytes[1], stage_layers);
  }

  /// Of one microbatch of a size on a stage of so many layers. Expects size >= 0.
  ///
  /// Ensures     (1) exact where it was measured, else rounded up; at least 0, at most 2^64 - 1
  /// Complexity  O(1).
  [[nodiscard]] constexpr std::uint64_t activations(std::uint32_t stage_layers,
                                                    tokens size) const noexcept
  {
    std::array<std::uint64_t, 2> at_size{};
    for (std::size_t which = 0; which < 2; ++which) {
      at_size[which] =
          line(sizes[0], activation_bytes[which][0], sizes[1], activation_bytes[which][1], size);
    }
    return line(layers[0], at_size[0], layers[1], at_size[1], stage_layers);
  }

  friend bool operator==(module_memory const&, module_memory const&) = default;

 private:
  /// The straight line through (x0, y0) and (x1, y1) at x, rounded up; x0 < x1.
  [[nodiscard]] static constexpr std::uint64_t line(std::int64_t x0, std::uint64_t y0,
                                                    std::int64_t x1, std::uint64_t y1,
                                                    std::int64_t x) noexcept
  {
    // Positions are below 2^32, so both products are below 2^96.
    auto const width = static_cast<uint128>(x1 - x0);
    uint128 const from_first = static_cast<uint128>(x < x0 ? x0 - x : x - x0);
    uint128 const rise = (y0 < y1 ? y1 - y0 : y0 - y1) * from_first;
    bool const grows = (y0 < y1) == (x >= x0);
    if (!grows) {
      uint128 const fall = rise / width;
      return fall < y0 ? static_cast<std::uint64_t>(y0 - fall) : 0;
    }
    uint128 const sum = y0 + (rise + width - 1) / width;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return sum < most ? static_cast<std::uint64_t>(sum) : most;
  }
};

/// Refuses a memory that is no pair of lines.
///
/// Errors      out_of_range, position 0: layers are not 0 < first < second; position 1: sizes are not
///             0 <= first < second <= longest_sample.
[[nodiscard]] inline result<void> check_memory(module_memory const& memory)
{
  if (memory.layers[0] == 0 || memory.layers[0] >= memory.layers[1]) {
    return fail(error_code::out_of_range, 0,
                "memory was measured with " + std::to_string(memory.layers[0]) + " and " +
                    std::to_string(memory.layers[1]) +
                    " layers; measure two numbers of layers, the smaller first");
  }
  if (memory.sizes[0] < 0 || memory.sizes[0] >= memory.sizes[1] ||
      memory.sizes[1] > longest_sample) {
    return fail(error_code::out_of_range, 1,
                "activations were measured at sizes " + std::to_string(memory.sizes[0]) + " and " +
                    std::to_string(memory.sizes[1]) + "; measure two sizes from 0 to " +
                    std::to_string(longest_sample) + ", the smaller first");
  }
  return {};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_MODULE_MEMORY_HPP
