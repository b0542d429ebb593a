// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// Layers, all alike, whose weights, gradients and optimiser are sharded over ranks (FSDP, ZeRO-3).
/// For each microbatch every rank gathers the weights of a layer before its forward and again before
/// its backward, and then reduces and scatters its gradients.
///
/// All ranks gather together: one that computes fewer microbatches gathers for dummy passes, or the
/// others hang.
///
/// Units       bytes of all layers as one rank computes them; picoseconds.
/// Expects     layers and ranks are at least 1.
/// Source      S. Rajbhandari et al., "ZeRO", SC 2020, stage 3; Y. Zhao et al., "PyTorch FSDP",
///             VLDB 2023.
struct sharded_weights {
  std::uint32_t layers = 1;
  std::uint32_t ranks = 1;
  std::uint64_t weight_bytes = 0;
  std::uint64_t gradient_bytes = 0;   ///< 0: weights are frozen, and nothing is scattered
  std::uint64_t optimizer_bytes = 0;  ///< 0: as well
  /// What a rank receives and sends at a time; 0: gathers take no time.
  std::uint64_t bytes_per_second = 0;
  bool has_backward = true;  ///< else a microbatch passes forward alone

  /// What a rank receives of others to gather a layer once, or sends of its gradients, rounded up.
  [[nodiscard]] constexpr std::uint64_t of_layer(std::uint64_t bytes) const noexcept
  {
    return static_cast<std::uint64_t>(rounded_up(static_cast<uint128>(bytes) * (ranks - 1),
                                                 static_cast<uint128>(layers) * ranks));
  }

  /// The time to gather all layers once, one after the other; no_cost where it does not fit.
  [[nodiscard]] constexpr time_units gathering() const noexcept { return passing(weight_bytes); }
  /// The time to scatter their gradients.
  [[nodiscard]] constexpr time_units scattering() const noexcept { return passing(gradient_bytes); }

  /// The time of a microbatch that computes for so long in all layers, forward and backward, on
  /// `stages` ranks that each have a part of them one after the other.
  ///
  /// A layer is gathered while the one before it computes, and its gradients are scattered while
  /// the next one does. So of each pass over a stage the longer of computing and passing counts, and
  /// one layer's part of the shorter: the first gather and the last scatter, or the computing beside
  /// which nothing is left to gather.
  ///
  /// Expects     1 <= stages <= layers; times >= 0; backward is 0 where there is none.
  /// Ensures     (1) forward + backward where gathers take no time; else no less than that, and no
  ///                 more than that and all gathers and scatters; it falls with neither time
  ///             (2) of gathers and scatters that wait for each other on one link, at most one
  ///                 layer's backward too long
  ///             (3) rounded up; no_cost where it does not fit
  [[nodiscard]] constexpr time_units microbatch(time_units forward, time_units backward,
                                                std::uint32_t stages = 1) const noexcept
  {
    uint128 all = beside(forward, static_cast<uint128>(gathering()), stages);
    if (has_backward) {
      uint128 const passed = static_cast<uint128>(gathering()) + static_cast<uint128>(scattering());
      all += beside(backward, passed, stages);
    }
    return all < static_cast<uint128>(no_cost) ? static_cast<time_units>(all) : no_cost;
  }

  /// What a rank holds at most: its part of all, and of two layers all weights and gradients, the
  /// layer that it computes and the one that it gathers or scatters meanwhile.
  [[nodiscard]] constexpr std::uint64_t held_bytes() const noexcept
  {
    uint128 const computed = static_cast<uint128>(weight_bytes) + gradient_bytes;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    uint128 const held = rounded_up(computed + optimizer_bytes, ranks) +
                         rounded_up(computed * std::min(layers, 2U), layers);
    return held < most ? static_cast<std::uint64_t>(held) : most;
  }

 private:
  [[nodiscard]] static constexpr uint128 rounded_up(uint128 value, uint128 by) noexcept
  {
    return (value + by - 1) / by;
  }

  [[nodiscard]] constexpr time_units passing(std::uint64_t bytes) const noexcept
  {
    if (bytes_per_second == 0) { return 0; }
    constexpr std::uint64_t picoseconds = 1'000'000'000'000;
    uint128 const sent = rounded_up(static_cast<uint128>(bytes) * (ranks - 1), ranks);
    uint128 const time = rounded_up(sent * picoseconds, bytes_per_second);  // below 2^64 2^40
    return time < static_cast<uint128>(no_cost) ? static_cast<time_units>(time) : no_cost;
  }

  [[nodiscard]] constexpr uint128 beside(time_units computing, uint128 passed,
                                         std::uint32_t stages) const noexcept
  {
    auto const own = static_cast<uint128>(computing);
    if (passed == 0) { return own; }
    return std::max(own, passed) + rounded_up(std::min(own, passed) * stages, layers);
  }
};

}  // namespace ballast::inline v0
