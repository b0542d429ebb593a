// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_CONCEPTS_HPP
#define BALLAST_PARTITION_GRID_CONCEPTS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/grid_options.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0 {

/// What the cells of a slot hold: samples of one kind, from `least` to `most` of them and a
/// multiple of `step`.
struct grid_slot {
  std::uint32_t kind = 0;
  std::uint32_t least = 0;
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t step = 1;

  [[nodiscard]] constexpr bool takes(std::uint32_t samples) const noexcept
  {
    return samples >= least && samples <= most && samples % step == 0;
  }
  /// Whether a cell can be filled one sample at a time, and left whenever it is.
  [[nodiscard]] constexpr bool grows() const noexcept { return least == 0 && step == 1; }

  friend constexpr bool operator==(grid_slot, grid_slot) = default;
};

/// The input of every grid policy: n items (samples, or samples that stay together) for the cells
/// of a grid of ranks and slots.
///
/// `partition_grid()` builds it and checks what is expected here.
///
/// Shapes      costs[n], weights[n], counts[n], kinds[n], heaviest_first[n]; most_weights[ranks];
///             slots[microbatches].
/// Expects     (a) costs and weights are not negative and add up to less than 2^63
///             (b) heaviest_first is the `descending_order_into` of the costs
///             (c) ranks and microbatches are at least 1 and cells fewer than 2^32
///             (d) every kind has a slot, and slots of one kind are next to each other
struct grid_problem {
  std::span<cost_units const> costs;
  std::span<std::int64_t const> weights;
  std::span<std::uint32_t const> counts;  ///< samples of each item
  std::span<std::uint32_t const> kinds;
  std::span<priced_sample const> heaviest_first;
  std::span<std::int64_t const> most_weights;
  std::span<grid_slot const> slots;
  grid_meeting meet = grid_meeting::step;

  [[nodiscard]] constexpr std::size_t ranks() const noexcept { return most_weights.size(); }
  [[nodiscard]] constexpr std::size_t cells() const noexcept { return ranks() * slots.size(); }
};

/// Decides which cell each item is computed in.
///
/// In, out     owner[n] enters unspecified and leaves with one cell per item, each of a slot of the
///             item's kind, no cell above the weight of its rank, and counts that slots take.
///             memory is scratch that the policy gives back.
/// Returns     whether it found such a plan; otherwise owner is unspecified.
/// A policy is a value, usually without state, with its parameters as public members.
template <class P>
concept grid_policy = requires(P const policy, grid_problem const& problem,
                               std::span<cell_id> owner, workspace& memory) {
  { policy(problem, owner, memory) } -> std::same_as<bool>;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_GRID_CONCEPTS_HPP
