// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0::detail {

/// A bag as greedy policies see it: ordered by load, then by number.
struct loaded_bag {
  cost_units load;
  std::uint32_t index;

  friend constexpr bool operator<(loaded_bag a, loaded_bag b) noexcept
  {
    // Bitwise: which side is less is random, and a branch would be mispredicted half of the time.
    return static_cast<bool>(
        static_cast<int>(a.load < b.load) |
        (static_cast<int>(a.load == b.load) & static_cast<int>(a.index < b.index)));
  }
};

/// Whether all bags have one size and one speed, so that every sample fits every bag and takes the
/// same time in each.
[[nodiscard]] inline bool one_kind_of_bags(partition_problem const& problem) noexcept
{
  auto const all_like_the_first = [](std::span<std::uint32_t const> values) {
    return std::count(values.begin(), values.end(), values.front()) == std::ssize(values);
  };
  return all_like_the_first(problem.gpus) && all_like_the_first(problem.speeds);
}

/// The bags of one size and speed, as a binary heap with the lightest in front.
struct identical_bags {
  std::uint32_t gpus;
  std::uint32_t speed;
  std::span<loaded_bag> heap;

  [[nodiscard]] loaded_bag lightest() const noexcept { return heap.front(); }

  void add_to_lightest(cost_units cost) noexcept
  {
    replace_front(heap, {heap.front().load + cost, heap.front().index});
  }
};

/// The lightest bag of every kind. A greedy policy looks at no other: among identical bags, those
/// of one size and speed, the lightest is the least occupied and has the most room.
///
/// Ensures     (1) kinds are in increasing order of size and then of speed, each with at least one
///                 bag
/// Complexity  O(m log m) to build, 16 bytes of scratch per bag.
class lightest_bags {
 public:
  lightest_bags(partition_problem const& problem, std::span<cost_units const> loads,
                workspace::frame& scratch)
      : bags_(scratch.take<loaded_bag>(loads.size())),
        kinds_(scratch.take<identical_bags>(loads.size()))
  {
    for (std::size_t index = 0; index < loads.size(); ++index) {
      bags_[index] = {loads[index], static_cast<std::uint32_t>(index)};
    }
    // Sizes above speeds in one word, which compares as the pair does.
    auto const kind_of = [&problem](loaded_bag bag) {
      return std::uint64_t{problem.gpus[bag.index]} << 32U | problem.speeds[bag.index];
    };
    std::sort(bags_.begin(), bags_.end(), [&kind_of](loaded_bag a, loaded_bag b) {
      std::uint64_t const kind_a = kind_of(a);
      std::uint64_t const kind_b = kind_of(b);
      return kind_a < kind_b || (kind_a == kind_b && a < b);
    });
    // A sorted run already is a heap.
    for (std::size_t first = 0; first < bags_.size();) {
      std::uint64_t const kind = kind_of(bags_[first]);
      std::size_t last = first;
      while (last < bags_.size() && kind_of(bags_[last]) == kind) { ++last; }
      std::uint32_t const bag = bags_[first].index;
      kinds_[count_++] = {problem.gpus[bag], problem.speeds[bag],
                          bags_.subspan(first, last - first)};
      first = last;
    }
  }

  [[nodiscard]] std::span<identical_bags> kinds() const noexcept { return kinds_.first(count_); }

  void store(std::span<cost_units> loads) const noexcept
  {
    for (loaded_bag const each : bags_) { loads[each.index] = each.load; }
  }

 private:
  std::span<loaded_bag> bags_;
  std::span<identical_bags> kinds_;
  std::size_t count_ = 0;
};

}  // namespace ballast::inline v0::detail
