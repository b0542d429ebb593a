// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_NCCL_MISSING_RANKS_HPP
#define BALLAST_GPU_DETAIL_NCCL_MISSING_RANKS_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/gpu/detail/nccl_queue.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Before bytes move, each rank tells each other rank which call it makes. Ranks that are not heard
/// are missing, and ranks that make another call are named.
///
/// `Allocator` allocates memory that the GPU and the host both reach.
///
/// Shapes      send_bytes[P] and receive_bytes[P] for all_to_all_v, else both empty.
/// Expects     the thread has no NCCL group open: the words would stay in it.
/// Ensures     (1) it succeeds only if all ranks made the call and agree, and then on all of them
///             (2) every rank that made the call gets an error if any two ranks differ
/// Errors      mismatch: `ranks` are those whose call is not the most common one, the same list on
///             every rank; if only counts differ, those whose counts differ from this rank's.
///             timed_out: `ranks` have not been heard; empty if NCCL has not even begun. transport.
/// Complexity  O(P) calls of NCCL, 40 bytes to each rank.
template <class Allocator>
class nccl_missing_ranks {
 public:
  nccl_missing_ranks(std::size_t rank, std::size_t ranks, Allocator const& allocator)
      : rank_(rank),
        words_(2 * ranks, typename words::allocator_type(allocator)),
        bytes_(ranks, sizeof(word))
  {}

  /// From now on it serves this rank of a group of no more ranks than it was made for. Allocates
  /// nothing.
  void narrow(std::size_t rank, std::size_t ranks)
  {
    rank_ = rank;
    words_.resize(2 * ranks);
    bytes_.resize(ranks);
  }

  [[nodiscard]] result<void> operator()(nccl_queue& queue, collective_call call,
                                        std::span<std::size_t const> send_bytes = {},
                                        std::span<std::size_t const> receive_bytes = {},
                                        std::uint32_t colour = 0)
  {
    std::size_t const ranks = bytes_.size();
    std::span<word> const told = mutable_span_of(words_, 0, ranks);
    std::span<word> const heard = mutable_span_of(words_, ranks, ranks);
    word const common = {
        .sum = check_word(to_id<rank_id>(rank_), ranks, call, send_bytes, receive_bytes),
        .call = call.word(),
        .content = call.content,
        .sent_or_colour = colour};
    std::fill(told.begin(), told.end(), common);
    for (std::size_t peer = 0; peer < send_bytes.size(); ++peer) {
      told[peer].sent_or_colour = send_bytes[peer];
      told[peer].received = receive_bytes[peer];
    }
    std::fill(heard.begin(), heard.end(), word{.sent_or_colour = not_heard});

    std::string_view const operation = name_of(call.operation);
    if (auto queued = queue.exchange(operation, std::as_bytes(told).data(), bytes_,
                                     std::as_writable_bytes(heard).data(), bytes_);
        !queued) {
      return queued;
    }
    if (auto done = queue.drain(operation, [&] { return missing(); }); !done) { return done; }
    bool const no_group_was_open = was_heard(rank_);
    BALLAST_EXPECTS(no_group_was_open);

    std::uint64_t sum = 0;
    for (word const& each : heard) { sum += each.sum; }
    if (sum == 0) { return {}; }
    if (auto differing = dissenters(); !differing.empty()) {
      return comm_failure::different_calls(operation, std::move(differing));
    }
    std::vector<std::uint64_t> contents;
    for (word const& each : heard) { contents.push_back(each.content); }
    if (auto found = dissent_on_content(std::move(contents)); !found.ranks.empty()) {
      return comm_failure::different_content(operation, found.in_arrays, std::move(found.ranks));
    }
    return comm_failure::different_counts(operation, unequal_counts());
  }

  /// The colour that `peer` gave in the last call, which was split.
  [[nodiscard]] std::uint64_t colour_of(std::size_t peer) const
  {
    return words_[bytes_.size() + peer].sent_or_colour;
  }

 private:
  struct word {
    std::uint64_t sum = 0;   // zero over all ranks where all agree
    std::uint64_t call = 0;  // what all ranks must have in common, and the next
    std::uint64_t content = 0;
    std::uint64_t sent_or_colour = 0;
    std::uint64_t received = 0;
  };
  static constexpr std::uint64_t not_heard = ~std::uint64_t{0};  // neither bytes nor a colour

  using words =
      std::vector<word, typename std::allocator_traits<Allocator>::template rebind_alloc<word>>;

  [[nodiscard]] std::span<word const> heard() const
  {
    return span_of(words_, bytes_.size(), bytes_.size());
  }

  [[nodiscard]] bool was_heard(std::size_t peer) const
  {
    return heard()[peer].sent_or_colour != not_heard;
  }

  [[nodiscard]] std::vector<rank_id> missing() const
  {
    std::vector<rank_id> ranks;
    // If even its own word has not arrived, NCCL was still connecting or the stream was busy: no
    // rank can be named.
    if (!was_heard(rank_)) { return ranks; }
    for (std::size_t peer = 0; peer < bytes_.size(); ++peer) {
      if (!was_heard(peer)) { ranks.push_back(to_id<rank_id>(peer)); }
    }
    return ranks;
  }

  [[nodiscard]] std::vector<rank_id> dissenters() const
  {
    std::vector<std::uint64_t> calls;
    for (word const& each : heard()) { calls.push_back(each.call); }
    return detail::dissenters(calls);
  }

  [[nodiscard]] std::vector<rank_id> unequal_counts() const
  {
    std::vector<rank_id> ranks;
    for (std::size_t peer = 0; peer < bytes_.size(); ++peer) {
      word const& theirs = heard()[peer];
      word const& ours = words_[peer];
      if (theirs.sent_or_colour != ours.received || theirs.received != ours.sent_or_colour) {
        ranks.push_back(to_id<rank_id>(peer));
      }
    }
    return ranks;
  }

  std::size_t rank_;
  words words_;                     // told to each rank, then heard from each rank
  std::vector<std::size_t> bytes_;  // of the word to and from each rank
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_NCCL_MISSING_RANKS_HPP
