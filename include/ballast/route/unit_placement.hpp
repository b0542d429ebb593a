// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_UNIT_PLACEMENT_HPP
#define BALLAST_ROUTE_UNIT_PLACEMENT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/place.hpp>
#include <ballast/route/placement.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0 {

/// The ranks of two units that exchange samples: process_grid::data_ranks of the last stage of the
/// one and of the first stage of the other. A rank may be in both.
struct unit_pair {
  std::span<rank_id const> senders;    ///< A of them
  std::span<rank_id const> receivers;  ///< B of them

  /// gcd(A, B): into so many groups of ranks both units can be cut.
  [[nodiscard]] std::size_t groups() const noexcept
  {
    return std::gcd(senders.size(), receivers.size());
  }
};

/// Places the samples of a batch on the ranks of a unit, in sample order: each rank has consecutive
/// samples, and rank after rank they are the whole batch.
///
/// The samples are cut into `groups` shares, as equal as possible, and each share over as many
/// ranks of the unit. With unit_pair::groups() for both units, the senders of a group have just the
/// samples of its receivers, whatever the number of samples.
///
/// In, out     where is overwritten; its memory is used again in the next step.
/// Expects     lengths from 0 to longest_sample; ranks of the unit below `ranks`, a multiple of
///             `groups` of them, at least one.
/// Complexity  O(samples + ranks); no allocation after a step as large.
inline void assign_unit(placement& where, workspace& memory, std::span<tokens const> lengths,
                        std::span<rank_id const> unit, std::size_t groups, std::size_t ranks)
{
  BALLAST_EXPECTS(!unit.empty() && groups >= 1 && unit.size() % groups == 0, "a unit of ",
                  detail::counted(unit.size(), "rank"), " does not consist of ",
                  detail::counted(groups, "equal group"));
  auto scratch = memory.open();
  auto const owner = scratch.take<rank_id>(lengths.size());
  auto const per_group = static_cast<std::uint32_t>(unit.size() / groups);
  for (std::uint32_t group = 0; group < groups; ++group) {
    auto const of_group = chunk_of(static_cast<std::int64_t>(lengths.size()),
                                   static_cast<std::uint32_t>(groups), group);
    for (std::uint32_t place = 0; place < per_group; ++place) {
      auto const share = chunk_of(of_group.count, per_group, place);
      auto const first = static_cast<std::size_t>(of_group.first + share.first);
      auto const own = owner.subspan(first, static_cast<std::size_t>(share.count));
      std::fill(own.begin(), own.end(), unit[std::size_t{group} * per_group + place]);
    }
  }
  place_into(where, lengths, owner, ranks);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_UNIT_PLACEMENT_HPP
