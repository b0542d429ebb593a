// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/packing/packing_plan.hpp>

#include <bit>

namespace ballast::inline v0 {

/// Heaviest sample first, each into the lowest-numbered bin that has room for it.
///
/// Bins are the leaves of a tournament: every inner node knows the most room of any bin below it,
/// so one descent finds the first bin with room. Bins that hold nothing yet are leaves with all
/// their room; finding such a bin opens it.
///
/// Ensures     (1) every sample has one bin, no bin holds more than the capacity, none is empty
///             (2) bins <= 11/9 * fewest + 6/9
///             (3) equal weights go in sample order
/// Complexity  O(n log b) for b bins, after the sort that the problem brings; at most 32 bytes of
///             scratch per sample.
/// Source      D. S. Johnson, "Near-Optimal Bin Packing Algorithms", PhD thesis, MIT, 1973, also
///             for the tree; (2) G. Dosa, "The Tight Bound of First Fit Decreasing Bin-Packing
///             Algorithm Is FFD(I) <= 11/9 OPT(I) + 6/9", ESCAPE 2007, LNCS 4614.
struct first_fit_decreasing {
  std::size_t operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    detail::expect_packing_arrays(problem, owner);
    // A bin is opened by a sample that does not fit the one before, so any two neighbours together
    // hold more than the capacity, and more bins than this cannot be needed.
    std::uint64_t total = 0;
    for (std::int64_t const weight : problem.weights) {
      total += static_cast<std::uint64_t>(weight);
    }
    auto const capacity = static_cast<std::uint64_t>(std::max<std::int64_t>(problem.capacity, 1));
    std::size_t const most = std::min<std::uint64_t>(owner.size(), 2 * (total / capacity) + 2);

    std::size_t const leaves = std::bit_ceil(std::max<std::size_t>(most, 1));
    auto scratch = memory.open();
    std::span<std::int64_t> const room = scratch.take<std::int64_t>(2 * leaves);
    std::fill(room.begin(), room.end(), problem.capacity);

    std::size_t bins = 0;
    for (auto const [weight, sample] : problem.heaviest_first) {
      std::size_t node = 1;
      while (node < leaves) { node = 2 * node + (room[2 * node] < weight ? 1 : 0); }
      owner[to_index(sample)] = to_id<bag_id>(node - leaves);
      bins = std::max(bins, node - leaves + 1);
      room[node] -= weight;
      while (node > 1) {
        node /= 2;
        std::int64_t const most_room = std::max(room[2 * node], room[2 * node + 1]);
        if (room[node] == most_room) { break; }
        room[node] = most_room;
      }
    }
    return bins;
  }

  friend bool operator==(first_fit_decreasing, first_fit_decreasing) = default;
};

}  // namespace ballast::inline v0
