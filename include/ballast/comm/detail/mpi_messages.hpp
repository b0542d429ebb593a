// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/detail/mpi_requests.hpp>
#include <ballast/core.hpp>

#include <mpi.h>

#include <bitset>
#include <cstring>
#include <memory>
#include <mutex>

namespace ballast::inline v0::detail {

/// Returns whether MPI may be called: after MPI_Init and before MPI_Finalize.
[[nodiscard]] inline bool mpi_is_running()
{
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

/// What a group of MPI processes shares with all groups that are split from it: a communicator for
/// the bytes of their operations, one for their roll calls, one for transfers between two ranks,
/// which may be under way meanwhile, the messages that are expected there, and the tags by which
/// these groups tell their messages apart.
///
/// MPI has no call that makes a communicator for some ranks of another and that a deadline can end.
/// So a split makes none: its groups have a tag each.
///
/// Expects     no group uses the channel when it is destroyed, on no rank.
/// Ensures     (1) a tag that was reserved is not reserved again before it is released
///             (2) reserve and release may be called from several threads, and allocate nothing
class mpi_channel {
 public:
  static constexpr int none = -1;

  mpi_channel() = default;
  mpi_channel(mpi_channel const&) = delete;
  mpi_channel& operator=(mpi_channel const&) = delete;
  ~mpi_channel()
  {
    if (!mpi_is_running()) { return; }
    if (control != MPI_COMM_NULL) { MPI_Comm_free(&control); }
    if (pairs != MPI_COMM_NULL) { MPI_Comm_free(&pairs); }
    if (data != MPI_COMM_NULL) { MPI_Comm_free(&data); }
  }

  /// Returns the lowest free tag from `first` on, which is not below zero, or none.
  [[nodiscard]] int reserve(int first)
  {
    std::lock_guard const lock(mutex_);
    for (auto tag = static_cast<std::size_t>(first); tag < reserved_.size(); ++tag) {
      if (reserved_[tag]) { continue; }
      reserved_.set(tag);
      return static_cast<int>(tag);
    }
    return none;
  }

  void release(int tag)
  {
    std::lock_guard const lock(mutex_);
    if (tag != none) { reserved_.reset(static_cast<std::size_t>(tag)); }
  }

  MPI_Comm data = MPI_COMM_NULL;
  MPI_Comm control = MPI_COMM_NULL;
  MPI_Comm pairs = MPI_COMM_NULL;
  mpi_incoming incoming;

 private:
  std::mutex mutex_;
  std::bitset<32768> reserved_;  // MPI guarantees these tags and no more
};

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
    return sizes ? std::move(done) : std::move(sizes);
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

/// The transfers between two ranks of a group: non-blocking messages of MPI, tested one transfer at
/// a time. Each is cut into parts of `largest_message` bytes and a shorter one, perhaps empty,
/// which is last; what comes is the channel's affair (mpi_incoming).
///
/// Expects     what `point_to_point` says; transfers under way when it is destroyed are cancelled.
/// Ensures     (1) a transfer allocates only where there were never as many, or never as large ones
///             (2) what allocates comes before the first message of a transfer
///             (3) a message of another size than expected writes nothing past the end, and does
///                 not meet a later receive
/// Errors      mismatch, of receives; those of mpi_requests.
class mpi_transfers {
 public:
  mpi_transfers(std::shared_ptr<mpi_channel> channel, mpi_communicator_options options)
      : channel_(std::move(channel)), largest_(options.largest_message)
  {}
  mpi_transfers(mpi_transfers const&) = delete;
  mpi_transfers& operator=(mpi_transfers const&) = delete;
  ~mpi_transfers()
  {
    if (!mpi_is_running()) { return; }
    for (transfer& each : all_) {
      if (each.under_way) { (void)withdraw(each); }
    }
  }

  void open(int tag, std::vector<int> members)
  {
    members_ = std::move(members);
    tag_ = tag;
  }

  /// From now on it cuts messages at this size.
  void cut_at(std::size_t largest) noexcept { largest_ = largest; }

  [[nodiscard]] result<transfer_id> send(std::span<std::byte const> bytes, std::size_t peer)
  {
    transfer& own = room();
    own.parts.assign(bytes.size() / largest_ + 1, MPI_REQUEST_NULL);
    transfer_id const id = begin({true, true, peer, bytes.size(), 0, std::move(own.parts)});
    for (MPI_Request& part : at(id).parts) {
      auto const size = std::min(bytes.size(), largest_);
      int const code = MPI_Isend(bytes.data(), static_cast<int>(size), MPI_BYTE, members_[peer],
                                 tag_, channel_->pairs, &part);
      if (code != MPI_SUCCESS) { return mpi_failure("MPI_Isend", code); }
      bytes = bytes.subspan(size);
    }
    return id;
  }

  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, std::size_t peer)
  {
    transfer& own = room();
    std::size_t const message =
        channel_->incoming.begin(channel_->pairs, members_[peer], tag_, bytes, largest_);
    return begin({false, true, peer, bytes.size(), message, std::move(own.parts)});
  }

  /// The name of the call that began a transfer.
  [[nodiscard]] char const* call_of(transfer_id id) { return name_of(at(id)); }

  /// Whether it has ended; wait_for says how.
  [[nodiscard]] result<bool> is_done(transfer_id id)
  {
    channel_->incoming.look();
    return test(at(id));
  }

  [[nodiscard]] result<void> wait_for(transfer_id id, mpi_requests& requests)
  {
    transfer& own = at(id);
    auto done = requests.wait_for(name_of(own), own.peer, [&] { return test(own); });
    if (!done) { return done; }  // it stays, for cancel
    std::size_t const theirs = own.sends ? own.bytes : channel_->incoming.end(own.message);
    release(id);
    if (theirs == own.bytes) { return {}; }
    return comm_failure::different_message(name_of(own), to_id<rank_id>(own.peer), own.bytes,
                                           theirs);
  }

  [[nodiscard]] bool cancel(transfer_id id)
  {
    bool const unused = withdraw(at(id));
    release(id);
    return unused;
  }

 private:
  struct transfer {
    bool sends = false;
    bool under_way = false;
    std::size_t peer = 0;
    std::size_t bytes = 0;
    std::size_t message = 0;         // its number among the channel's, if it receives
    std::vector<MPI_Request> parts;  // if it sends
  };

  [[nodiscard]] static char const* name_of(transfer const& each)
  {
    return each.sends ? "send" : "receive";
  }

  [[nodiscard]] transfer& at(transfer_id id)
  {
    BALLAST_EXPECTS(to_index(id) < all_.size() && all_[to_index(id)].under_way, "transfer ",
                    to_index(id), " is not under way");
    return all_[to_index(id)];
  }

  /// Returns the place of the next transfer.
  [[nodiscard]] transfer& room()
  {
    if (unused_.empty()) {
      unused_.reserve(all_.size() + 1);  // for all to end, which must not allocate
      all_.emplace_back();
      unused_.push_back(all_.size() - 1);
    }
    return all_[unused_.back()];
  }

  [[nodiscard]] transfer_id begin(transfer&& own)
  {
    auto const id = to_id<transfer_id>(unused_.back());
    all_[unused_.back()] = std::move(own);
    unused_.pop_back();
    return id;
  }

  [[nodiscard]] result<bool> test(transfer& own) const
  {
    if (!own.sends) { return channel_->incoming.is_done(own.message); }
    bool done = true;
    for (MPI_Request& part : own.parts) {
      if (part == MPI_REQUEST_NULL) { continue; }
      int ended = 0;
      int const code = MPI_Test(&part, &ended, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) { return mpi_failure("MPI_Test", code); }
      done = done && ended != 0;
    }
    return done;
  }

  /// Ends what is left of a transfer; returns whether MPI no longer uses its bytes.
  [[nodiscard]] bool withdraw(transfer& own) const
  {
    if (!own.sends) { return channel_->incoming.cancel(own.message); }
    bool unused = true;
    for (MPI_Request& part : own.parts) {
      if (part == MPI_REQUEST_NULL) { continue; }
      int ended = 0;
      if (MPI_Test(&part, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && ended != 0) { continue; }
      unused = false;
      if (part != MPI_REQUEST_NULL) { MPI_Request_free(&part); }
    }
    return unused;
  }

  void release(transfer_id id)
  {
    at(id).under_way = false;
    unused_.push_back(to_index(id));
  }

  std::shared_ptr<mpi_channel> channel_;
  std::size_t largest_;
  std::vector<int> members_;  // their ranks in the channel's communicators
  int tag_ = 0;
  std::vector<transfer> all_;
  std::vector<std::size_t> unused_;  // places among them
};

}  // namespace ballast::inline v0::detail
