// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_NODES_NODE_COVER_HPP
#define BALLAST_ROUTE_DETAIL_NODES_NODE_COVER_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/detail/nodes/node_volumes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

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
  node_cover(node_volumes const& volumes, std::size_t node, workspace::frame& scratch)
      : ranks_(volumes.ranks_of(node)),
        sent_(scratch.take<tokens>(ranks_)),
        own_first_(scratch.take<std::size_t>(ranks_ + 1))
  {
    std::size_t const first = volumes.first_rank(node);
    std::size_t entries = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      entries += volumes.of_rank(first + rank).size();
    }
    own_ = scratch.take<tokens>(entries);
    shared_ = scratch.take<std::span<batch_volume const>>(entries);
    std::size_t own = 0;
    std::size_t shared = 0;
    std::span<bool> const present = scratch.take<bool>(volumes.kinds());
    std::fill(present.begin(), present.end(), false);
    for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
      if (volumes.kind_of(batch) == node_volumes::none || volumes.home_of(batch) != node) {
        continue;
      }
      ++bags_;
      present[volumes.kind_of(batch)] = true;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      sent_[rank] = volumes.sent_by(first + rank) + volumes.fixed_of(first + rank);
      own_first_[rank] = own;
      tokens sum = 0;
      for (batch_volume const& each : volumes.of_rank(first + rank)) {
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
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                          [](batch_volume const& x, batch_volume const& y) {
                                            return precedes(x.peer, y.peer, x.count, y.count);
                                          });
    });
    first_rank_ = first;
    need_ = scratch.take<tokens>(ranks_);
    rest_ = scratch.take<tokens>(ranks_ * (shared + 1));
    std::fill(rest_.begin(), rest_.end(), 0);
    for (std::size_t at = shared; at-- > 0;) {
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        rest_[at * ranks_ + rank] = rest_[(at + 1) * ranks_ + rank];
      }
      for (batch_volume const& each : shared_[at]) {
        rest_[at * ranks_ + each.peer - first] += each.count;
      }
    }
  }

  /// The most that a rank of the node sends if it keeps no batch.
  [[nodiscard]] tokens most() const { return *std::max_element(sent_.begin(), sent_.end()); }

  /// The least largest row, at least `floor`. A search that is stopped may return less.
  ///
  /// In, out     left: a step is a rank that is looked at; no probe takes more than an eighth.
  [[nodiscard]] tokens least_largest(tokens floor, work_budget& left)
  {
    auto const can = [&](tokens largest) {
      for (std::size_t rank = 0; rank < ranks_; ++rank) { need_[rank] = sent_[rank] - largest; }
      work_budget of_probe(left.left() / 8);
      std::uint64_t const before = of_probe.left();
      bool const covered = covers(0, 0, of_probe);
      left.spend(before - of_probe.left());
      return covered;
    };
    if (most() <= floor || can(floor)) { return floor; }
    tokens low = floor + 1;
    tokens high = most();
    while (low < high) {
      tokens const middle = low + (high - low) / 2;
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
  [[nodiscard]] std::size_t wanted(std::size_t rank, tokens besides) const
  {
    tokens const need = need_[rank] - besides;
    if (need <= 0) { return 0; }
    auto const begin = own_.begin() + static_cast<std::ptrdiff_t>(own_first_[rank]);
    auto const end = own_.begin() + static_cast<std::ptrdiff_t>(own_first_[rank + 1]);
    auto const found = std::lower_bound(begin, end, need);
    return found == end ? bags_ + 1 : static_cast<std::size_t>(found - begin) + 1;
  }

  /// Whether the node can meet all needs with the shared batches from `at` on and its own ones;
  /// true also where the search is stopped.
  [[nodiscard]] bool covers(std::size_t at, std::size_t used, work_budget& left)
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
    auto const take = [&](tokens sign) {
      for (batch_volume const& each : shared_[at]) {
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
  std::span<tokens> sent_;
  std::span<std::size_t> own_first_;
  std::span<tokens> own_;  // of each rank: sums of its largest 1, 2, 3 ... batches of its own
  std::span<std::span<batch_volume const>> shared_;
  std::span<tokens> need_;  // to keep, of each rank
  std::span<tokens> rest_;  // from each shared batch on, of each rank
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_NODES_NODE_COVER_HPP
