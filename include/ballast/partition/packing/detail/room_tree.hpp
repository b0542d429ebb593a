// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_ROOM_TREE_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_ROOM_TREE_HPP

#include <ballast/core/random.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/packing/detail/bins_by_room.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ballast::inline v0::detail {

/// Bins by the room they have left, for capacities of any size: `bins_by_room` as a search tree.
///
/// A treap whose priorities are hashes of the bins' numbers, so that its shape and its results
/// depend on nothing but the calls.
///
/// Ensures     (1) of several bins with equal room the last that came is taken
/// Complexity  O(log bins) expected for put and take_tightest; 24 bytes of scratch per bin.
/// Source      R. Seidel, C. R. Aragon, "Randomized Search Trees", Algorithmica 16:464-497, 1996.
class room_tree {
 public:
  /// Bins are numbered below `bins`.
  room_tree(std::size_t bins, workspace::frame& scratch) : nodes_(scratch.take<node>(bins)) {}

  /// Adds a bin that is not in the tree.
  void put(bag_id bin, std::int64_t room) noexcept
  {
    auto const added = static_cast<std::uint32_t>(bin);
    auto const priority = static_cast<std::uint32_t>(digest{}.add(added).value());
    std::uint32_t* slot = &root_;
    while (*slot != none && nodes_[*slot].priority >= priority) {
      node& at = nodes_[*slot];
      slot = room <= at.room ? &at.less : &at.more;  // before its equals
    }
    // The subtree here is cut in two at the room of the new bin.
    std::uint32_t rest = *slot;
    *slot = added;
    std::uint32_t* less = &nodes_[added].less;
    std::uint32_t* more = &nodes_[added].more;
    while (rest != none) {
      node& at = nodes_[rest];
      if (room <= at.room) {
        *more = rest;
        more = &at.less;
        rest = at.less;
      } else {
        *less = rest;
        less = &at.more;
        rest = at.more;
      }
    }
    *less = none;
    *more = none;
    nodes_[added].room = room;
    nodes_[added].priority = priority;
  }

  /// Removes the bin with the least room of at least `weight`, if there is one.
  [[nodiscard]] std::optional<bin_with_room> take_tightest(std::int64_t weight) noexcept
  {
    std::uint32_t* tightest = nullptr;
    for (std::uint32_t* slot = &root_; *slot != none;) {
      node& at = nodes_[*slot];
      if (at.room >= weight) { tightest = slot; }
      slot = at.room >= weight ? &at.less : &at.more;
    }
    if (tightest == nullptr) { return std::nullopt; }
    std::uint32_t const taken = *tightest;
    // The two trees below it become one in its place.
    std::uint32_t less = nodes_[taken].less;
    std::uint32_t more = nodes_[taken].more;
    while (less != none && more != none) {
      bool const higher = nodes_[less].priority >= nodes_[more].priority;
      std::uint32_t& top = higher ? less : more;
      *tightest = top;
      tightest = higher ? &nodes_[top].more : &nodes_[top].less;
      top = *tightest;
    }
    *tightest = less != none ? less : more;
    return bin_with_room{bag_id{taken}, nodes_[taken].room};
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct node {
    std::int64_t room;
    std::uint32_t priority;
    std::uint32_t less;
    std::uint32_t more;
  };

  std::span<node> nodes_;
  std::uint32_t root_ = none;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_ROOM_TREE_HPP
