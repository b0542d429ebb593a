// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>

namespace ballast::inline v0 {

namespace detail {

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

}  // namespace detail

/// Which rows a rank sends to each peer, or receives from each peer.
class route_table {
 public:
  /// Consecutive rows of a rank's arrays.
  struct range {
    tokens first = 0;
    tokens count = 0;

    friend constexpr bool operator==(range, range) = default;
  };

  /// Clears the table, for `ranks` peers.
  BALLAST_ONCE void start(std::size_t ranks);

  BALLAST_ONCE void add(rank_id peer, range rows);

  /// Sorts by peer; ranges of one peer stay in the order in which they were added.
  BALLAST_ONCE void finish();

  /// The ranges of one peer's message, in this order.
  [[nodiscard]] std::span<range const> operator[](rank_id peer) const
  {
    BALLAST_EXPECTS(to_index(peer) < rows_.size(), "peer ", peer, " of a route over ",
                    detail::counted(rows_.size(), "rank"));
    return ranges_[peer];
  }

  /// Rows to or from each peer; 0 for the rank itself.
  [[nodiscard]] std::span<tokens const> rows() const noexcept { return detail::span_of(rows_); }

 private:
  struct found_range {
    rank_id peer;
    range rows;
  };
  std::vector<found_range> found_;  // in the order in which they were added
  jagged<rank_id, range> ranges_;
  std::vector<tokens> rows_;
};

/// What one rank sends, receives and keeps in a route from one placement to another. Used backwards
/// it is the exact inverse, the reverse route.
///
/// Ensures     (1) every row with a token of the first placement is sent or kept once, every one of
///                 the second is received or kept once
///             (2) a message holds its rows sample by sample and in token order, so that sender and
///                 receiver know its layout without communication
///             (3) a rank sends nothing to itself
struct route_plan {
  /// Consecutive rows that stay on their rank, and may move within its arrays.
  struct kept_rows {
    tokens from_row = 0;
    tokens to_row = 0;
    tokens count = 0;

    friend constexpr bool operator==(kept_rows, kept_rows) = default;
  };

  rank_id rank{};
  tokens rows_before = 0;  ///< of this rank's arrays in the first placement
  tokens rows_after = 0;   ///< and in the second
  route_table sent;
  route_table received;
  std::vector<kept_rows> kept;
  std::uint64_t word = 0;  ///< of both placements: the same on every rank

  [[nodiscard]] std::size_t ranks() const noexcept { return sent.rows().size(); }
};

/// Plans the route of one rank from one placement to another.
///
/// To compose two routes, from A to B and from B to C, plan the route from A to C: one exchange.
///
/// In, out     plan is overwritten; its memory is used again in the next step.
/// Expects     placements of the same samples over the same ranks; `rank` is one of these.
/// Complexity  O(samples + pieces of both + ranks); no allocation after a step as large.
/// Source      the single all-to-all is that of K. Zhang et al., "KnapFormer", arXiv 2508.06001;
///             the composition is that of "OrchMLLM", arXiv 2503.23830 (Pi_M after the inverse of
///             Pi_E).
BALLAST_ONCE void plan_route(route_plan& plan, placement const& from, placement const& to,
                             rank_id rank);

/// The same, but returns a new plan.
[[nodiscard]] BALLAST_ONCE route_plan plan_route(placement const& from, placement const& to,
                                                 rank_id rank);

/// What the host must know of one rank's part in an exchange of rows; the host need not reach the
/// rows themselves.
///
/// Shapes      sent[ranks], received[ranks]: rows to each peer and from each peer, 0 for the rank
///             itself.
struct row_traffic {
  rank_id rank{};
  tokens rows_before = 0;  ///< of the rank's arrays, before the exchange
  tokens rows_after = 0;   ///< and after it
  std::span<tokens const> sent;
  std::span<tokens const> received;
  std::uint64_t plan = 0;  ///< a word of the plan and its direction, the same on every rank

  /// The traffic of the reverse exchange.
  [[nodiscard]] row_traffic reversed() const
  {
    return {rank, rows_after, rows_before, received, sent, ~plan};
  }
};

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0 {

BALLAST_ONCE void route_table::start(std::size_t ranks)
{
  found_.clear();
  rows_.assign(ranks, 0);
}

BALLAST_ONCE void route_table::add(rank_id peer, range rows)
{
  found_.push_back({peer, rows});
  rows_[to_index(peer)] += rows.count;
}

BALLAST_ONCE void route_table::finish()
{
  ranges_.fill(rows_.size(), [this](auto const& visit) {
    for (auto const& [peer, rows] : found_) { visit(peer, rows); }
  });
}

BALLAST_ONCE void plan_route(route_plan& plan, placement const& from, placement const& to,
                             rank_id rank)
{
  plan.rank = rank;
  plan.rows_before = from.rows(rank);
  plan.rows_after = to.rows(rank);
  plan.sent.start(from.ranks());
  plan.received.start(from.ranks());
  plan.kept.clear();
  digest all;
  detail::for_each_overlap(from, to, [&](detail::token_overlap const& part) {
    all.add(std::uint64_t{to_index(part.from)} << 32U | to_index(part.to))
        .add(static_cast<std::uint64_t>(part.count));
    if (part.from == rank && part.to == rank) {
      plan.kept.push_back({part.from_row, part.to_row, part.count});
    } else if (part.from == rank) {
      plan.sent.add(part.to, {part.from_row, part.count});
    } else if (part.to == rank) {
      plan.received.add(part.from, {part.to_row, part.count});
    }
  });
  plan.sent.finish();
  plan.received.finish();
  plan.word = all.value();
}

[[nodiscard]] BALLAST_ONCE route_plan plan_route(placement const& from, placement const& to,
                                                 rank_id rank)
{
  route_plan plan;
  plan_route(plan, from, to, rank);
  return plan;
}

}  // namespace ballast::inline v0

#endif
