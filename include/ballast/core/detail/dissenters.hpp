// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/quantities.hpp>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// Returns the ranks whose word is not the most common one; of equally common words the lowest
/// rank's counts. It is called only after a mismatch, so it need not be fast.
[[nodiscard]] BALLAST_ONCE std::vector<rank_id> dissenters(std::span<std::uint64_t const> words);

/// The same of content_words, and whether it is only their arrays that differ.
struct content_dissent {
  std::vector<rank_id> ranks;
  bool in_arrays = false;
};

[[nodiscard]] BALLAST_ONCE content_dissent dissent_on_content(std::vector<std::uint64_t> words);

/// Of the words that ranks have told each other, the first that differs, and whose.
struct word_dissent {
  std::size_t word = 0;
  std::vector<rank_id> ranks;
};

/// all[P * N * 8] has the words of each rank, one rank after the other; N > 0. Allocates only where
/// they differ.
[[nodiscard]] BALLAST_ONCE std::optional<word_dissent> dissent_on_words(
    std::span<std::byte const> all, std::size_t ranks);

}  // namespace ballast::inline v0::detail

#ifndef BALLAST_COMPILED

namespace ballast::inline v0::detail {

[[nodiscard]] BALLAST_ONCE std::vector<rank_id> dissenters(std::span<std::uint64_t const> words)
{
  std::uint64_t common = 0;
  std::size_t most = 0;
  for (std::uint64_t const word : words) {
    std::size_t votes = 0;
    for (std::uint64_t const other : words) { votes += other == word ? 1U : 0U; }
    if (votes > most) {
      most = votes;
      common = word;
    }
  }
  std::vector<rank_id> differing;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank] != common) { differing.push_back(to_id<rank_id>(rank)); }
  }
  return differing;
}

[[nodiscard]] BALLAST_ONCE content_dissent dissent_on_content(std::vector<std::uint64_t> words)
{
  content_dissent found{dissenters(words)};
  for (std::uint64_t& word : words) { word >>= 32U; }
  found.in_arrays = dissenters(words).empty();
  return found;
}

[[nodiscard]] BALLAST_ONCE std::optional<word_dissent> dissent_on_words(
    std::span<std::byte const> all, std::size_t ranks)
{
  std::size_t const words = all.size() / sizeof(std::uint64_t) / ranks;
  auto const word_of = [&](std::size_t rank, std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, &all[(rank * words + at) * sizeof(word)], sizeof(word));
    return word;
  };
  for (std::size_t at = 0; at < words; ++at) {
    bool same = true;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      same = same && word_of(rank, at) == word_of(0, at);
    }
    if (same) { continue; }
    std::vector<std::uint64_t> of_ranks(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) { of_ranks[rank] = word_of(rank, at); }
    return word_dissent{at, dissenters(of_ranks)};
  }
  return {};
}

}  // namespace ballast::inline v0::detail

#endif
