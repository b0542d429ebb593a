// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_JOIN_RANKS_HPP
#define BALLAST_ROUTE_JOIN_RANKS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/place.hpp>
#include <ballast/route/placement.hpp>

#include <cstddef>

namespace ballast::inline v0 {

/// The same tokens where each process has the arrays of several ranks, as of its GPUs: process p
/// has those of ranks p x joined to (p + 1) x joined - 1, one behind the other, and is rank p here.
///
/// Expects     joined >= 1, and the ranks of `each` are a multiple of it; where is not `each`.
/// Complexity  O(pieces x joined + ranks); no allocation after a step as large.
inline void join_ranks_into(placement& where, placement const& each, std::size_t joined)
{
  BALLAST_EXPECTS(&where != &each, "a placement cannot be joined in place");
  BALLAST_EXPECTS(joined >= 1 && each.ranks() % joined == 0, "a placement over ",
                  detail::counted(each.ranks(), "rank"), " cannot be one over processes of ",
                  joined);
  detail::placement_writer write(where, each.ranks() / joined);
  for (std::size_t rank = 0; rank < each.ranks(); ++rank) {
    write.rows()[rank / joined] += each.rows(to_id<rank_id>(rank));
  }
  for (std::size_t sample = 0; sample < each.size(); ++sample) {
    for (piece part : each[to_id<sample_id>(sample)]) {
      std::size_t const process = to_index(part.rank) / joined;
      for (std::size_t rank = process * joined; rank < to_index(part.rank); ++rank) {
        part.row += each.rows(to_id<rank_id>(rank));
      }
      part.rank = to_id<rank_id>(process);
      write.add(part);
    }
    write.end_sample();
  }
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_JOIN_RANKS_HPP
