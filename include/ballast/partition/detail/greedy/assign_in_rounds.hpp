// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_GREEDY_ASSIGN_IN_ROUNDS_HPP
#define BALLAST_PARTITION_DETAIL_GREEDY_ASSIGN_IN_ROUNDS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/radix_sort.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// Longest processing time first over bags of one kind, without a priority queue.
///
/// Bags lie in order of load. The samples go to the first bag, the second, ... while the next bag
/// is still lighter than the lightest of those that got one in this round: a priority queue would
/// give the same bags. Then the bags are sorted again. Samples come heaviest first, so a bag that
/// got one is nearly always heavier than those that wait, and a round is about as long as there are
/// bags. Where rounds are short, as with one bag that starts far lighter than the others, a heap
/// takes over for as many samples as there are bags.
///
/// A bag is one word, its load above its number, so words order bags by load, then by number.
///
/// Shapes      heaviest_first[n], loads[m], owner[n]; m >= 1.
/// In, out     loads enters as work that each bag already has and leaves as the total.
/// Ensures     (1) each sample goes to the lightest bag, of equally light ones to the one with the
///                 lowest number
///             (2) where a load and a number do not fit one word, it does nothing and returns false
/// Complexity  O(n) where rounds are about m long and O(n log m) at worst; 16 m bytes of scratch.
[[nodiscard]] inline bool assign_in_rounds(std::span<priced_sample const> heaviest_first,
                                           std::span<cost_units> loads, std::span<bag_id> owner,
                                           workspace& memory)
{
  BALLAST_EXPECTS(!loads.empty() && owner.size() == heaviest_first.size());
  std::size_t const bags = loads.size();
  auto const number_bits = static_cast<int>(std::bit_width(bags - 1));
  std::uint64_t total = 0;
  std::uint64_t largest = 0;
  for (cost_units const load : loads) {
    total += static_cast<std::uint64_t>(load);
    largest = std::max(largest, static_cast<std::uint64_t>(load));
  }
  for (auto const [cost, sample] : heaviest_first) { total += static_cast<std::uint64_t>(cost); }
  // The lightest bag is never above the mean, so no bag gets above the mean by more than a sample.
  if (!heaviest_first.empty()) {
    auto const heaviest = static_cast<std::uint64_t>(heaviest_first.front().cost);
    largest = std::max(largest, total / bags + heaviest);
  }
  if (static_cast<int>(std::bit_width(largest)) + number_bits > 64) { return false; }

  auto scratch = memory.open();
  std::span<std::uint64_t> const words = scratch.take<std::uint64_t>(bags);
  std::span<std::uint64_t> const spare = scratch.take<std::uint64_t>(bags);
  for (std::size_t bag = 0; bag < bags; ++bag) {
    words[bag] = (static_cast<std::uint64_t>(loads[bag]) << number_bits) | bag;
  }
  std::uint64_t const number_mask = (std::uint64_t{1} << number_bits) - 1;
  auto const with = [&](std::uint64_t word, priced_sample placed) {
    owner[to_index(placed.sample)] = to_id<bag_id>(word & number_mask);
    return word + (static_cast<std::uint64_t>(placed.cost) << number_bits);
  };

  radix_sort(words, spare);
  for (std::span<priced_sample const> left = heaviest_first; !left.empty();) {
    std::size_t const most = std::min(bags, left.size());
    std::uint64_t lightest_given = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t heaviest_given = 0;
    std::size_t given = 0;
    for (; given < most && words[given] < lightest_given; ++given) {
      words[given] = with(words[given], left[given]);
      lightest_given = std::min(lightest_given, words[given]);
      heaviest_given = std::max(heaviest_given, words[given]);
    }
    left = left.subspan(given);
    if (left.empty()) { break; }
    // Bags above all that got a sample are in order, among them the few with a giant sample.
    auto const* const above =
        std::upper_bound(words.data() + given, words.data() + words.size(), heaviest_given);
    auto const end = static_cast<std::size_t>(above - words.data());
    radix_sort(words.first(end), spare.first(end));

    if (given < bags / 8) {
      std::span<priced_sample const> const next = left.first(std::min(bags, left.size()));
      for (priced_sample const placed : next) {  // what is sorted is a heap
        replace_front(words, with(words.front(), placed));
      }
      left = left.subspan(next.size());
      radix_sort(words, spare);
    }
  }
  for (std::uint64_t const word : words) {
    loads[word & number_mask] = static_cast<cost_units>(word >> number_bits);
  }
  return true;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_GREEDY_ASSIGN_IN_ROUNDS_HPP
