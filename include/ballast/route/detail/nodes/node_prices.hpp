// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_NODES_NODE_PRICES_HPP
#define BALLAST_ROUTE_DETAIL_NODES_NODE_PRICES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/detail/nodes/node_volumes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// A Lagrangian bound on the largest row. With weights w >= 0 of the rows, of sum W, and a price p
/// of a place on every node for every kind of bag, no placement has all rows below
///
///     ( sum over rows of w sent  -  sum over batches b of max over nodes n of (K[b][n] - p[n])
///       -  sum over n of places[n] p[n] ) / W,    K[b][n] = w-weighted tokens of b that n keeps:
///
/// the mean of the rows is below their largest, and a batch is on one node. Rows above the mean get
/// more weight, and places that more batches want than there are a higher price.
///
/// Ensures     (1) all in 64-bit integers, so it is a bound whatever the weights and prices are
///             (2) 0 where the tokens of a row pass 2^32: weighted sums would overflow
/// Complexity  O(E + rows) a round.
/// Source      M. Held, R. M. Karp, "The Traveling-Salesman Problem and Minimum Spanning Trees:
///             Part II", Mathematical Programming 1, 1971, on bounds by such prices; the weights
///             are those of S. Arora, E. Hazan, S. Kale, "The Multiplicative Weights Update
///             Method", Theory of Computing 8, 2012.
class node_prices {
 public:
  node_prices(node_volumes const& volumes, bool count_received, workspace::frame& scratch)
      : volumes_(volumes),
        rows_(volumes.ranks() + (count_received ? volumes.batches() : 0)),
        weight_(scratch.take<std::int64_t>(rows_)),
        sent_(scratch.take<tokens>(rows_)),
        row_(scratch.take<tokens>(rows_)),
        price_(scratch.take<std::int64_t>(volumes.nodes() * volumes.kinds())),
        places_(scratch.take<std::int64_t>(price_.size())),
        wanted_(scratch.take<std::int64_t>(price_.size())),
        cheapest_(scratch.take<std::size_t>(volumes.kinds()))
  {
    for (std::size_t rank = 0; rank < volumes.ranks(); ++rank) {
      sent_[rank] = volumes.sent_by(rank) + volumes.fixed_of(rank);
    }
    for (std::size_t row = volumes.ranks(); row < rows_; ++row) {
      // Rounded down, as the share of each entry is below, so that the sum stays a bound.
      std::size_t const batch = row - volumes.ranks();
      sent_[row] = volumes.received_by(batch) / volumes.gpus_of(batch);
    }
    std::fill(weight_.begin(), weight_.end(), weights / static_cast<std::int64_t>(rows_));
    std::fill(price_.begin(), price_.end(), 0);
    std::fill(places_.begin(), places_.end(), 0);
    for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
      if (volumes.kind_of(batch) != node_volumes::none) {
        ++places_[place(volumes.home_of(batch), volumes.kind_of(batch))];
      }
    }
  }

  /// The best bound of so many rounds.
  [[nodiscard]] tokens bound(std::uint64_t rounds)
  {
    if (*std::max_element(sent_.begin(), sent_.end()) >= most_tokens) { return 0; }
    tokens best = 0;
    root_ = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      best = std::max(best, one_round());
      adjust(static_cast<std::int64_t>(round));
    }
    return best;
  }

 private:
  static constexpr std::int64_t weights = std::int64_t{1} << 24;
  static constexpr tokens most_tokens = tokens{1} << 32;

  [[nodiscard]] std::size_t place(std::size_t node, std::uint32_t kind) const
  {
    return node * volumes_.kinds() + kind;
  }
  [[nodiscard]] std::int64_t batch_weight(std::size_t batch) const
  {
    std::size_t const row = volumes_.ranks() + batch;
    return row < rows_ ? weight_[row] : 0;
  }

  /// The bound of these weights and prices; leaves in row_ what each row is where every batch goes
  /// to the node that pays most for it, and in wanted_ how many go there.
  [[nodiscard]] tokens one_round()
  {
    std::copy(sent_.begin(), sent_.end(), row_.begin());
    std::fill(wanted_.begin(), wanted_.end(), 0);
    std::int64_t sum = 0;
    std::int64_t all_weights = 0;
    for (std::size_t row = 0; row < rows_; ++row) {
      all_weights += weight_[row];
      sum += weight_[row] * sent_[row];
    }
    for (std::size_t at = 0; at < price_.size(); ++at) { sum -= places_[at] * price_[at]; }
    find_cheapest();
    for (std::size_t batch = 0; batch < volumes_.batches(); ++batch) {
      if (volumes_.kind_of(batch) != node_volumes::none) { sum -= sell(batch); }
    }
    return sum <= 0 ? 0 : (sum + all_weights - 1) / all_weights;  // rows are whole
  }

  /// The place of every kind that costs least, for batches that gain nothing anywhere.
  void find_cheapest()
  {
    for (std::uint32_t kind = 0; kind < volumes_.kinds(); ++kind) {
      std::size_t best = price_.size();
      for (std::size_t at = kind; at < price_.size(); at += volumes_.kinds()) {
        if (places_[at] > 0 && (best == price_.size() || price_[at] < price_[best])) { best = at; }
      }
      cheapest_[kind] = best;
    }
  }

  /// What the place that pays most for a batch pays, less its price.
  [[nodiscard]] std::int64_t sell(std::size_t batch)
  {
    std::uint32_t const kind = volumes_.kind_of(batch);
    std::int64_t const share = batch_weight(batch);
    tokens const gpus = volumes_.gpus_of(batch);
    auto const all = volumes_.of_batch(batch);
    std::size_t best = cheapest_[kind];
    std::int64_t most = -price_[best];
    std::span<batch_volume const> bought;
    for (std::size_t first = 0; first < all.size();) {
      std::uint32_t const node = volumes_.node_of_rank(all[first].peer);
      std::int64_t kept = 0;
      tokens count = 0;
      std::size_t end = first;
      for (; end < all.size() && volumes_.node_of_rank(all[end].peer) == node; ++end) {
        kept += weight_[all[end].peer] * all[end].count;
        count += all[end].count;
      }
      kept += share * ((count + gpus - 1) / gpus);
      std::size_t const at = place(node, kind);
      if (places_[at] > 0 && kept - price_[at] > most) {
        most = kept - price_[at];
        best = at;
        bought = all.subspan(first, end - first);
      }
      first = end;
    }
    ++wanted_[best];
    tokens count = 0;
    for (batch_volume const& each : bought) {
      row_[each.peer] -= each.count;
      count += each.count;
    }
    if (volumes_.ranks() + batch < rows_) { row_[volumes_.ranks() + batch] -= count / gpus; }
    return most;
  }

  void adjust(std::int64_t round)
  {
    std::int64_t weighted = 0;
    std::int64_t all_weights = 0;
    for (std::size_t row = 0; row < rows_; ++row) {
      weighted += weight_[row] * row_[row];
      all_weights += weight_[row];
    }
    tokens const mean = std::max<tokens>(1, weighted / std::max<std::int64_t>(1, all_weights));
    while ((root_ + 1) * (root_ + 1) <= round) { ++root_; }
    std::int64_t const slower = 1 + root_;  // steps shrink as 1 / sqrt(round)
    std::int64_t next = 0;
    for (std::size_t row = 0; row < rows_; ++row) {
      // A factor of 1 + (row / mean - 1) / slower, of which the bracket is cut to [-1/2, 2].
      std::int64_t const off =
          std::clamp<std::int64_t>((row_[row] - mean) * 2048 / mean, -1024, 4096) / slower;
      weight_[row] = std::max<std::int64_t>(1, weight_[row] * (2048 + off) / 2048);
      next += weight_[row];
    }
    for (std::size_t row = 0; row < rows_; ++row) {
      weight_[row] = std::max<std::int64_t>(1, weight_[row] * weights / next);
    }
    // A place is worth about the weighted tokens of a batch in the mean of all rows.
    std::int64_t const step = std::max<std::int64_t>(
        1, mean * (weights / static_cast<std::int64_t>(rows_)) / 64 / slower);
    for (std::size_t at = 0; at < price_.size(); ++at) {
      if (places_[at] == 0) { continue; }
      std::int64_t const over = std::clamp<std::int64_t>(wanted_[at] - places_[at], -8, 8);
      price_[at] = std::max<std::int64_t>(0, price_[at] + over * step);
    }
  }

  node_volumes const& volumes_;
  std::size_t rows_;
  std::span<std::int64_t> weight_;
  std::span<tokens> sent_;  // of each row, if nothing is kept
  std::span<tokens> row_;
  std::span<std::int64_t> price_;
  std::span<std::int64_t> places_;
  std::span<std::int64_t> wanted_;
  std::span<std::size_t> cheapest_;
  std::int64_t root_ = 0;  // of the round
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_NODES_NODE_PRICES_HPP
