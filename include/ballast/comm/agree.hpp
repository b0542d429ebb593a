// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_AGREE_HPP
#define BALLAST_COMM_AGREE_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/concepts.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

/// Compares one word over all ranks, such as a plan's digest. Call it before the first byte moves:
///
///     if (auto same = agree(comm, plan.digest(), "the plan"); !same) { ... }
///
/// Collective, one all_gather of 8 bytes.
///
/// Errors      mismatch, on every rank: `ranks` are those whose word is not the most common one,
///             and of equally common ones not that of the lowest rank; the same list on every rank.
///             It does not say whose word is right. Also the errors of the communicator.
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
  return comm_failure::mismatch("agree", what, detail::dissenters(detail::span_of(words)));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_AGREE_HPP
