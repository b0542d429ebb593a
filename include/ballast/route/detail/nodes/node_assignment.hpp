// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_NODES_NODE_ASSIGNMENT_HPP
#define BALLAST_ROUTE_DETAIL_NODES_NODE_ASSIGNMENT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/detail/nodes/largest_row.hpp>
#include <ballast/route/detail/nodes/node_volumes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

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

#endif  // BALLAST_ROUTE_DETAIL_NODES_NODE_ASSIGNMENT_HPP
