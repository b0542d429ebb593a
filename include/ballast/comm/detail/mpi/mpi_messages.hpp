// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_MESSAGES_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_MESSAGES_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/detail/mpi/mpi_channel.hpp>
#include <ballast/comm/detail/mpi/mpi_requests.hpp>
#include <ballast/comm/mpi_communicator_options.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// How the ranks of a group move bytes: by messages between two ranks, in rounds that each end with
/// a wait. MPI's own collectives need a communicator for just these ranks (see mpi_channel), and
/// have the receive arrays in use for ever if a rank does not come.
///
/// Expects     all ranks of the group call the same function with the same sizes; with `verify`
///             they have compared these.
/// Ensures     (1) nothing is allocated if there was a call with as many messages before; what is
///                 allocated is allocated before the first message of a call
///             (2) in verify's absence, wrong sizes do not write past the end of an array
/// Errors      those of mpi_requests; without `verify` mismatch, where a message has another size.
/// Complexity  messages of each rank: all_to_all one to each peer with bytes, all_gather log2(P),
///             broadcast at most log2(P), in as many rounds; several above `largest_message`.
class mpi_messages {
 public:
  mpi_messages(std::shared_ptr<mpi_channel> channel, mpi_communicator_options options)
      : channel_(std::move(channel)),
        compared_(options.verify),
        requests_(options.deadline, &channel_->incoming)
  {}

  /// From now on it serves these ranks of the channel's communicators, of which this is number
  /// `rank`.
  [[nodiscard]] result<void> open(int tag, std::vector<int> members, std::size_t rank)
  {
    members_ = members;
    rank_ = rank;
    tag_ = tag;
    return requests_.listen(channel_->control, tag, std::move(members), rank);
  }

  /// From now on it cuts messages at this size.
  void cut_at(std::size_t largest) noexcept { largest_ = largest; }

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  [[nodiscard]] std::vector<int> const& members() const noexcept { return members_; }
  [[nodiscard]] mpi_requests& requests() noexcept { return requests_; }

  /// Sends outgoing(peer) to each peer and fills incoming(peer) from it.
  template <class Outgoing, class Incoming>
  [[nodiscard]] result<void> all_to_all(char const* operation, Outgoing outgoing, Incoming incoming)
  {
    std::span<std::byte const> const own = outgoing(rank_);
    if (own.size() != incoming(rank_).size()) {
      return comm_failure::different_message(operation, to_id<rank_id>(rank_),
                                             incoming(rank_).size(), own.size());
    }
    std::size_t most = 0;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      most += messages(incoming(peer).size()) + messages(outgoing(peer).size());
    }
    expect(most);
    // Each rank begins with another peer, so that no rank is everybody's first.
    for (std::size_t step = 1; step < size(); ++step) {
      receive(before(step), incoming(before(step)));
    }
    for (std::size_t step = 1; step < size(); ++step) { send(after(step), outgoing(after(step))); }
    if (!own.empty()) { std::memcpy(incoming(rank_).data(), own.data(), own.size()); }
    return wait(operation);
  }

  /// all[P * bytes] has this rank's bytes at their place and gets those of all others.
  ///
  /// A rank has its own part, then two in a row, then four: each round doubles what it has.
  [[nodiscard]] result<void> all_gather(char const* operation, std::span<std::byte> all,
                                        std::size_t bytes)
  {
    auto const parts = [&](std::size_t first, std::size_t count) {  // it may go on at the beginning
      std::size_t const at_end = std::min(count, size() - first);
      return std::pair(all.subspan(first * bytes, at_end * bytes),
                       all.first((count - at_end) * bytes));
    };
    expect(4 + 2 * messages(all.size()));
    for (std::size_t have = 1; have < size();) {
      std::size_t const more = std::min(have, size() - have);
      auto const [incoming, incoming_rest] = parts(after(have), more);
      receive(after(have), incoming);
      receive(after(have), incoming_rest);
      auto const [outgoing, outgoing_rest] = parts(rank_, more);
      send(before(have), outgoing);
      send(before(have), outgoing_rest);
      if (auto done = wait(operation); !done) { return done; }
      have += more;
    }
    return {};
  }

  /// Along a tree: a rank that has the bytes sends them to as many ranks as there are rounds left.
  [[nodiscard]] result<void> broadcast(char const* operation, std::span<std::byte> bytes,
                                       std::size_t root)
  {
    std::size_t const place = (rank_ + size() - root) % size();
    auto const at = [&](std::size_t other) { return (other + root) % size(); };
    std::size_t reach = 1;
    while (reach < size() && (place & reach) == 0) { reach *= 2; }
    std::size_t children = 0;
    for (std::size_t ahead = reach; ahead > 1; ahead /= 2) { ++children; }
    expect(messages(bytes.size()) * std::max<std::size_t>(children, 1));
    if (place != 0) {
      receive(at(place - reach), bytes);
      if (auto done = wait(operation); !done) { return done; }
    }
    for (std::size_t ahead = reach / 2; ahead > 0; ahead /= 2) {
      if (place + ahead < size()) { send(at(place + ahead), std::span<std::byte const>(bytes)); }
    }
    return wait(operation);
  }

 private:
  /// A message of a size that nobody has compared.
  struct expected_message {
    std::size_t number;
    std::size_t peer;
    std::size_t bytes;
  };

  [[nodiscard]] std::size_t after(std::size_t step) const { return (rank_ + step) % size(); }
  [[nodiscard]] std::size_t before(std::size_t step) const
  {
    return (rank_ + size() - step) % size();
  }

  [[nodiscard]] std::size_t messages(std::size_t bytes) const noexcept
  {
    if (!compared_) { return bytes == 0 ? 0 : bytes / largest_ + 1; }  // as mpi_incoming has them
    return bytes / largest_ + (bytes % largest_ != 0 ? 1 : 0);
  }

  void expect(std::size_t messages)
  {
    requests_.expect(messages);
    if (!compared_) { expected_.reserve(messages); }
  }

  /// Calls f(part, count) for as many parts as messages are needed.
  template <class Byte, class F>
  void in_messages(std::span<Byte> bytes, F f) const
  {
    for (std::size_t left = messages(bytes.size()); left > 0; --left) {
      auto const part = bytes.first(std::min(bytes.size(), largest_));
      f(part, static_cast<int>(part.size()));
      bytes = bytes.subspan(part.size());
    }
  }

  void receive(std::size_t peer, std::span<std::byte> bytes)
  {
    if (!compared_) {
      if (bytes.empty()) { return; }
      std::size_t const number =
          channel_->incoming.begin(channel_->data, members_[peer], tag_, bytes, largest_);
      expected_.push_back({number, peer, bytes.size()});
      return;
    }
    in_messages(bytes, [&](std::span<std::byte> part, int count) {
      requests_.started("MPI_Irecv", MPI_Irecv(part.data(), count, MPI_BYTE, members_[peer], tag_,
                                               channel_->data, requests_.next_receive()));
    });
  }

  void send(std::size_t peer, std::span<std::byte const> bytes)
  {
    in_messages(bytes, [&](std::span<std::byte const> part, int count) {
      requests_.started("MPI_Isend", MPI_Isend(part.data(), count, MPI_BYTE, members_[peer], tag_,
                                               channel_->data, requests_.next()));
    });
  }

  /// Waits for all messages of a round. Of those that have another size the first one is told, when
  /// all have come.
  [[nodiscard]] result<void> wait(std::string_view operation)
  {
    struct giving_up {
      mpi_messages& messages;
      ~giving_up()
      {
        for (auto const& each : messages.expected_) {
          (void)messages.channel_->incoming.cancel(each.number);
        }
        messages.expected_.clear();
      }
    } const at_end{*this};
    result<void> sizes;
    auto const take = [&]() -> result<std::size_t> {
      std::size_t const before = expected_.size();
      for (std::size_t index = 0; index < expected_.size();) {
        auto const [number, peer, bytes] = expected_[index];
        auto const over = channel_->incoming.is_done(number);
        if (!over) { return tl::unexpected(over.error()); }
        if (!*over) {
          ++index;
          continue;
        }
        std::size_t const theirs = channel_->incoming.end(number);
        if (sizes && theirs != bytes) {
          sizes = comm_failure::different_message(operation, to_id<rank_id>(peer), bytes, theirs);
        }
        expected_[index] = expected_.back();
        expected_.pop_back();
      }
      return before - expected_.size();
    };
    auto done = requests_.wait(operation, expected_.size(), take);
    return sizes ? done : sizes;
  }

  std::shared_ptr<mpi_channel> channel_;
  std::size_t largest_ = mpi_communicator_options().largest_message;
  bool compared_;  // the sizes of messages, before they are sent
  mpi_requests requests_;
  std::vector<expected_message> expected_;  // in this round
  std::vector<int> members_;                // their ranks in the channel's communicators
  std::size_t rank_ = 0;
  int tag_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_MESSAGES_HPP
