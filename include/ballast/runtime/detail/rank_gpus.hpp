// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_RANK_GPUS_HPP
#define BALLAST_RUNTIME_DETAIL_RANK_GPUS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The GPUs of a rank: one, or those of a process that has several, as many as any other.
struct rank_gpus {
  rank_id rank{};
  std::uint32_t each = 1;

  /// One of them, in whatever has an entry for each.
  [[nodiscard]] std::uint32_t checked(std::uint32_t local) const
  {
    BALLAST_EXPECTS(local < each, "GPU ", local, " of a rank that has ", each);
    return local;
  }

  /// The same among all GPUs of the job.
  [[nodiscard]] rank_id operator[](std::uint32_t local) const
  {
    return to_id<rank_id>(to_index(rank) * each + checked(local));
  }

  /// The same among those of its bag.
  [[nodiscard]] std::uint32_t in_bag(bag_layout const& bags, std::uint32_t local) const
  {
    rank_id const gpu = (*this)[local];
    return static_cast<std::uint32_t>(to_index(gpu) - to_index(bags[bags.bag_of(gpu)].first));
  }

  /// Its rows in the rank's arrays, where those of one GPU lie behind those of the one before.
  ///
  /// Shapes      heads[each], of the bags of these GPUs.
  [[nodiscard]] row_range rows(bag_layout const& bags, std::span<ulysses_plan const> heads,
                               std::uint32_t local) const
  {
    row_range all{0, heads[0].rows(in_bag(bags, 0))};
    for (std::uint32_t next = 1; next <= local; ++next) {
      all = {all.first + all.count, heads[next].rows(in_bag(bags, next))};
    }
    return all;
  }

  /// Where the ranks' arrays have what lies on their GPUs; `joined` is memory for it.
  [[nodiscard]] placement const& over_ranks(placement& over_gpus, placement& joined) const
  {
    if (each == 1) { return over_gpus; }
    join_ranks_into(joined, over_gpus, each);
    return joined;
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_RANK_GPUS_HPP
