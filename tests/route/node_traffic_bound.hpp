// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/detail/node_assignment.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

namespace ballast_test {

/// What one node could reach if it chose its batches first: the least T such that so many batches
/// as it has bags can keep all its ranks at or below T.
///
/// Of the batches that only one rank of the node sends to, a rank takes those with most of its
/// tokens, so how many it needs is looked up. Batches to which several ranks send are tried one by
/// one: with it, then without it, until the largest ones are not enough.
///
/// Ensures     (1) no placement keeps all ranks of the node below least_largest
/// Complexity  a probe O(ranks of the node log E) without such batches, else `left` steps of it.
class node_cover {
 public:
  node_cover(ballast::detail::node_volumes const& volumes, std::size_t node,
             ballast::workspace::frame& scratch)
      : ranks_(volumes.ranks_of(node)),
        sent_(scratch.take<ballast::tokens>(ranks_)),
        own_first_(scratch.take<std::size_t>(ranks_ + 1))
  {
    std::size_t const first = volumes.first_rank(node);
    std::size_t entries = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      entries += volumes.of_rank(first + rank).size();
    }
    own_ = scratch.take<ballast::tokens>(entries);
    shared_ = scratch.take<std::span<ballast::detail::batch_volume const>>(entries);
    std::size_t own = 0;
    std::size_t shared = 0;
    std::span<bool> const present = scratch.take<bool>(volumes.kinds());
    std::fill(present.begin(), present.end(), false);
    for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
      if (volumes.kind_of(batch) == ballast::detail::node_volumes::none ||
          volumes.home_of(batch) != node) {
        continue;
      }
      ++bags_;
      present[volumes.kind_of(batch)] = true;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      sent_[rank] = volumes.sent_by(first + rank) + volumes.fixed_of(first + rank);
      own_first_[rank] = own;
      ballast::tokens sum = 0;
      for (ballast::detail::batch_volume const& each : volumes.of_rank(first + rank)) {
        if (!present[volumes.kind_of(each.peer)]) { continue; }
        auto const of_batch = volumes.of_batch(each.peer, node);
        if (of_batch.size() == 1) {
          own_[own++] = sum += each.count;
        } else if (of_batch.front().peer == first + rank) {
          shared_[shared++] = of_batch;
        }
      }
    }
    own_first_[ranks_] = own;
    shared_ = shared_.first(shared);
    // What most ranks want comes first, so that a search that stops early has tried it.
    // Ties by content, not by number: then it does not matter which equal bag has which batch.
    std::sort(shared_.begin(), shared_.end(), [](auto const& a, auto const& b) {
      if (a.size() != b.size()) { return a.size() > b.size(); }
      return std::lexicographical_compare(
          a.begin(), a.end(), b.begin(), b.end(),
          [](ballast::detail::batch_volume const& x, ballast::detail::batch_volume const& y) {
            return ballast::detail::precedes(x.peer, y.peer, x.count, y.count);
          });
    });
    first_rank_ = first;
    need_ = scratch.take<ballast::tokens>(ranks_);
    rest_ = scratch.take<ballast::tokens>(ranks_ * (shared + 1));
    std::fill(rest_.begin(), rest_.end(), 0);
    for (std::size_t at = shared; at-- > 0;) {
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        rest_[at * ranks_ + rank] = rest_[(at + 1) * ranks_ + rank];
      }
      for (ballast::detail::batch_volume const& each : shared_[at]) {
        rest_[at * ranks_ + each.peer - first] += each.count;
      }
    }
  }

  /// The most that a rank of the node sends if it keeps no batch.
  [[nodiscard]] ballast::tokens most() const
  {
    return *std::max_element(sent_.begin(), sent_.end());
  }

  /// The least largest row, at least `floor`. A search that is stopped may return less.
  ///
  /// In, out     left: a step is a rank that is looked at; no probe takes more than an eighth.
  [[nodiscard]] ballast::tokens least_largest(ballast::tokens floor,
                                              ballast::detail::work_budget& left)
  {
    auto const can = [&](ballast::tokens largest) {
      for (std::size_t rank = 0; rank < ranks_; ++rank) { need_[rank] = sent_[rank] - largest; }
      ballast::detail::work_budget of_probe(left.left() / 8);
      std::uint64_t const before = of_probe.left();
      bool const covered = covers(0, 0, of_probe);
      left.spend(before - of_probe.left());
      return covered;
    };
    if (most() <= floor || can(floor)) { return floor; }
    ballast::tokens low = floor + 1;
    ballast::tokens high = most();
    while (low < high) {
      ballast::tokens const middle = low + (high - low) / 2;
      if (can(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

 private:
  /// Batches of one rank alone that it still needs, given what is taken off its need besides.
  [[nodiscard]] std::size_t wanted(std::size_t rank, ballast::tokens besides) const
  {
    ballast::tokens const need = need_[rank] - besides;
    if (need <= 0) { return 0; }
    auto const begin = own_.begin() + static_cast<std::ptrdiff_t>(own_first_[rank]);
    auto const end = own_.begin() + static_cast<std::ptrdiff_t>(own_first_[rank + 1]);
    auto const found = std::lower_bound(begin, end, need);
    return found == end ? bags_ + 1 : static_cast<std::size_t>(found - begin) + 1;
  }

  /// Whether the node can meet all needs with the shared batches from `at` on and its own ones;
  /// true also where the search is stopped.
  [[nodiscard]] bool covers(std::size_t at, std::size_t used, ballast::detail::work_budget& left)
  {
    if (left.spent()) { return true; }
    left.spend(ranks_);
    std::size_t alone = used;
    std::size_t helped = used;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      alone += wanted(rank, 0);
      helped += wanted(rank, rest_[at * ranks_ + rank]);
    }
    if (alone <= bags_) { return true; }
    if (helped > bags_ || used == bags_ || at == shared_.size()) { return false; }
    auto const take = [&](ballast::tokens sign) {
      for (ballast::detail::batch_volume const& each : shared_[at]) {
        need_[each.peer - first_rank_] -= sign * each.count;
      }
    };
    take(1);
    bool const with = covers(at + 1, used + 1, left);
    take(-1);
    return with || covers(at + 1, used, left);
  }

  std::size_t ranks_;
  std::size_t first_rank_ = 0;
  std::size_t bags_ = 0;
  std::span<ballast::tokens> sent_;
  std::span<std::size_t> own_first_;
  std::span<ballast::tokens>
      own_;  // of each rank: sums of its largest 1, 2, 3 ... batches of its own
  std::span<std::span<ballast::detail::batch_volume const>> shared_;
  std::span<ballast::tokens> need_;  // to keep, of each rank
  std::span<ballast::tokens> rest_;  // from each shared batch on, of each rank
};

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
  node_prices(ballast::detail::node_volumes const& volumes, bool count_received,
              ballast::workspace::frame& scratch)
      : volumes_(volumes),
        rows_(volumes.ranks() + (count_received ? volumes.batches() : 0)),
        weight_(scratch.take<std::int64_t>(rows_)),
        sent_(scratch.take<ballast::tokens>(rows_)),
        row_(scratch.take<ballast::tokens>(rows_)),
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
      if (volumes.kind_of(batch) != ballast::detail::node_volumes::none) {
        ++places_[place(volumes.home_of(batch), volumes.kind_of(batch))];
      }
    }
  }

  /// The best bound of so many rounds.
  [[nodiscard]] ballast::tokens bound(std::uint64_t rounds)
  {
    if (*std::max_element(sent_.begin(), sent_.end()) >= most_tokens) { return 0; }
    ballast::tokens best = 0;
    root_ = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      best = std::max(best, one_round());
      adjust(static_cast<std::int64_t>(round));
    }
    return best;
  }

 private:
  static constexpr std::int64_t weights = std::int64_t{1} << 24;
  static constexpr ballast::tokens most_tokens = ballast::tokens{1} << 32;

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
  [[nodiscard]] ballast::tokens one_round()
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
      if (volumes_.kind_of(batch) != ballast::detail::node_volumes::none) { sum -= sell(batch); }
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
    ballast::tokens const gpus = volumes_.gpus_of(batch);
    auto const all = volumes_.of_batch(batch);
    std::size_t best = cheapest_[kind];
    std::int64_t most = -price_[best];
    std::span<ballast::detail::batch_volume const> bought;
    for (std::size_t first = 0; first < all.size();) {
      std::uint32_t const node = volumes_.node_of_rank(all[first].peer);
      std::int64_t kept = 0;
      ballast::tokens count = 0;
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
    ballast::tokens count = 0;
    for (ballast::detail::batch_volume const& each : bought) {
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
    ballast::tokens const mean =
        std::max<ballast::tokens>(1, weighted / std::max<std::int64_t>(1, all_weights));
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

  ballast::detail::node_volumes const& volumes_;
  std::size_t rows_;
  std::span<std::int64_t> weight_;
  std::span<ballast::tokens> sent_;  // of each row, if nothing is kept
  std::span<ballast::tokens> row_;
  std::span<std::int64_t> price_;
  std::span<std::int64_t> places_;
  std::span<std::int64_t> wanted_;
  std::span<std::size_t> cheapest_;
  std::int64_t root_ = 0;  // of the round
};

/// Tokens between nodes that the rank with most has at least, however the bags of one size and
/// speed exchange what a plan gives them: what node_placement::largest is compared with. It does
/// not depend on the order in which equal bags have their batches now, so it may be taken before or
/// after place_by_node, and off the step.
///
/// It is the larger of two bounds. (a) Every node by itself, as if it chose its batches first, in
/// whole batches: near the optimum where a batch has samples of few ranks of a node. (b) All nodes
/// at once, in the mean of weighted rows: better where every batch has samples of every node.
///
/// Expects     a plan for these bags, of the samples of `from`, over the GPUs of `machines`.
/// Ensures     (1) no order of equal bags has a smaller largest row
///             (2) it is the same before and after place_by_node
/// Complexity  `work` steps, each an entry that is looked at, and O(samples + pieces + E log E).
[[nodiscard]] inline ballast::tokens node_traffic_bound(ballast::partition_plan const& plan,
                                                        ballast::placement const& from,
                                                        ballast::bag_layout const& bags,
                                                        ballast::cluster const& machines,
                                                        ballast::node_traffic traffic = {},
                                                        std::uint64_t work = std::uint64_t{1} << 23)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::node_volumes const volumes(from, ballast::detail::span_of(plan.owner), bags,
                                              machines, scratch);
  ballast::tokens bound = 0;
  for (std::size_t rank = 0; rank < volumes.ranks(); ++rank) {
    bound = std::max(bound, volumes.fixed_of(rank));
  }
  if (traffic.count_received) {
    for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
      ballast::tokens most = 0;
      ballast::detail::for_each_node_of(volumes, batch, [&](std::uint32_t, ballast::tokens kept) {
        most = std::max(most, kept);
      });
      auto const gpus = static_cast<ballast::tokens>(volumes.gpus_of(batch));
      bound = std::max(bound, (volumes.received_by(batch) - most + gpus - 1) / gpus);
    }
  }
  // Nodes with the rank that sends most first: what they prove spares the others a search.
  std::span<std::size_t> const order = scratch.take<std::size_t>(volumes.nodes());
  std::span<ballast::tokens> const most = scratch.take<ballast::tokens>(volumes.nodes());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::fill(most.begin(), most.end(), 0);
  for (std::size_t rank = 0; rank < volumes.ranks(); ++rank) {
    ballast::tokens& of_node = most[volumes.node_of_rank(rank)];
    of_node = std::max(of_node, volumes.sent_by(rank) + volumes.fixed_of(rank));
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ballast::detail::precedes(most[b], most[a], a, b);
  });
  ballast::detail::work_budget left(work / 2);
  for (std::size_t const node : order) {
    auto of_node = memory.open();
    bound = std::max(bound, node_cover(volumes, node, of_node).least_largest(bound, left));
  }
  std::uint64_t const entries = volumes.entries() + volumes.ranks() + 1;
  node_prices prices(volumes, traffic.count_received, scratch);
  return std::max(bound, prices.bound(work / 2 / entries));
}

}  // namespace ballast_test
