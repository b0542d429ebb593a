// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_STEP_COMPARISON_HPP
#define BALLAST_ROUTE_DETAIL_STEP_COMPARISON_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/route/detail/message_head.hpp>
#include <ballast/route/detail/outgoing_messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What the ranks of two units have called in a step, compared by transfers in pairs: other ranks of
/// the communicator need not take part. A rank has its own word, then two, then four.
///
/// A message that nobody has received may be in the way of a word: it has another size, since
/// messages of rows are multiples of message_alignment. It is received and given up.
///
/// Expects     all of `members`, which are in increasing order, compare with the same members.
/// Errors      those of the communicator; mismatch, on every rank: `ranks` are those whose word is
///             not the most common one.
/// Complexity  log2(members) messages of each rank; no allocation after as many members.
template <class Allocator>
class step_comparison {
 public:
  explicit step_comparison(Allocator const& allocator) : bytes_(allocator) {}

  /// Notes an exchange; returns what its messages begin with.
  [[nodiscard]] message_head note(std::uint64_t plan, std::uint64_t arrays)
  {
    plans_.add(plan);
    arrays_.add(arrays);
    return {step_ << 32U | ++calls_, content_word(plan, arrays)};
  }

  /// Compares what was noted since the last time, if anything was. A rank that is no member does
  /// not take part.
  template <class C>
  [[nodiscard]] result<void> compare(C& comm, std::span<rank_id const> members)
  {
    if (calls_ == 0) { return {}; }
    ++step_;
    calls_ = 0;
    auto const own =
        content_word(std::exchange(plans_, {}).value(), std::exchange(arrays_, {}).value());
    auto const told = gather(comm, members, own);
    if (!told) { return tl::unexpected(told.error()); }
    if (std::all_of(told->begin(), told->end(), [own](auto each) { return each == own; })) {
      return {};
    }
    auto found = dissent_on_content({told->begin(), told->end()});
    for (rank_id& each : found.ranks) { each = members[to_index(each)]; }
    return comm_failure::different_content("finish", found.in_arrays, std::move(found.ranks),
                                           "rows of this step may be missing or wrong");
  }

 private:
  /// Returns the words in the order of the members; none if this rank is not among them.
  template <class C>
  [[nodiscard]] result<std::span<std::uint64_t const>> gather(C& comm,
                                                              std::span<rank_id const> members,
                                                              std::uint64_t word)
  {
    auto const place = std::lower_bound(members.begin(), members.end(), comm.rank());
    if (place == members.end() || *place != comm.rank()) {
      return std::span<std::uint64_t const>();
    }
    auto const self = static_cast<std::size_t>(place - members.begin());
    std::size_t const size = members.size();
    std::size_t const room = sizeof(word) * (size + 1);
    words_.resize(2 * size);
    transfers_.reserve(2);
    bytes_.resize(std::max(bytes_.size(), 2 * room));
    words_[0] = word;
    for (std::size_t have = 1; have < size;) {
      std::size_t const more = std::min(have, size - have);
      std::size_t const bytes = more * sizeof(word) + 1;
      auto const out = mutable_span_of(bytes_, 0, bytes);
      auto const in = mutable_span_of(bytes_, room, bytes);
      std::memcpy(out.data(), words_.data(), more * sizeof(word));
      if (auto done = send_and_receive(comm, out, members[(self + size - have) % size], in,
                                       members[(self + have) % size]);
          !done) {
        cancel_transfers(comm, transfers_, bytes_);
        return tl::unexpected(done.error());
      }
      std::memcpy(&words_[have], in.data(), more * sizeof(word));
      have += more;
    }
    for (std::size_t step = 0; step < size; ++step) {
      words_[size + (self + step) % size] = words_[step];
    }
    return span_of(words_).subspan(size);
  }

  /// Sends and receives until both have come about.
  template <class C>
  [[nodiscard]] result<void> send_and_receive(C& comm, std::span<std::byte> out, rank_id to,
                                              std::span<std::byte> in, rank_id from)
  {
    bool sent = false;
    bool received = false;
    while (!sent || !received) {
      if (!received) {
        auto const begun = comm.receive(in, from);
        if (!begun) { return tl::unexpected(begun.error()); }
        transfers_.push_back(*begun);
      }
      if (!sent) {
        auto const begun = comm.send(out, to);
        if (!begun) { return tl::unexpected(begun.error()); }
        transfers_.push_back(*begun);
      }
      if (auto started = comm.start(); !started) { return started; }
      auto const ends = [&]() -> result<bool> {  // whether the last transfer has come about
        auto const done = comm.wait_for(transfers_.back());
        if (!done && done.error().code != error_code::mismatch) {
          return tl::unexpected(done.error());
        }
        transfers_.pop_back();
        return done.has_value();
      };
      if (!sent) {
        auto const came = ends();
        if (!came) { return tl::unexpected(came.error()); }
        sent = *came;
      }
      if (!received) {
        auto const came = ends();
        if (!came) { return tl::unexpected(came.error()); }
        received = *came;
      }
    }
    return {};
  }

  std::uint64_t step_ = 0;   // comparisons before this one
  std::uint64_t calls_ = 0;  // that were noted since
  digest plans_;
  digest arrays_;
  std::vector<std::uint64_t> words_;  // as they come, and by member
  std::vector<std::byte, Allocator> bytes_;
  std::vector<transfer_id> transfers_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_STEP_COMPARISON_HPP
