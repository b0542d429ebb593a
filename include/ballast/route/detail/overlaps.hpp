// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_OVERLAPS_HPP
#define BALLAST_ROUTE_DETAIL_OVERLAPS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/placement.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>

namespace ballast::inline v0::detail {

/// Consecutive tokens of a sample that are consecutive in both of two placements: `count` of them,
/// from row `from_row` of rank `from` to row `to_row` of rank `to`.
struct token_overlap {
  rank_id from{};
  rank_id to{};
  tokens from_row = 0;
  tokens to_row = 0;
  tokens count = 0;

  friend constexpr bool operator==(token_overlap const&, token_overlap const&) = default;
};

/// Calls visit(token_overlap) for the overlaps of two placements, sample by sample and in token
/// order: so all ranks visit them in the same order without communication.
///
/// Expects     placements of the same samples over the same number of ranks.
/// Ensures     the overlaps of a sample, in order, are its tokens, each once
/// Complexity  O(samples + pieces of both).
template <std::invocable<token_overlap const&> Visit>
void for_each_overlap(placement const& from, placement const& to, Visit&& visit)
{
  BALLAST_EXPECTS(from.size() == to.size(), "one placement has ", counted(from.size(), "sample"),
                  " and the other ", to.size());
  BALLAST_EXPECTS(from.ranks() == to.ranks(), "one placement is over ",
                  counted(from.ranks(), "rank"), " and the other over ", to.ranks());
  for (std::size_t sample = 0; sample < from.size(); ++sample) {
    auto const id = to_id<sample_id>(sample);
    BALLAST_EXPECTS(from.length(id) == to.length(id), "sample ", sample, " has ",
                    counted(from.length(id), "token"), " in one placement and ", to.length(id),
                    " in the other");
    auto const sources = from[id];
    auto const targets = to[id];
    auto source = sources.begin();
    auto target = targets.begin();
    while (source != sources.end()) {
      tokens const first = std::max(source->first, target->first);
      tokens const source_end = source->first + source->count;
      tokens const target_end = target->first + target->count;
      tokens const end = std::min(source_end, target_end);
      visit(token_overlap{source->rank, target->rank, source->row + first - source->first,
                          target->row + first - target->first, end - first});
      if (source_end == end) { ++source; }
      if (target_end == end) { ++target; }
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_OVERLAPS_HPP
