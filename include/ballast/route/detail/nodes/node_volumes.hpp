// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_NODES_NODE_VOLUMES_HPP
#define BALLAST_ROUTE_DETAIL_NODES_NODE_VOLUMES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Tokens that go to a batch from a rank: one entry of a sparse matrix.
struct batch_volume {
  std::uint32_t peer = 0;  ///< the rank, in a list of a batch; the batch, in a list of a rank
  tokens count = 0;
};

/// How many tokens every rank sends to every batch, where batches are what a plan gives the bags,
/// and which batches may change places: those of bags of one size and speed that lie inside nodes.
///
/// A bag that has GPUs of several nodes keeps its batch, so what its batch makes ranks send between
/// nodes never changes: `fixed`.
///
/// Expects     the cluster outlives it.
/// Ensures     (1) of_batch lists ranks in increasing order, so the ranks of a node follow each
///                 other
///             (2) of_rank lists those batches that may move, most tokens first, ties by batch
/// Complexity  O(samples + pieces + E log E) for E pairs of a rank and a batch; scratch of 32 bytes
///             for a piece and 60 for a rank or bag.
class node_volumes {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  node_volumes(placement const& from, std::span<bag_id const> owner, bag_layout const& bags,
               cluster const& machines, workspace::frame& scratch)
      : nodes_(machines.nodes),
        node_of_rank_(scratch.take<std::uint32_t>(bags.gpus())),
        fixed_(scratch.take<tokens>(bags.gpus())),
        sent_(scratch.take<tokens>(bags.gpus())),
        gpus_(scratch.take<std::uint32_t>(bags.size())),
        kind_(scratch.take<std::uint32_t>(bags.size())),
        home_(scratch.take<std::uint32_t>(bags.size())),
        received_(scratch.take<tokens>(bags.size()))
  {
    for (std::size_t rank = 0; rank < bags.gpus(); ++rank) {
      node_of_rank_[rank] =
          static_cast<std::uint32_t>(to_index(nodes_.node_of(to_id<rank_id>(rank))));
    }
    find_kinds(bags, scratch);
    add_pieces(from, owner, bags, scratch);
    list_by_rank(scratch);
  }

  [[nodiscard]] std::size_t ranks() const noexcept { return sent_.size(); }
  [[nodiscard]] std::size_t batches() const noexcept { return kind_.size(); }
  [[nodiscard]] std::size_t nodes() const noexcept { return nodes_.size(); }
  [[nodiscard]] std::size_t kinds() const noexcept { return kinds_; }
  [[nodiscard]] std::size_t entries() const noexcept { return entries_; }

  [[nodiscard]] std::uint32_t node_of_rank(std::size_t rank) const { return node_of_rank_[rank]; }
  [[nodiscard]] std::size_t first_rank(std::size_t node) const
  {
    return to_index(nodes_.first(to_id<node_id>(node)));
  }
  [[nodiscard]] std::size_t ranks_of(std::size_t node) const
  {
    return nodes_[to_id<node_id>(node)];
  }

  /// GPUs of the bag that the plan gave a batch, and of every bag where it may go.
  [[nodiscard]] std::uint32_t gpus_of(std::size_t batch) const { return gpus_[batch]; }
  /// Bags of one kind change batches with each other; `none`: this one keeps its batch.
  [[nodiscard]] std::uint32_t kind_of(std::size_t batch) const { return kind_[batch]; }
  /// The node of bag `batch`, or of its first GPU.
  [[nodiscard]] std::uint32_t home_of(std::size_t batch) const { return home_[batch]; }

  /// Tokens that a rank sends to all batches that may move.
  [[nodiscard]] tokens sent_by(std::size_t rank) const { return sent_[rank]; }
  /// Tokens that it sends between nodes to the others.
  [[nodiscard]] tokens fixed_of(std::size_t rank) const { return fixed_[rank]; }
  /// Tokens of a batch; of one that cannot move, those that come from other nodes.
  [[nodiscard]] tokens received_by(std::size_t batch) const { return received_[batch]; }

  [[nodiscard]] std::span<batch_volume const> of_batch(std::size_t batch) const
  {
    return of_batches_[batch];
  }

  /// What the ranks of one node send to a batch.
  [[nodiscard]] std::span<batch_volume const> of_batch(std::size_t batch, std::size_t node) const
  {
    auto const all = of_batch(batch);
    auto const before = [](batch_volume const& each, std::size_t rank) { return each.peer < rank; };
    std::size_t const first = first_rank(node);
    auto const begin = std::lower_bound(all.begin(), all.end(), first, before);
    auto end = begin;
    while (end != all.end() && end->peer < first + ranks_of(node)) { ++end; }
    return {begin, end};
  }

  [[nodiscard]] std::span<batch_volume const> of_rank(std::size_t rank) const
  {
    return of_ranks_[rank];
  }

 private:
  void find_kinds(bag_layout const& bags, workspace::frame& scratch)
  {
    auto const sizes = bags.sizes();
    auto const speeds = bags.speeds();
    std::span<std::uint32_t> const order = scratch.take<std::uint32_t>(bags.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(sizes[a], sizes[b], speeds[a], speeds[b], a, b);
    });
    std::uint32_t before = none;
    for (std::uint32_t const at : order) {
      auto const place = bags[to_id<bag_id>(at)];
      gpus_[at] = place.gpus;
      home_[at] = node_of_rank_[to_index(place.first)];
      kind_[at] = none;
      if (home_[at] != node_of_rank_[to_index(place.first) + place.gpus - 1]) { continue; }
      if (before == none || sizes[before] != sizes[at] || speeds[before] != speeds[at]) {
        ++kinds_;
      }
      kind_[at] = kinds_ - 1;
      before = at;
    }
  }

  void add_pieces(placement const& from, std::span<bag_id const> owner, bag_layout const& bags,
                  workspace::frame& scratch)
  {
    std::fill(fixed_.begin(), fixed_.end(), 0);
    std::fill(sent_.begin(), sent_.end(), 0);
    std::fill(received_.begin(), received_.end(), 0);
    // Sample by sample, as they lie in memory, and not batch by batch.
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      std::size_t const batch = to_index(owner[sample]);
      for (piece const& each : from[to_id<sample_id>(sample)]) {
        if (kind_[batch] == none) {
          tokens const length = from.length(to_id<sample_id>(sample));
          tokens const away = each.count - kept_by_bag(each, length, bags[owner[sample]]);
          fixed_[to_index(each.rank)] += away;
          received_[batch] += away;
        } else {
          sent_[to_index(each.rank)] += each.count;
          received_[batch] += each.count;
        }
      }
    }
    std::span<std::size_t> const first = scratch.take<std::size_t>(batches() + 1);
    std::span<batch_volume> volumes;
    fill_rows(
        first,
        [&](auto const& visit) {
          for (std::size_t sample = 0; sample < owner.size(); ++sample) {
            for (piece const& each : from[to_id<sample_id>(sample)]) {
              visit(owner[sample], batch_volume{static_cast<std::uint32_t>(each.rank), each.count});
            }
          }
        },
        [&](std::size_t pieces) { return volumes = scratch.take<batch_volume>(pieces); });
    for (std::size_t batch = 0; batch < batches(); ++batch) {
      auto const list = volumes.subspan(first[batch], first[batch + 1] - first[batch]);
      std::size_t const joined = kind_[batch] == none ? 0 : join_ranks(list);
      std::copy_n(list.begin(), joined, volumes.begin() + static_cast<std::ptrdiff_t>(entries_));
      first[batch] = entries_;
      entries_ += joined;
    }
    first[batches()] = entries_;
    of_batches_ = {first, volumes.first(entries_)};
  }

  /// Sorts entries by rank and joins those of one; returns how many are left. Samples that are in
  /// gathered order come sorted.
  [[nodiscard]] static std::size_t join_ranks(std::span<batch_volume> entries)
  {
    auto const by_rank = [](batch_volume const& a, batch_volume const& b) {
      return a.peer < b.peer;
    };
    if (!std::is_sorted(entries.begin(), entries.end(), by_rank)) {
      std::sort(entries.begin(), entries.end(), by_rank);  // sums know no order of equal ranks
    }
    std::size_t joined = 0;
    for (batch_volume const each : entries) {  // a copy: the entry may be written first
      bool const same = joined > 0 && entries[joined - 1].peer == each.peer;
      if (!same) { entries[joined++] = {each.peer, 0}; }
      entries[joined - 1].count += each.count;
    }
    return joined;
  }

  /// Of a piece, the tokens that go to those GPUs of a bag that are on the piece's own node.
  [[nodiscard]] tokens kept_by_bag(piece const& each, tokens length, bag place) const
  {
    std::uint32_t const node = node_of_rank_[to_index(each.rank)];
    tokens kept = 0;
    for (std::uint32_t gpu = 0; gpu < place.gpus; ++gpu) {
      if (node_of_rank_[to_index(place.first) + gpu] != node) { continue; }
      chunk const part = chunk_of(length, place.gpus, gpu);
      tokens const first = std::max(part.first, each.first);
      tokens const end = std::min(part.first + part.count, each.first + each.count);
      kept += std::max<tokens>(0, end - first);
    }
    return kept;
  }

  void list_by_rank(workspace::frame& scratch)
  {
    std::span<std::size_t> const first = scratch.take<std::size_t>(ranks() + 1);
    std::span<batch_volume> volumes;
    fill_rows(
        first,
        [&](auto const& visit) {
          for (std::size_t batch = 0; batch < batches(); ++batch) {
            for (batch_volume const& each : of_batch(batch)) {
              visit(std::size_t{each.peer},
                    batch_volume{static_cast<std::uint32_t>(batch), each.count});
            }
          }
        },
        [&](std::size_t entries) { return volumes = scratch.take<batch_volume>(entries); });
    of_ranks_ = {first, volumes};
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      auto const list = of_ranks_[rank];
      std::sort(list.begin(), list.end(), [](batch_volume const& a, batch_volume const& b) {
        return precedes(b.count, a.count, a.peer, b.peer);
      });
    }
  }

  node_sizes const& nodes_;
  std::uint32_t kinds_ = 0;
  std::span<std::uint32_t> node_of_rank_;
  std::span<tokens> fixed_;
  std::span<tokens> sent_;
  std::span<std::uint32_t> gpus_;
  std::span<std::uint32_t> kind_;
  std::span<std::uint32_t> home_;
  std::span<tokens> received_;
  std::size_t entries_ = 0;
  jagged_view<std::size_t, batch_volume> of_batches_;
  jagged_view<std::size_t, batch_volume> of_ranks_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_NODES_NODE_VOLUMES_HPP
