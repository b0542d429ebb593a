// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_AGREE_HPP
#define BALLAST_COMM_AGREE_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/concepts.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// Those whose word differs from what most ranks have; where two words are equally common, the one
/// of the lowest rank counts. Only called where words differ, so that it need not be fast.
[[nodiscard]] inline std::vector<rank_id> dissenters(std::span<std::uint64_t const> words)
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

}  // namespace detail

/// Compares one word over all ranks, such as a plan's digest, before the first byte moves:
///
///     if (auto same = agree(comm, plan.digest(), "the plan"); !same) { ... }
///
/// Collective, one all_gather of 8 bytes.
///
/// Errors      mismatch on every rank, where `ranks` are those that differ from what most have, the
///             same list everywhere; else those of the communicator.
/// Complexity  O(ranks).
template <communicator C>
[[nodiscard]] result<void> agree(C& comm, std::uint64_t word, std::string_view what)
{
  std::size_t const bytes = sizeof(word);
  std::span<std::byte> const memory = comm.scratch(bytes * (comm.size() + 1));
  std::memcpy(memory.data(), &word, bytes);
  std::span<std::byte> const all = memory.subspan(bytes, bytes * comm.size());
  if (auto gathered = comm.all_gather(memory.first(bytes), all); !gathered) { return gathered; }
  if (auto done = comm.wait(); !done) { return done; }
  bool same = true;
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    same = same && std::memcmp(&all[rank * bytes], &word, bytes) == 0;
  }
  if (same) { return {}; }
  std::vector<std::uint64_t> words(comm.size());
  std::memcpy(words.data(), all.data(), all.size());
  return comm_failure::mismatch("agree", what, detail::dissenters(words));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_AGREE_HPP
