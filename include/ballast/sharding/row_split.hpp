// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// Which keys a query sees in its own document, and in how many layers: those up to its own key.
///
/// Shapes      prefixes[documents], or none.
/// Units       window: the last so many of these keys, the query's own among them; 0: all.
///             prefixes: the first so many keys of each document are seen by all its queries too,
///             as those of a prompt. A mask with the documents' lengths here is full.
struct row_mask {
  tokens window = 0;
  std::vector<tokens> prefixes = {};
  std::uint32_t layers = 1;  ///< that have this mask, by which the keys moved for it count
};

/// Which rows of a pack of documents each rank of a context-parallel group has, and how good that
/// is. The pack is cut into blocks of equally many rows, and each rank has as many blocks. Rows
/// behind the last document are padding: they have no work, and nobody needs their keys.
///
/// Shapes      owner[blocks]; rows and places: ranks x rows_of_rank; for_mask: one for each mask.
/// Ensures     (1) rows[r * rows_of_rank + i] is the row of the pack that rank r has in place i,
///                 and places is the inverse; a rank's rows are in the order of the pack
///             (2) for_mask has, for each rank, the pairs of a query and a key that it sees, and
///                 the rows of keys that its queries see and that it does not have
///             (3) a makespan is the most pairs of a rank, and no split into such blocks has fewer
///                 than lower_bound
///             (4) no split whose makespans are at most these moves fewer than least_moved keys
struct row_split {
  /// The work under one mask and the keys that it moves, of each rank.
  struct mask_part : certified<std::int64_t> {
    std::vector<std::int64_t> pairs;
    std::vector<tokens> moved_to;
    tokens moved = 0;  ///< the sum of moved_to
    tokens least_moved = 0;
  };

  /// One call of an attention kernel for sequences of different lengths. Its queries from
  /// cu_queries[i] to cu_queries[i + 1] - 1 are the rank's rows from first_query[i] on, and their
  /// keys, those from cu_keys[i] on, the pack's rows from first_key[i] on. Where it is causal, the
  /// last query sees up to the last key, the one before it up to the one before, and so on, and of
  /// these the `window` last ones, or all where that is 0. Otherwise each query sees all the keys.
  struct kernel_call {
    bool causal = true;
    tokens window = 0;
    std::vector<tokens> cu_queries = {0}, cu_keys = {0};
    std::vector<tokens> first_query, first_key;
  };

  tokens block = 0;            ///< rows
  tokens rows_of_rank = 0;     ///< a multiple of the block
  std::vector<tokens> starts;  ///< of the documents in the pack, and the end of the last one
  std::vector<row_mask> masks;
  std::vector<rank_id> owner;
  std::vector<tokens> rows;
  std::vector<tokens> places;
  std::vector<mask_part> for_mask;

  /// The rows of the pack that a rank has.
  [[nodiscard]] std::span<tokens const> rows_of(rank_id rank) const
  {
    auto const own = static_cast<std::size_t>(rows_of_rank);
    BALLAST_EXPECTS((to_index(rank) + 1) * own <= rows.size(), "rows of rank ", to_index(rank),
                    " of ", for_mask[0].pairs.size());
    return detail::span_of(rows, to_index(rank) * own, own);
  }

  /// The calls that compute the attention of a rank, without those that have no query: one that is
  /// causal, and for prefixes one that is not.
  [[nodiscard]] std::vector<kernel_call> calls(rank_id rank, std::size_t mask) const;

  /// The rows that `from` has and whose keys queries of `to` see, in the order of the pack.
  [[nodiscard]] std::vector<tokens> moved_rows(rank_id from, rank_id to, std::size_t mask) const;

  /// The bytes of all keys and values that ranks get from others in one pass through all layers,
  /// where one row has so many in a layer.
  [[nodiscard]] std::uint64_t moved_bytes(std::uint64_t bytes_of_row) const
  {
    std::uint64_t bytes = 0;
    for (std::size_t mask = 0; mask < masks.size(); ++mask) {
      bytes += static_cast<std::uint64_t>(for_mask[mask].moved) * masks[mask].layers * bytes_of_row;
    }
    return bytes;
  }

  /// One word that differs where any document or owner does.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(static_cast<std::uint64_t>(block))
        .add(detail::span_of(starts))
        .add(detail::span_of(owner))
        .value();
  }
};

namespace detail {

/// Rows, or keys: [first, end).
struct row_range {
  tokens first, end;
};

/// A document of a pack under a mask. Row 0 is its first one.
struct masked_document {
  tokens start, rows, window, prefix;

  masked_document(row_split const& split, row_mask const& mask, std::size_t document)
      : start(split.starts[document]),
        rows(split.starts[document + 1] - start),
        window(mask.window == 0 ? rows : mask.window),
        prefix(mask.prefixes.empty() ? 0 : mask.prefixes[document])
  {}

  /// The pairs of the first `queries` queries and the keys that they see.
  [[nodiscard]] std::int64_t pairs_before(tokens queries) const
  {
    auto const triangle = [](tokens side) { return side * (side + 1) / 2; };
    tokens const inside = std::min(queries, prefix);
    return inside * prefix + triangle(queries) - triangle(inside) -
           triangle(std::max<tokens>(0, queries - window));
  }

  /// The keys that queries which follow one another see together.
  [[nodiscard]] row_range keys_of(row_range queries) const
  {
    return {std::max<tokens>(0, queries.first - window + 1), std::max(queries.end, prefix)};
  }
};

/// The document of a row before the end of the pack.
[[nodiscard]] inline std::size_t document_of(row_split const& split, tokens row)
{
  auto const next = std::upper_bound(split.starts.begin(), split.starts.end(), row);
  return static_cast<std::size_t>(next - split.starts.begin()) - 1;
}

/// The keys that the queries of a block see together: without a gap, since each sees its own.
[[nodiscard]] inline row_range keys_of_block(row_split const& split, row_mask const& mask,
                                             std::size_t at)
{
  tokens const end = split.starts.back();
  tokens const first = static_cast<tokens>(at) * split.block;
  if (first >= end) { return {end, end}; }
  auto const keys = [&](tokens row) {
    masked_document const own(split, mask, document_of(split, row));
    auto const seen = own.keys_of({row - own.start, row - own.start + 1});
    return row_range{own.start + seen.first, own.start + seen.end};
  };
  return {keys(first).first, keys(std::min(first + split.block, end) - 1).end};
}

}  // namespace detail

inline std::vector<row_split::kernel_call> row_split::calls(rank_id rank, std::size_t mask) const
{
  BALLAST_EXPECTS(mask < masks.size(), "attention with mask ", mask, " of ", masks.size());
  std::array<kernel_call, 2> made;  // for all keys, causal
  made[0].causal = false;
  made[1].window = masks[mask].window;
  auto const add = [](kernel_call& call, tokens query, tokens key, tokens queries, tokens keys) {
    if (queries <= 0) { return; }
    call.first_query.push_back(query);
    call.first_key.push_back(key);
    call.cu_queries.push_back(call.cu_queries.back() + queries);
    call.cu_keys.push_back(call.cu_keys.back() + keys);
  };
  auto const held = rows_of(rank);
  for (std::size_t at = 0; at < held.size() && held[at] < starts.back();) {
    detail::masked_document const own(*this, masks[mask], detail::document_of(*this, held[at]));
    std::size_t end = at + 1;
    while (end < held.size() && held[end] == held[end - 1] + 1 &&
           held[end] < own.start + own.rows) {
      ++end;
    }
    auto const query = static_cast<tokens>(at);
    tokens const first = held[at] - own.start;
    tokens const last = held[end - 1] - own.start + 1;
    tokens const later = std::max(first, own.prefix);  // the first query that sees more
    add(made[0], query, own.start, std::min(last, own.prefix) - first, own.prefix);
    tokens const key = own.keys_of({later, last}).first;
    add(made[1], query + later - first, own.start + key, last - later, last - key);
    at = end;
  }
  std::vector<kernel_call> used;
  for (kernel_call& call : made) {
    if (!call.first_query.empty()) { used.push_back(std::move(call)); }
  }
  return used;
}

inline std::vector<tokens> row_split::moved_rows(rank_id from, rank_id to, std::size_t mask) const
{
  BALLAST_EXPECTS(mask < masks.size(), "keys for mask ", mask, " of ", masks.size());
  std::vector<tokens> moved;
  tokens seen = 0;
  for (std::size_t at = 0; at < owner.size(); ++at) {
    if (owner[at] != to) { continue; }
    auto const keys = detail::keys_of_block(*this, masks[mask], at);
    for (tokens row = std::max(seen, keys.first); row < keys.end; ++row) {
      auto const of_row = owner[static_cast<std::size_t>(row / block)];
      if (of_row == from && from != to) { moved.push_back(row); }
    }
    seen = keys.end;
  }
  return moved;
}

}  // namespace ballast::inline v0
