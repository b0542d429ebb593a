// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_PLACE_WHOLES_HPP
#define BALLAST_ROUTE_PLACE_WHOLES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/place.hpp>
#include <ballast/route/placement.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ballast::inline v0 {

/// Parts of one kind, such as all images of a step, and where their tokens lie.
struct placed_parts {
  placement const& where;              ///< its items are the parts
  std::span<sample_part const> parts;  ///< ascending by sample, then by first token
};

/// Puts samples where their parts lie: the reverse of place_parts. A sample whose images were
/// encoded on three ranks and whose text was read on a fourth has pieces on all four.
///
/// It tells place_by_node and measure_route where the tokens of whole samples come from. A rank's
/// rows are its pieces sample after sample, which is the order of no array where there are several
/// kinds: routes take the parts kind by kind.
///
/// Shapes      kinds: at least one, all over equally many ranks.
/// In, out     where is overwritten; its memory is used again in the next step.
/// Expects     each token of a sample is in one part, and the parts are below `samples`.
/// Ensures     (1) token part.first + t of a sample is on the rank of token t of its part
/// Complexity  O((samples + parts) kinds + pieces); no allocation after a step as large.
inline void place_wholes_into(placement& where, workspace& memory, std::size_t samples,
                              std::span<placed_parts const> kinds)
{
  BALLAST_EXPECTS(!kinds.empty(), "samples of no parts were to be placed");
  auto scratch = memory.open();
  std::span<std::size_t> const next = scratch.take<std::size_t>(kinds.size());
  std::fill(next.begin(), next.end(), 0);
  detail::placement_writer write(where, kinds.front().where.ranks());
  for (std::size_t sample = 0; sample < samples; ++sample) {
    auto const has_next = [&](std::size_t kind) {
      return next[kind] < kinds[kind].parts.size() &&
             to_index(kinds[kind].parts[next[kind]].sample) == sample;
    };
    while (true) {
      std::size_t first = kinds.size();
      for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        if (has_next(kind) &&
            (first == kinds.size() ||
             kinds[kind].parts[next[kind]].first < kinds[first].parts[next[first]].first)) {
          first = kind;
        }
      }
      if (first == kinds.size()) { break; }
      std::size_t const part = next[first]++;
      tokens const offset = kinds[first].parts[part].first;
      for (piece const& each : kinds[first].where[to_id<sample_id>(part)]) {
        write.add(write.next_rows(each.rank, {offset + each.first, each.count}));
      }
    }
    write.end_sample();
  }
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_PLACE_WHOLES_HPP
