// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>

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

/// The largest of many numbers that change one by one: a tournament.
///
/// Ensures     (1) of equal numbers the one with the lowest index is `index()`
///             (2) all are `least` until they are set
/// Complexity  construction O(n), set O(log n), all else O(1).
class largest_row {
 public:
  static constexpr tokens least = -1;

  largest_row(std::size_t rows, workspace::frame& scratch)
      : leaves_(std::bit_ceil(std::max<std::size_t>(rows, 1))),
        winners_(scratch.take<std::size_t>(2 * leaves_)),
        values_(scratch.take<tokens>(leaves_))
  {
    clear();
  }

  void clear()
  {
    std::fill(values_.begin(), values_.end(), least);
    for (std::size_t leaf = 0; leaf < leaves_; ++leaf) { winners_[leaves_ + leaf] = leaf; }
    for (std::size_t at = leaves_ - 1; at >= 1; --at) { winners_[at] = winners_[2 * at]; }
  }

  void set(std::size_t row, tokens value)
  {
    values_[row] = value;
    for (std::size_t at = (leaves_ + row) / 2; at >= 1; at /= 2) {
      std::size_t const left = winners_[2 * at];
      std::size_t const right = winners_[2 * at + 1];
      winners_[at] = values_[right] > values_[left] ? right : left;
    }
  }

  [[nodiscard]] tokens operator[](std::size_t row) const { return values_[row]; }

  [[nodiscard]] std::size_t index() const { return winners_[1]; }
  [[nodiscard]] tokens value() const { return values_[winners_[1]]; }

 private:
  std::size_t leaves_;
  std::span<std::size_t> winners_;  // of each subtree; the root is 1
  std::span<tokens> values_;
};

/// On which node every batch is computed, and what crosses nodes then: a row for every rank, with
/// what it sends, and, where that is counted, one for every batch, with what a GPU of its bag
/// receives. GPUs of a bag receive equally much, rounded up.
///
/// Ensures     (1) batches_on(node, kind) never has more batches than the node has bags of the kind
///             (2) a batch that may not move is placed at home
/// Complexity  place and swap O(r log rows), largest_after_swap O(r), for r ranks of two nodes that
///             send to the batches.
class node_assignment {
 public:
  static constexpr std::uint32_t nowhere = node_volumes::none;

  node_assignment(node_volumes const& volumes, bool count_received, workspace::frame& scratch)
      : volumes_(volumes),
        count_received_(count_received),
        node_of_(scratch.take<std::uint32_t>(volumes.batches())),
        slot_of_(scratch.take<std::size_t>(volumes.batches())),
        batch_in_(scratch.take<std::uint32_t>(volumes.batches())),
        group_first_(scratch.take<std::size_t>(volumes.nodes() * volumes.kinds() + 1)),
        group_size_(scratch.take<std::size_t>(volumes.nodes() * volumes.kinds())),
        volume_(scratch.take<tokens>(rows())),
        largest_(rows(), scratch)
  {
    std::fill(group_first_.begin(), group_first_.end(), 0);
    for (std::size_t batch = 0; batch < volumes_.batches(); ++batch) {
      std::uint32_t const kind = volumes_.kind_of(batch);
      if (kind != nowhere) { ++group_first_[group(volumes_.home_of(batch), kind) + 1]; }
    }
    for (std::size_t at = 1; at < group_first_.size(); ++at) {
      group_first_[at] += group_first_[at - 1];
    }
    clear();
  }

  /// Takes all batches off their nodes: every rank sends all, and no row is retired.
  void clear()
  {
    std::fill(group_size_.begin(), group_size_.end(), 0);
    for (std::size_t rank = 0; rank < volumes_.ranks(); ++rank) {
      volume_[rank] = volumes_.sent_by(rank) + volumes_.fixed_of(rank);
    }
    for (std::size_t batch = 0; batch < volumes_.batches(); ++batch) {
      bool const stays = volumes_.kind_of(batch) == nowhere;
      node_of_[batch] = stays ? volumes_.home_of(batch) : nowhere;
      if (count_received_) { volume_[row_of(batch)] = received(batch, 0); }
    }
    compare_all_rows();
  }

  /// Puts a batch that is on no node on one that has room.
  void place(std::size_t batch, std::size_t node)
  {
    BALLAST_EXPECTS(node_of_[batch] == nowhere && has_room(node, volumes_.kind_of(batch)), "batch ",
                    batch, " is on a node already, or node ", node, " has no room for it");
    std::size_t const at = group(node, volumes_.kind_of(batch));
    occupy(group_first_[at] + group_size_[at]++, batch);
    node_of_[batch] = static_cast<std::uint32_t>(node);
    add(batch, node, -1);
    set_received(batch);
  }

  /// Exchanges two batches of one kind on two nodes.
  void swap(std::size_t a, std::size_t b)
  {
    add(a, node_of_[a], 1);
    add(b, node_of_[b], 1);
    std::size_t const slot = slot_of_[a];
    occupy(slot_of_[b], a);
    occupy(slot, b);
    std::swap(node_of_[a], node_of_[b]);
    add(a, node_of_[a], -1);
    add(b, node_of_[b], -1);
    set_received(a);
    set_received(b);
  }

  /// The largest of the rows that this swap would change, after it.
  [[nodiscard]] tokens largest_after_swap(std::size_t a, std::size_t b) const
  {
    tokens most = 0;
    auto const keep_most = [&most](tokens, tokens after) { most = std::max(most, after); };
    for_each_replaced(node_of_[a], a, b, keep_most);
    for_each_replaced(node_of_[b], b, a, keep_most);
    if (!count_received_) { return most; }
    return std::max({most, received(a, kept(a, node_of_[b])), received(b, kept(b, node_of_[a]))});
  }

  template <class Price>
  [[nodiscard]] std::int64_t sum_of_rows(Price const& price) const
  {
    std::int64_t sum = 0;
    for (tokens const volume : volume_) { sum += price(volume); }
    return sum;
  }

  /// By how much the sum over rows of price(row's tokens) grows with this swap.
  template <class Price>
  [[nodiscard]] std::int64_t growth_after_swap(std::size_t a, std::size_t b,
                                               Price const& price) const
  {
    std::int64_t growth = 0;
    auto const add_growth = [&](tokens before, tokens after) {
      growth += price(after) - price(before);
    };
    for_each_replaced(node_of_[a], a, b, add_growth);
    for_each_replaced(node_of_[b], b, a, add_growth);
    if (count_received_) {
      add_growth(volume_[row_of(a)], received(a, kept(a, node_of_[b])));
      add_growth(volume_[row_of(b)], received(b, kept(b, node_of_[a])));
    }
    return growth;
  }

  /// What a node keeps of a batch: tokens that its ranks have.
  [[nodiscard]] tokens kept(std::size_t batch, std::size_t node) const
  {
    tokens all = 0;
    for (batch_volume const& each : volumes_.of_batch(batch, node)) { all += each.count; }
    return all;
  }

  /// The node of a batch; `nowhere` before it is placed.
  [[nodiscard]] std::uint32_t node_of(std::size_t batch) const { return node_of_[batch]; }

  [[nodiscard]] bool has_room(std::size_t node, std::uint32_t kind) const
  {
    std::size_t const at = group(node, kind);
    return group_first_[at] + group_size_[at] < group_first_[at + 1];
  }

  [[nodiscard]] std::span<std::uint32_t const> batches_on(std::size_t node,
                                                          std::uint32_t kind) const
  {
    std::size_t const at = group(node, kind);
    return batch_in_.subspan(group_first_[at], group_size_[at]);
  }

  /// The row with most tokens of those that are not retired, and its tokens; `largest_row::least`
  /// where all are retired.
  [[nodiscard]] std::size_t worst_row() const { return largest_.index(); }
  [[nodiscard]] tokens largest() const { return largest_.value(); }

  /// Takes a row out of the comparison, until clear() or compare_all_rows().
  void retire(std::size_t row) { largest_.set(row, largest_row::least); }

  void compare_all_rows()
  {
    for (std::size_t row = 0; row < rows(); ++row) { largest_.set(row, volume_[row]); }
  }

  [[nodiscard]] node_volumes const& volumes() const noexcept { return volumes_; }

 private:
  [[nodiscard]] std::size_t rows() const
  {
    return volumes_.ranks() + (count_received_ ? volumes_.batches() : 0);
  }
  [[nodiscard]] std::size_t row_of(std::size_t batch) const { return volumes_.ranks() + batch; }
  [[nodiscard]] std::size_t group(std::size_t node, std::uint32_t kind) const
  {
    return node * volumes_.kinds() + kind;
  }

  /// What each GPU of a batch's bag receives if so many of its tokens stay on the node.
  [[nodiscard]] tokens received(std::size_t batch, tokens kept) const
  {
    auto const gpus = static_cast<tokens>(volumes_.gpus_of(batch));
    return (volumes_.received_by(batch) - kept + gpus - 1) / gpus;
  }

  void occupy(std::size_t slot, std::size_t batch)
  {
    batch_in_[slot] = static_cast<std::uint32_t>(batch);
    slot_of_[batch] = slot;
  }

  void set(std::size_t row, tokens volume)
  {
    volume_[row] = volume;
    if (largest_[row] != largest_row::least) { largest_.set(row, volume); }
  }

  void add(std::size_t batch, std::size_t node, tokens sign)
  {
    for (batch_volume const& each : volumes_.of_batch(batch, node)) {
      set(each.peer, volume_[each.peer] + sign * each.count);
    }
  }

  void set_received(std::size_t batch)
  {
    if (count_received_) { set(row_of(batch), received(batch, kept(batch, node_of_[batch]))); }
  }

  /// Calls visit(before, after) with the rows of those ranks of a node that send to either batch,
  /// if `next` replaces `gone` there.
  template <class Visit>
  void for_each_replaced(std::size_t node, std::size_t gone, std::size_t next,
                         Visit const& visit) const
  {
    auto const more = volumes_.of_batch(gone, node);
    auto const less = volumes_.of_batch(next, node);
    for (auto a = more.begin(), b = less.begin(); a != more.end() || b != less.end();) {
      bool const of_a = b == less.end() || (a != more.end() && a->peer <= b->peer);
      bool const of_b = a == more.end() || (b != less.end() && b->peer <= a->peer);
      tokens const before = volume_[of_a ? a->peer : b->peer];
      tokens after = before;
      if (of_a) { after += (a++)->count; }
      if (of_b) { after -= (b++)->count; }
      visit(before, after);
    }
  }

  node_volumes const& volumes_;
  bool count_received_;
  std::span<std::uint32_t> node_of_;
  std::span<std::size_t> slot_of_;
  std::span<std::uint32_t> batch_in_;   // each slot, of those that hold a batch
  std::span<std::size_t> group_first_;  // slot of each node and kind
  std::span<std::size_t> group_size_;   // slots of it that hold a batch, the first ones
  std::span<tokens> volume_;            // of each row
  largest_row largest_;
};

}  // namespace ballast::inline v0::detail
