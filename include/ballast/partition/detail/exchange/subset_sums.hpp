// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0::detail {

/// A subset of a few numbers in one word: its sum above, its members below. Sorting words sorts
/// subsets by sum, and those of one sum by their members, so no two are equal.
struct subset_sum {
  static constexpr std::size_t most_members = 14;
  static constexpr std::uint64_t every_member = (std::uint64_t{1} << most_members) - 1;
  /// Sums are below it, so that differences of two words keep their sign.
  static constexpr cost_units sum_limit = cost_units{1} << 47;
  /// Stands behind the last word of a list: so far above every word that no difference with it
  /// looks like one of two sums.
  static constexpr std::uint64_t end = std::uint64_t{1} << 62;

  [[nodiscard]] static constexpr std::uint64_t pack(cost_units sum, std::uint64_t members) noexcept
  {
    return static_cast<std::uint64_t>(sum) << most_members | members;
  }
  [[nodiscard]] static constexpr cost_units sum(std::uint64_t word) noexcept
  {
    return static_cast<cost_units>(word >> most_members);
  }
  [[nodiscard]] static constexpr std::uint32_t members(std::uint64_t word) noexcept
  {
    return static_cast<std::uint32_t>(word & every_member);
  }
};

/// Writes the candidates that a subset has, in their order; bit i of `members` stands for candidate
/// i. Returns how many they are.
template <class Candidate>
[[nodiscard]] constexpr std::size_t list_members(std::uint32_t members,
                                                 std::span<Candidate const> candidates,
                                                 std::span<Candidate> listed) noexcept
{
  std::size_t count = 0;
  for (std::size_t place = 0; members >> place != 0; ++place) {
    if ((members >> place & 1) != 0) { listed[count++] = candidates[place]; }
  }
  return count;
}

/// Merges and passes are cut into stretches, which a processor runs side by side.
using stretch_counts = std::array<std::uint64_t, 4>;
inline constexpr std::size_t merge_stretches = stretch_counts{}.size();

/// How many of the first `taken` words of two merged ascending lists come from the first list,
/// where `second(j)` is word j of the second and no word of one list equals one of the other.
///
/// Source      O. Green, R. McColl, D. Bader, "GPU Merge Path", ICS 2012.
template <class Second>
[[nodiscard]] std::size_t merged_from_first(std::span<std::uint64_t const> first,
                                            Second const& second, std::size_t second_size,
                                            std::size_t taken)
{
  std::size_t low = taken > second_size ? taken - second_size : 0;
  std::size_t high = std::min(taken, first.size());
  while (low < high) {
    std::size_t const middle = low + (high - low) / 2;
    if (first[middle] < second(taken - middle - 1)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Lists the sums of all subsets of up to 14 numbers in ascending order without sorting.
///
/// Each number doubles the list: the list merged with itself plus the number. The complement of a
/// subset makes the upper half of a list the mirror image of the lower one, so only that is merged,
/// in independent stretches and without a branch that depends on the numbers.
///
/// Shapes      costs[k], sums[2^k], half[2^(k-1)] or larger; k <= subset_sum::most_members.
/// Expects     costs are not negative and add up to less than subset_sum::sum_limit.
/// Ensures     (1) sums holds the word of every subset once, ascending; bit i stands for costs[i]
/// Complexity  O(2^k): 2^k steps of merging.
/// Source      E. Horowitz, S. Sahni, "Computing Partitions with Applications to the Knapsack
///             Problem", J. ACM 21(2):277-292, 1974.
inline void subset_sums_into(std::span<std::uint64_t> sums, std::span<cost_units const> costs,
                             std::span<std::uint64_t> half) noexcept
{
  constexpr std::size_t stretches = merge_stretches;
  BALLAST_EXPECTS(costs.size() <= subset_sum::most_members);
  BALLAST_EXPECTS(sums.size() == std::size_t{1} << costs.size());
  BALLAST_EXPECTS(half.size() >= sums.size() / 2);

  // The lists alternate between the two arrays, so that the last one lands in `sums`.
  std::uint64_t* from = costs.size() % 2 == 0 ? sums.data() : half.data();
  std::uint64_t* to = costs.size() % 2 == 0 ? half.data() : sums.data();
  from[0] = 0;
  std::uint64_t every = 0;
  for (std::size_t member = 0; member < costs.size(); ++member) {
    std::size_t const size = std::size_t{1} << member;
    std::uint64_t const added = subset_sum::pack(costs[member], std::uint64_t{1} << member);
    every += added;
    auto const merge_step = [from, to, added](std::size_t place, std::size_t& without) {
      std::uint64_t const a = from[without];
      std::uint64_t const b = from[place - without] + added;
      std::uint64_t const first = a < b ? 1 : 0;
      to[place] = b ^ ((a ^ b) & (0 - first));
      without += first;
    };
    if (size < 16 * stretches) {
      std::size_t without = 0;
      for (std::size_t place = 0; place < size; ++place) { merge_step(place, without); }
    } else {
      std::size_t const length = size / stretches;
      std::array<std::size_t, stretches> without{};
      for (std::size_t stretch = 1; stretch < stretches; ++stretch) {
        without[stretch] = merged_from_first(
            std::span(from, size), [from, added](std::size_t place) { return from[place] + added; },
            size, stretch * length);
      }
      for (std::size_t place = 0; place < length; ++place) {
        for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
          merge_step(stretch * length + place, without[stretch]);
        }
      }
    }
    for (std::size_t place = 0; place < size; ++place) {
      to[2 * size - 1 - place] = every - to[place];
    }
    std::swap(from, to);
  }
}

}  // namespace ballast::inline v0::detail
