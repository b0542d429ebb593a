// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_BEST_FIT_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_BEST_FIT_HPP

#include <ballast/core/ids.hpp>
#include <ballast/partition/packing/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

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
    bag_id bin{};
    std::int64_t room = problem.capacity;
    if (!bins.take_tightest(weight, bin, room)) { bin = to_id<bag_id>(opened++); }
    bins.put(bin, room - weight);
    owner[to_index(sample)] = bin;
  }
  return opened;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_BEST_FIT_HPP
