// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/detail/node_assignment.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <cmath>

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
  node_cover(ballast::detail::node_volumes const& volumes, std::size_t node)
      : ranks_(volumes.ranks_of(node)),
        first_rank_(volumes.first_rank(node)),
        sent_(ranks_),
        own_(ranks_),
        need_(ranks_)
  {
    std::vector<bool> present(volumes.kinds());
    for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
      if (volumes.kind_of(batch) == ballast::detail::node_volumes::none ||
          volumes.home_of(batch) != node) {
        continue;
      }
      ++bags_;
      present[volumes.kind_of(batch)] = true;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      sent_[rank] = volumes.sent_by(first_rank_ + rank) + volumes.fixed_of(first_rank_ + rank);
      ballast::tokens sum = 0;
      for (auto const& each : volumes.of_rank(first_rank_ + rank)) {
        if (!present[volumes.kind_of(each.peer)]) { continue; }
        auto const of_batch = volumes.of_batch(each.peer, node);
        if (of_batch.size() == 1) {
          own_[rank].push_back(sum += each.count);
        } else if (of_batch.front().peer == first_rank_ + rank) {
          shared_.push_back(of_batch);
        }
      }
    }
    // What most ranks want comes first, so that a search that stops early has tried it.
    // Ties by content, not by number: it hardly matters then which equal bag has which batch.
    std::ranges::sort(shared_, [](auto const& a, auto const& b) {
      if (a.size() != b.size()) { return a.size() > b.size(); }
      return std::ranges::lexicographical_compare(a, b, [](auto const& x, auto const& y) {
        return ballast::detail::precedes(x.peer, y.peer, x.count, y.count);
      });
    });
    rest_.resize(ranks_ * (shared_.size() + 1));
    for (std::size_t at = shared_.size(); at-- > 0;) {
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        rest_[at * ranks_ + rank] = rest_[(at + 1) * ranks_ + rank];
      }
      for (auto const& each : shared_[at]) {
        rest_[at * ranks_ + each.peer - first_rank_] += each.count;
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
    auto const& own = own_[rank];
    auto const found = std::ranges::lower_bound(own, need);
    return found == own.end() ? bags_ + 1 : static_cast<std::size_t>(found - own.begin()) + 1;
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
  std::size_t first_rank_;
  std::size_t bags_ = 0;
  std::vector<ballast::tokens> sent_;
  std::vector<std::vector<ballast::tokens>>
      own_;  // of each rank: sums of its largest 1, 2, 3 ... batches of its own
  std::vector<std::span<ballast::detail::batch_volume const>> shared_;
  std::vector<ballast::tokens> need_;  // to keep, of each rank
  std::vector<ballast::tokens> rest_;  // from each shared batch on, of each rank
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
/// It is a bound whatever the weights and prices are; what sums are rounded by is taken off.
///
/// Complexity  O(E + rows) a round.
/// Source      M. Held, R. M. Karp, "The Traveling-Salesman Problem and Minimum Spanning Trees:
///             Part II", Mathematical Programming 1, 1971, on bounds by such prices; the weights
///             are those of S. Arora, E. Hazan, S. Kale, "The Multiplicative Weights Update
///             Method", Theory of Computing 8, 2012.
class node_prices {
 public:
  node_prices(ballast::detail::node_volumes const& volumes, bool count_received)
      : volumes_(volumes),
        sent_(volumes.ranks() + (count_received ? volumes.batches() : 0)),
        weight_(sent_.size(), 1.0 / static_cast<double>(sent_.size())),
        price_(volumes.nodes() * volumes.kinds()),
        places_(price_.size())
  {
    for (std::size_t rank = 0; rank < volumes.ranks(); ++rank) {
      sent_[rank] = static_cast<double>(volumes.sent_by(rank) + volumes.fixed_of(rank));
    }
    for (std::size_t row = volumes.ranks(); row < sent_.size(); ++row) {
      std::size_t const batch = row - volumes.ranks();
      sent_[row] = static_cast<double>(volumes.received_by(batch)) / volumes.gpus_of(batch);
    }
    for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
      if (volumes.kind_of(batch) != ballast::detail::node_volumes::none) {
        ++places_[place(volumes.home_of(batch), volumes.kind_of(batch))];
      }
    }
  }

  /// The best bound of so many rounds.
  [[nodiscard]] ballast::tokens bound(std::uint64_t rounds)
  {
    double best = 0;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      best = std::max(best, one_round());
      adjust(1 + std::sqrt(static_cast<double>(round)));  // steps shrink
    }
    double const rounding = 1e-9 * (1 + *std::ranges::max_element(sent_));
    return static_cast<ballast::tokens>(std::ceil(best - rounding));  // rows are whole
  }

 private:
  [[nodiscard]] std::size_t place(std::size_t node, std::size_t kind) const
  {
    return node * volumes_.kinds() + kind;
  }

  /// The bound of these weights and prices; leaves in row_ what each row is where every batch goes
  /// to the node that pays most for it, and in wanted_ how many go there.
  [[nodiscard]] double one_round()
  {
    row_ = sent_;
    wanted_.assign(price_.size(), 0);
    find_cheapest();
    double sum = std::inner_product(weight_.begin(), weight_.end(), sent_.begin(), 0.0) -
                 std::inner_product(places_.begin(), places_.end(), price_.begin(), 0.0);
    for (std::size_t batch = 0; batch < volumes_.batches(); ++batch) {
      if (volumes_.kind_of(batch) != ballast::detail::node_volumes::none) { sum -= sell(batch); }
    }
    return sum;
  }

  /// The place of every kind that costs least, for batches that gain nothing anywhere.
  void find_cheapest()
  {
    cheapest_.assign(volumes_.kinds(), price_.size());
    for (std::size_t at = 0; at < price_.size(); ++at) {
      std::size_t& best = cheapest_[at % volumes_.kinds()];
      if (places_[at] > 0 && (best == price_.size() || price_[at] < price_[best])) { best = at; }
    }
  }

  /// What the place that pays most for a batch pays, less its price.
  [[nodiscard]] double sell(std::size_t batch)
  {
    std::uint32_t const kind = volumes_.kind_of(batch);
    std::size_t const batch_row = volumes_.ranks() + batch;
    bool const is_counted = batch_row < sent_.size();
    double const share = is_counted ? weight_[batch_row] / volumes_.gpus_of(batch) : 0;
    auto const all = volumes_.of_batch(batch);
    std::size_t best = cheapest_[kind];
    double most = -price_[best];
    std::span<ballast::detail::batch_volume const> bought;
    for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
      std::uint32_t const node = volumes_.node_of_rank(all[first].peer);
      double kept = 0;
      for (; end < all.size() && volumes_.node_of_rank(all[end].peer) == node; ++end) {
        kept += (weight_[all[end].peer] + share) * static_cast<double>(all[end].count);
      }
      std::size_t const at = place(node, kind);
      if (places_[at] > 0 && kept - price_[at] > most) {
        most = kept - price_[at];
        best = at;
        bought = all.subspan(first, end - first);
      }
    }
    ++wanted_[best];
    for (auto const& each : bought) {
      row_[each.peer] -= static_cast<double>(each.count);
      if (is_counted) {
        row_[batch_row] -= static_cast<double>(each.count) / volumes_.gpus_of(batch);
      }
    }
    return most;
  }

  void adjust(double slower)
  {
    double const mean =
        std::max(1.0, std::inner_product(weight_.begin(), weight_.end(), row_.begin(), 0.0));
    double sum = 0;
    for (std::size_t row = 0; row < sent_.size(); ++row) {
      weight_[row] *= 1 + std::clamp(row_[row] / mean - 1, -0.5, 2.0) / slower;
      sum += weight_[row] = std::max(weight_[row], 1e-8);
    }
    for (double& each : weight_) { each /= sum; }
    // A place is worth about the weighted tokens of a batch in the mean of all rows.
    double const step = mean / static_cast<double>(sent_.size()) / 64 / slower;
    for (std::size_t at = 0; at < price_.size(); ++at) {
      double const over = std::clamp(wanted_[at] - places_[at], -8.0, 8.0);
      price_[at] = std::max(0.0, price_[at] + over * step);
    }
  }

  ballast::detail::node_volumes const& volumes_;
  std::vector<double> sent_;  // of each row, if nothing is kept
  std::vector<double> row_;
  std::vector<double> weight_;  // of each row; the sum is 1
  std::vector<double> price_;   // of each place, as the next two are
  std::vector<double> places_;
  std::vector<double> wanted_;
  std::vector<std::size_t> cheapest_;
};

/// Tokens between nodes that the rank with most has at least, however the bags of one size and
/// speed exchange what a plan gives them: what node_placement::largest is compared with. It holds
/// for every order of equal bags, so it may be taken before or after place_by_node, and off the
/// step.
///
/// It is the larger of two bounds. (a) Every node by itself, as if it chose its batches first, in
/// whole batches: near the optimum where a batch has samples of few ranks of a node. (b) All nodes
/// at once, in the mean of weighted rows: better where every batch has samples of every node.
///
/// Expects     a plan for these bags, of the samples of `from`, over the GPUs of `machines`.
/// Ensures     (1) no order of equal bags has a smaller largest row
/// Complexity  `work` steps, each an entry that is looked at, and O(samples + pieces + E log E).
[[nodiscard]] inline ballast::tokens node_traffic_bound(
    ballast::partition_plan const& plan, ballast::placement const& from,
    ballast::bag_layout const& bags, ballast::cluster const& machines,
    ballast::node_placement::options traffic = {}, std::uint64_t work = std::uint64_t{1} << 23)
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
  std::vector<std::size_t> order(volumes.nodes());
  std::vector<ballast::tokens> most(volumes.nodes());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t rank = 0; rank < volumes.ranks(); ++rank) {
    ballast::tokens& of_node = most[volumes.node_of_rank(rank)];
    of_node = std::max(of_node, volumes.sent_by(rank) + volumes.fixed_of(rank));
  }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return ballast::detail::precedes(most[b], most[a], a, b);
  });
  ballast::detail::work_budget left(work / 2);
  for (std::size_t const node : order) {
    bound = std::max(bound, node_cover(volumes, node).least_largest(bound, left));
  }
  std::uint64_t const entries = volumes.entries() + volumes.ranks() + 1;
  node_prices prices(volumes, traffic.count_received);
  return std::max(bound, prices.bound(work / 2 / entries));
}

}  // namespace ballast_test
