// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/contract.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Sorts words by a key that is cut in digits, least significant digit first; words of equal keys
/// keep their order.
///
/// Shapes      words[n], spare[n]; n < 2^32; the spans do not overlap.
/// Expects     key_of(word) is below 2^key_bits, and key_bits at most 11 * Digits.
/// Ensures     (1) the result is one of the two spans, with the words in order
/// Complexity  O(n + 2^(key_bits / Digits)) per digit.
/// Source      H. H. Seward, "Information Sorting in the Application of Electronic Digital
///             Computers to Business Operations", MIT Digital Computer Laboratory R-232, 1954.
template <int Digits, class KeyOf>
[[nodiscard]] std::span<std::uint64_t> radix_sort_by_key(std::span<std::uint64_t> words,
                                                         std::span<std::uint64_t> spare,
                                                         int key_bits, KeyOf key_of)
{
  constexpr int most_digit_bits = 11;
  BALLAST_EXPECTS(words.size() == spare.size() && words.size() < (std::uint64_t{1} << 32));
  BALLAST_EXPECTS(key_bits >= 0 && key_bits <= Digits * most_digit_bits);
  int const digit_bits = (key_bits + Digits - 1) / Digits;
  std::size_t const digit_values = std::size_t{1} << digit_bits;
  std::uint64_t const mask = digit_values - 1;

  std::array<std::array<std::uint32_t, std::size_t{1} << most_digit_bits>, std::size_t{Digits}>
      counts;
  for (auto& of_digit : counts) { std::fill_n(of_digit.begin(), digit_values, 0U); }
  for (std::uint64_t const word : words) {
    std::uint64_t key = key_of(word);
    for (auto& of_digit : counts) {
      ++of_digit[key & mask];
      key >>= digit_bits;
    }
  }
  for (int digit = 0; digit * digit_bits < key_bits; ++digit) {
    auto& place = counts[static_cast<std::size_t>(digit)];
    std::uint32_t before = 0;
    for (std::size_t value = 0; value < digit_values; ++value) {
      before += std::exchange(place[value], before);
    }
    int const shift = digit * digit_bits;
    for (std::uint64_t const word : words) {
      spare[place[(key_of(word) >> shift) & mask]++] = word;
    }
    std::swap(words, spare);
  }
  return words;
}

/// Sorts words.
///
/// In two digits of the highest bits in which words differ, a few more than it takes to number
/// them, so that nearly all come to lie in order; the runs that such a key does not tell apart are
/// sorted by comparison.
///
/// Shapes      words[n], spare[n]; n < 2^32; the spans do not overlap.
/// Ensures     (1) words do not decrease
/// Complexity  O(n) where words are spread evenly, O(n log n) at worst.
inline void radix_sort(std::span<std::uint64_t> words, std::span<std::uint64_t> spare)
{
  // Below this size, counting costs more than comparisons do.
  constexpr std::size_t radix_pays_from = 32;
  if (words.size() < radix_pays_from) {
    std::sort(words.begin(), words.end());
    return;
  }
  std::uint64_t least = words.front();
  std::uint64_t most = words.front();
  for (std::uint64_t const word : words) {
    least = std::min(least, word);
    most = std::max(most, word);
  }
  constexpr int digits = 2;
  constexpr int bits_to_spare = 7;  // of words spread evenly, one in 128 shares its key
  auto const bits = static_cast<int>(std::bit_width(most - least));
  int const key_bits =
      std::min({bits, static_cast<int>(std::bit_width(words.size())) + bits_to_spare, 22});
  auto const key_of = [least, dropped = bits - key_bits](std::uint64_t word) {
    return (word - least) >> dropped;
  };
  auto const sorted = radix_sort_by_key<digits>(words, spare, key_bits, key_of);
  if (sorted.data() != words.data()) { std::copy(sorted.begin(), sorted.end(), words.begin()); }

  for (std::size_t place = 1; place < words.size(); ++place) {
    if (words[place - 1] <= words[place]) { continue; }
    std::size_t first = place - 1;
    std::uint64_t const key = key_of(words[place]);
    while (first > 0 && key_of(words[first - 1]) == key) { --first; }
    while (place < words.size() && key_of(words[place]) == key) { ++place; }
    std::sort(words.begin() + static_cast<std::ptrdiff_t>(first),
              words.begin() + static_cast<std::ptrdiff_t>(place));
  }
}

/// Puts an item into a list that is in order, behind those that are equal to it.
///
/// Expects     before(a, b) is a strict weak order, and no item is before one in front of it.
/// Ensures     (1) no item is before one in front of it
/// Complexity  O(n).
template <class T, class Before>
constexpr void insert_ordered(std::vector<T>& items, T item, Before before)
{
  items.push_back(std::move(item));
  for (std::size_t at = items.size() - 1; at > 0 && before(items[at], items[at - 1]); --at) {
    std::swap(items[at], items[at - 1]);
  }
}

}  // namespace ballast::inline v0::detail
