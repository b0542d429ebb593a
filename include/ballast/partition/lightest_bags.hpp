// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_LIGHTEST_BAGS_HPP
#define BALLAST_PARTITION_LIGHTEST_BAGS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// A bag as greedy policies see it: ordered by load, then by number.
struct loaded_bag {
  cost_units load;
  std::uint32_t index;

  friend constexpr bool operator<(loaded_bag a, loaded_bag b) noexcept
  {
    // Bitwise, since which side is less is a coin toss that no branch predictor wins.
    return static_cast<bool>(
        static_cast<int>(a.load < b.load) |
        (static_cast<int>(a.load == b.load) & static_cast<int>(a.index < b.index)));
  }
};

/// The bags of one size, as a binary heap with the lightest in front.
struct bags_of_size {
  std::uint32_t gpus;
  std::span<loaded_bag> heap;

  [[nodiscard]] loaded_bag lightest() const noexcept { return heap.front(); }

  /// Adds work to the lightest bag and restores the heap: O(log bags).
  ///
  /// The hole left in front sinks to the bottom first and the bag rises from there. Greedy policies
  /// make the lightest bag one of the heaviest, so it seldom rises, and sinking takes no branch
  /// that depends on loads (R. W. Floyd's variant of heapsort's sift).
  void add_to_lightest(cost_units cost) noexcept
  {
    loaded_bag moved = heap.front();
    moved.load += cost;
    std::size_t hole = 0;
    for (std::size_t child = 1; child + 1 < heap.size(); child = 2 * hole + 1) {
      child += heap[child + 1] < heap[child] ? 1 : 0;
      heap[hole] = heap[child];
      hole = child;
    }
    if (2 * hole + 1 < heap.size()) {  // a last child without a sibling
      heap[hole] = heap[2 * hole + 1];
      hole = 2 * hole + 1;
    }
    while (hole > 0 && moved < heap[(hole - 1) / 2]) {
      heap[hole] = heap[(hole - 1) / 2];
      hole = (hole - 1) / 2;
    }
    heap[hole] = moved;
  }
};

/// For every size of bag the lightest bag of that size: all that a greedy policy ever looks at,
/// since among bags of equal size the lightest is the least occupied and has the most room.
///
/// Ensures     (1) sizes are in increasing order, each with at least one bag
/// Complexity  O(m log m) to build, 16 bytes of scratch per bag.
class lightest_bags {
 public:
  lightest_bags(std::span<std::uint32_t const> gpus, std::span<cost_units const> loads,
                workspace::frame& scratch)
      : bags_(scratch.take<loaded_bag>(gpus.size())),
        sizes_(scratch.take<bags_of_size>(gpus.size()))
  {
    for (std::size_t index = 0; index < gpus.size(); ++index) {
      bags_[index] = {loads[index], static_cast<std::uint32_t>(index)};
    }
    std::ranges::sort(bags_, [gpus](loaded_bag a, loaded_bag b) {
      return gpus[a.index] < gpus[b.index] || (gpus[a.index] == gpus[b.index] && a < b);
    });
    // A sorted run already is a heap.
    for (std::size_t first = 0; first < bags_.size();) {
      std::uint32_t const size = gpus[bags_[first].index];
      std::size_t last = first;
      while (last < bags_.size() && gpus[bags_[last].index] == size) { ++last; }
      sizes_[count_++] = {size, bags_.subspan(first, last - first)};
      first = last;
    }
  }

  [[nodiscard]] std::span<bags_of_size> by_size() const noexcept { return sizes_.first(count_); }

  /// Writes every bag's load back to its place.
  void store(std::span<cost_units> loads) const noexcept
  {
    for (loaded_bag const each : bags_) { loads[each.index] = each.load; }
  }

 private:
  std::span<loaded_bag> bags_;
  std::span<bags_of_size> sizes_;
  std::size_t count_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_LIGHTEST_BAGS_HPP
