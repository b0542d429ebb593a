// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_MODULE_MEMORY_HPP
#define BALLAST_COST_MODULE_MEMORY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/text/detail/counted.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace ballast::inline v0 {

/// What a GPU holds of a module at one tensor-parallel degree, as measured with two numbers of
/// layers: state (weights, gradients, optimiser), and activations of a microbatch of two sizes.
///
/// Between the measurements and beyond them it is linear in the layers and in the size, since
/// layers are alike and fused attention keeps no l x l matrix. Measure the numbers of layers and
/// the sizes that stages will have, or what lies around them.
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
  ///             (2) a larger size never takes less
  /// Complexity  O(1).
  [[nodiscard]] constexpr std::uint64_t activations(std::uint32_t stage_layers,
                                                    tokens size) const noexcept
  {
    auto const [first, second] = activations_of_sizes(stage_layers);
    return line(sizes[0], first, sizes[1], second, size);
  }

  /// The largest size of which one microbatch takes at most so many bytes on a stage of so many
  /// layers; longest_sample where every size does, -1 where none does.
  /// Complexity  O(1).
  [[nodiscard]] constexpr tokens largest_size(std::uint32_t stage_layers,
                                              std::uint64_t bytes) const noexcept
  {
    if (activations(stage_layers, 0) > bytes) { return -1; }
    auto const [first, second] = activations_of_sizes(stage_layers);
    if (first == second) { return longest_sample; }
    auto const width = static_cast<uint128>(sizes[1] - sizes[0]);
    auto const rise = static_cast<uint128>(second - first);
    // Above the first size bytes are rounded up, so that this is the last size that has them; below
    // it they are what the first takes, less something rounded down.
    if (bytes >= first) {
      uint128 const beyond = (bytes - first) * width / rise;
      return beyond < static_cast<uint128>(longest_sample - sizes[0])
                 ? sizes[0] + static_cast<tokens>(beyond)
                 : longest_sample;
    }
    return sizes[0] - static_cast<tokens>(((first - bytes) * width + rise - 1) / rise);
  }

  friend bool operator==(module_memory const&, module_memory const&) = default;

 private:
  struct pair {
    std::uint64_t first;
    std::uint64_t second;
  };

  /// What the two measured sizes take on a stage of so many layers. Their difference is a line of
  /// its own, so that it is not negative beyond the measured layers either.
  [[nodiscard]] constexpr pair activations_of_sizes(std::uint32_t stage_layers) const noexcept
  {
    auto const& [few, many] = activation_bytes;
    std::uint64_t const first = line(layers[0], few[0], layers[1], many[0], stage_layers);
    std::uint64_t const rise =
        line(layers[0], few[1] - few[0], layers[1], many[1] - many[0], stage_layers);
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return {first, rise < most - first ? first + rise : most};
  }

  /// The straight line through (x0, y0) and (x1, y1) at x, rounded up; x0 < x1.
  [[nodiscard]] static constexpr std::uint64_t line(std::int64_t x0, std::uint64_t y0,
                                                    std::int64_t x1, std::uint64_t y1,
                                                    std::int64_t x) noexcept
  {
    // Positions are below 2^32, so both products are below 2^96.
    auto const width = static_cast<uint128>(x1 - x0);
    auto const from_first = static_cast<uint128>(x < x0 ? x0 - x : x - x0);
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
/// Errors      out_of_range, position 0: layers are not 0 < first < second; position 1: sizes are
///             not 0 <= first < second <= longest_sample; position 2: the larger size takes fewer
///             bytes.
[[nodiscard]] inline result<void> check_memory(module_memory const& memory)
{
  if (memory.layers[0] == 0 || memory.layers[0] >= memory.layers[1]) {
    return fail(error_code::out_of_range, 0, "memory was measured with ", memory.layers[0], " and ",
                detail::counted(memory.layers[1], "layer"),
                "; measure two numbers of layers, the smaller first");
  }
  if (memory.sizes[0] < 0 || memory.sizes[0] >= memory.sizes[1] ||
      memory.sizes[1] > longest_sample) {
    return fail(error_code::out_of_range, 1, "activations were measured at sizes ", memory.sizes[0],
                " and ", memory.sizes[1], "; measure two sizes from 0 to ", longest_sample,
                ", the smaller first");
  }
  for (std::size_t which = 0; which < 2; ++which) {
    auto const& [small, large] = memory.activation_bytes[which];
    if (small > large) {
      return fail(error_code::out_of_range, 2, "activations of ",
                  detail::counted(memory.layers[which], "layer"), " took ",
                  detail::counted(small, "byte"), " at size ", memory.sizes[0], " and ", large,
                  " at size ", memory.sizes[1], "; measure again, the larger takes more");
    }
  }
  return {};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_MODULE_MEMORY_HPP
