// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/packing/detail/bins_by_room.hpp>
#include <ballast/partition/packing/packing_plan.hpp>

namespace ballast::inline v0 {

namespace detail {

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

/// Best fit decreasing with either set of bins by room: `bins_by_room` or `room_tree`.
///
/// Shapes      owner[n].
/// Expects     a valid packing_problem; `bins` has room for n bins and holds none yet.
/// Returns     the number of bins.
template <class Bins>
[[nodiscard]] std::size_t best_fit_into(std::span<bag_id> owner, packing_problem const& problem,
                                        Bins bins)
{
  std::size_t opened = 0;
  for (auto const [weight, sample] : problem.heaviest_first) {
    auto const open = bins.take_tightest(weight);
    bag_id const bin = open ? open->bin : to_id<bag_id>(opened++);
    bins.put(bin, (open ? open->room : problem.capacity) - weight);
    owner[to_index(sample)] = bin;
  }
  return opened;
}

}  // namespace detail

/// Heaviest sample first, each into the bin where it leaves the least room.
///
/// Ensures     (1) every sample has one bin, no bin holds more than the capacity, none is empty
///             (2) bins <= 11/9 * fewest + 4
///             (3) equal weights go in sample order, and of bins with equal room to the one that
///                 was filled last
/// Complexity  after the sort that the problem brings O(n + capacity / 64) up to a capacity of
///             2^22, O(n log b) for b bins above it; 4 bytes of scratch per unit of capacity, or 24
///             per sample.
/// Source      D. S. Johnson, A. Demers, J. D. Ullman, M. R. Garey, R. L. Graham, "Worst-Case
///             Performance Bounds for Simple One-Dimensional Packing Algorithms", SIAM J. Comput.
///             3(4):299-325, 1974.
struct best_fit_decreasing {
  std::size_t operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    detail::expect_packing_arrays(problem, owner);
    auto scratch = memory.open();
    if (problem.capacity <= detail::bins_by_room::largest_capacity) {
      return detail::best_fit_into(owner, problem,
                                   detail::bins_by_room(problem.capacity, owner.size(), scratch));
    }
    return detail::best_fit_into(owner, problem, detail::room_tree(owner.size(), scratch));
  }

  friend bool operator==(best_fit_decreasing, best_fit_decreasing) = default;
};

}  // namespace ballast::inline v0
