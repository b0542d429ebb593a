// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_MEMORY_PROFILER_HPP
#define BALLAST_RUNTIME_MEMORY_PROFILER_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/profile_file.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

/// What the memory of a GPU is measured for: so many layers of a module, and a microbatch of a
/// size.
struct memory_probe {
  std::uint32_t tp = 1;
  std::uint32_t layers = 1;
  tokens size = 0;
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  friend bool operator==(memory_probe const&, memory_probe const&) = default;
};

/// The bytes that one GPU held: weights, gradients and optimiser, and the activations of one
/// microbatch between its forward and its backward pass.
struct held_bytes {
  std::uint64_t state = 0;
  std::uint64_t activations = 0;
};

/// Measures the memory of a module at two numbers of layers and at two sizes, as module_memory
/// wants it, and adds it to a profile; degrees of which the file has it are not measured again.
///
/// measure(probe) returns held_bytes or a result of them; it is called four times for a degree.
///
/// In, out     file: keeps what it has; a degree is added whole or not at all.
/// Errors      those of check_memory, and of measure.
template <std::invocable<memory_probe const&> Measure>
[[nodiscard]] result<void> profile_memory(profile_file& file, std::string_view module,
                                          std::span<parallel_degree const> degrees,
                                          std::array<std::uint32_t, 2> layers,
                                          std::array<tokens, 2> sizes, Measure&& measure)
{
  module_memory wanted;
  wanted.layers = layers;
  wanted.sizes = sizes;
  if (auto checked = check_memory(wanted); !checked) { return checked; }
  for (auto const& [tp, sp, ep] : degrees) {
    measured_degree& degree = find_or_add_degree(find_or_add_module(file, module), {tp, sp, ep});
    if (!degree.state.empty() || !degree.activations.empty()) { continue; }
    std::vector<memory_point> state;
    std::vector<memory_point> activations;
    for (std::uint32_t const of_layers : layers) {
      for (tokens const size : sizes) {
        result<held_bytes> const held = measure(memory_probe{tp, of_layers, size, sp, ep});
        if (!held) { return tl::unexpected(held.error()); }
        // The state does not depend on the size; the larger of two is the safe one.
        if (!add_point(state, {of_layers, 0, held->state})) {
          state.back().bytes = std::max(state.back().bytes, held->state);
        }
        (void)add_point(activations, {of_layers, size, held->activations});
      }
    }
    degree.state = state;
    degree.activations = activations;
  }
  return {};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_MEMORY_PROFILER_HPP
