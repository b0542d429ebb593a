// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_VECTORS_CONCEPTS_HPP
#define BALLAST_PARTITION_VECTORS_CONCEPTS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/bin_id.hpp>
#include <ballast/partition/concepts.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// What a sample, or a bin of samples, costs each of D parts of a model that run side by side, as
/// encoder and LLM.
template <std::size_t D>
using cost_vector = std::array<cost_units, D>;

/// The input of every policy over vectors: n samples to put in m bins.
///
/// `partition_vectors()` builds it and checks what is expected here. A caller that runs a policy
/// directly has to keep to it. With costs alone all bins are equal, and every sample fits each.
///
/// Shapes      costs[n]; lengths[n] and gpus[m], or both empty where every sample fits every bin;
///             speeds[m], or empty where all bins are equally fast; weights[n] and capacities[m],
///             or both empty where bins hold everything.
/// Units       all dimensions share one unit of time, since the objective compares them: in each, a
///             bin of speed s does s of its units per unit of time.
/// Expects     (a) costs are not negative, and in every dimension they add up to less than 2^63,
///                 starting loads included
///             (b) speeds are at least 1, and every sample fits at least one bin
///             (c) weights are not negative and add up to less than 2^63
template <std::size_t D>
struct vector_problem {
  static_assert(D >= 1);
  std::span<cost_vector<D> const> costs;
  std::span<tokens const> lengths = {};
  std::span<std::uint32_t const> gpus = {};  ///< of the bag that computes each bin
  std::span<std::uint32_t const> speeds = {};
  std::span<std::int64_t const> weights = {};     ///< what each sample takes of the capacity
  std::span<std::int64_t const> capacities = {};  ///< the most weight that each bin can hold

  [[nodiscard]] constexpr std::uint32_t speed(std::size_t bin) const noexcept
  {
    return speeds.empty() ? 1 : speeds[bin];
  }

  /// Whether the bin splits the sample, or has one GPU for it: see `partition_problem::fits`.
  [[nodiscard]] constexpr bool fits(std::size_t sample, std::size_t bin) const noexcept
  {
    return gpus.empty() || partition_problem::fits(lengths[sample], gpus[bin]);
  }

  [[nodiscard]] constexpr bool one_speed() const noexcept
  {
    return std::all_of(speeds.begin(), speeds.end(),
                       [this](std::uint32_t speed) { return speed == speeds.front(); });
  }

  /// Whether every sample can go to every bin, whatever lies there.
  [[nodiscard]] constexpr bool any_bin_is_open() const noexcept
  {
    if (!capacities.empty()) { return false; }
    if (gpus.empty()) { return true; }
    std::uint32_t const largest = *std::max_element(gpus.begin(), gpus.end());
    return std::all_of(lengths.begin(), lengths.end(), [largest](tokens length) {
      return partition_problem::fits(length, largest);
    });
  }
};

/// Decides which bin owns each sample, so that the largest load per speed of any bin in any
/// dimension is small.
///
/// In, out     loads[m] enters as work that each bin already has and leaves as the total; m >= 1.
///             owner[n] enters as bin m, which does not exist, and leaves with one bin per sample,
///             which the sample fits. Where there are capacities, a sample for which the policy
///             found no room may keep bin m.
///             memory is scratch that the policy gives back.
/// A policy is a value, usually without state, with its parameters as public members. One that
/// looks at costs alone serves equal bins.
template <class P, std::size_t D>
concept vector_partition_policy =
    requires(P const policy, vector_problem<D> const& problem, std::span<cost_vector<D>> loads,
             std::span<bin_id> owner, workspace& memory) {
      { policy(problem, loads, owner, memory) } -> std::same_as<void>;
    };

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_VECTORS_CONCEPTS_HPP
