// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_BEST_FIT_DECREASING_HPP
#define BALLAST_PARTITION_PACKING_BEST_FIT_DECREASING_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/packing/concepts.hpp>
#include <ballast/partition/packing/detail/bins_by_room.hpp>
#include <ballast/partition/packing/detail/packing_arrays.hpp>
#include <ballast/partition/packing/detail/room_tree.hpp>

#include <cstddef>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// Best fit decreasing with either set of bins by room: `bins_by_room` or `room_tree`.
///
/// Shapes      owner[n].
/// Expects     a valid packing_problem; `bins` has room for n bins and holds none yet.
/// Returns     the number of bins.
template <class Bins>
[[nodiscard]] std::size_t best_fit_into(std::span<bag_id> owner, packing_problem const& problem,
                                        Bins bins)
{
  std::size_t opened = 0;
  for (auto const [weight, sample] : problem.heaviest_first) {
    auto const open = bins.take_tightest(weight);
    bag_id const bin = open ? open->bin : to_id<bag_id>(opened++);
    bins.put(bin, (open ? open->room : problem.capacity) - weight);
    owner[to_index(sample)] = bin;
  }
  return opened;
}

}  // namespace detail

/// Heaviest sample first, each into the bin where it leaves the least room.
///
/// Ensures     (1) every sample has one bin, no bin holds more than the capacity, none is empty
///             (2) bins <= 11/9 * fewest + 4
///             (3) equal weights go in sample order, and of bins with equal room to the one that
///                 was filled last
/// Complexity  after the sort that the problem brings O(n + capacity / 64) up to a capacity of
///             2^22, O(n log b) for b bins above it; 4 bytes of scratch per unit of capacity, or 24
///             per sample.
/// Source      D. S. Johnson, A. Demers, J. D. Ullman, M. R. Garey, R. L. Graham, "Worst-Case
///             Performance Bounds for Simple One-Dimensional Packing Algorithms", SIAM J. Comput.
///             3(4):299-325, 1974.
struct best_fit_decreasing {
  std::size_t operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    detail::expect_packing_arrays(problem, owner);
    auto scratch = memory.open();
    if (problem.capacity <= detail::bins_by_room::largest_capacity) {
      return detail::best_fit_into(owner, problem,
                                   detail::bins_by_room(problem.capacity, owner.size(), scratch));
    }
    return detail::best_fit_into(owner, problem, detail::room_tree(owner.size(), scratch));
  }

  friend bool operator==(best_fit_decreasing, best_fit_decreasing) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PACKING_BEST_FIT_DECREASING_HPP
