// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_COLLECTIVE_CHECK_HPP
#define BALLAST_COMM_COLLECTIVE_CHECK_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// Which operation of a communicator a rank has called.
enum class collective : std::uint32_t { all_gather, all_to_all_v, broadcast, barrier, split };

[[nodiscard]] constexpr char const* name_of(collective operation) noexcept
{
  switch (operation) {
    case collective::all_gather: return "all_gather";
    case collective::all_to_all_v: return "all_to_all_v";
    case collective::broadcast: return "broadcast";
    case collective::barrier: return "barrier";
    case collective::split: return "split";
  }
  return "collective";
}

/// What must be the same on every rank: the operation, the bytes each rank contributes where they
/// have to be equal (else 0), and the root (else rank 0).
struct collective_call {
  collective operation{};
  std::uint64_t bytes = 0;
  rank_id root{};

  [[nodiscard]] constexpr std::uint64_t word() const noexcept
  {
    return digest{}
        .add(static_cast<std::uint64_t>(operation))
        .add(bytes)
        .add(to_index(root))
        .value();
  }

  friend bool operator==(collective_call const&, collective_call const&) = default;
};

/// One word per rank whose sum over all ranks, modulo 2^64, is zero when all ranks called for the
/// same: a single 8-byte reduction checks every count of an all-to-all, and every rank learns of a
/// mismatch between any two others.
///
/// The sender of each message adds a hash of (from, to, bytes) and its receiver takes it away; the
/// same is done once around the ring for what all ranks must have in common.
///
/// Shapes      send_bytes[P] and receive_bytes[P] for all_to_all_v, else both empty.
/// Ensures     (1) the sum is 0 when all ranks agree
///             (2) it is not 0 with probability 1 - 2^-64 when they do not
/// Complexity  O(P).
[[nodiscard]] constexpr std::uint64_t check_word(rank_id rank, std::size_t ranks,
                                                 collective_call call,
                                                 std::span<std::size_t const> send_bytes = {},
                                                 std::span<std::size_t const> receive_bytes = {})
{
  BALLAST_EXPECTS(to_index(rank) < ranks && send_bytes.size() == receive_bytes.size());
  auto const hash = [](std::uint64_t from, std::uint64_t to, std::uint64_t what) {
    return digest{}.add(from).add(to).add(what).value();
  };
  std::uint64_t const self = to_index(rank);
  std::uint64_t const next = (self + 1) % ranks;
  std::uint64_t const common = call.word();
  std::uint64_t sum = hash(self, ranks, common) - hash(next, ranks, common);
  for (std::size_t peer = 0; peer < send_bytes.size(); ++peer) {
    sum += hash(self, peer, send_bytes[peer]) - hash(peer, self, receive_bytes[peer]);
  }
  return sum;
}

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

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_COLLECTIVE_CHECK_HPP
