// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_AGREE_HPP
#define BALLAST_COMM_AGREE_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/concepts.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

/// A word that all ranks should have, such as a plan's digest, and what an error calls it.
struct agreed_word {
  std::uint64_t word = 0;
  std::string_view what;
};

/// Compares several words over all ranks in one exchange, such as the digests of the plans of which
/// a step is composed, and says which of them differs:
///
///     std::array const plans{agreed_word{encoder.digest(), "the plan of the encoder"},
///                            agreed_word{model.digest(), "the plan of the language model"}};
///     if (auto same = agree(comm, plans); !same) { ... }
///
/// Collective, one all_gather of 8 bytes for each word.
///
/// Expects     as many words on every rank.
/// Errors      mismatch, on every rank, of the first word that differs: `ranks` are those whose
///             word is not the most common one, and of equally common ones not that of the lowest
///             rank; the same list on every rank. It does not say whose word is right. Also the
///             errors of the communicator.
/// Complexity  O(ranks x words).
template <communicator C>
[[nodiscard]] result<void> agree(C& comm, std::span<agreed_word const> words)
{
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  std::size_t const bytes = word_bytes * words.size();
  std::span<std::byte> const memory = comm.scratch(bytes * (comm.size() + 1));
  for (std::size_t at = 0; at < words.size(); ++at) {
    std::memcpy(&memory[at * word_bytes], &words[at].word, word_bytes);
  }
  std::span<std::byte> const all = memory.subspan(bytes);
  if (auto gathered = comm.all_gather(memory.first(bytes), all); !gathered) { return gathered; }
  if (auto done = comm.wait(); !done) { return done; }
  auto const word_of = [all, bytes](std::size_t rank, std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, &all[rank * bytes + at * word_bytes], word_bytes);
    return word;
  };
  for (std::size_t at = 0; at < words.size(); ++at) {
    bool same = true;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      same = same && word_of(rank, at) == words[at].word;
    }
    if (same) { continue; }
    std::vector<std::uint64_t> of_ranks;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      of_ranks.push_back(word_of(rank, at));
    }
    return comm_failure::mismatch("agree", words[at].what,
                                  detail::dissenters(detail::span_of(of_ranks)));
  }
  return {};
}

/// The same of one word. Call it before the first byte moves:
///
///     if (auto same = agree(comm, plan.digest(), "the plan"); !same) { ... }
template <communicator C>
[[nodiscard]] result<void> agree(C& comm, std::uint64_t word, std::string_view what)
{
  agreed_word const one{word, what};
  return agree(comm, std::span(&one, 1));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_AGREE_HPP
