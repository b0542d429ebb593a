// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/checked_group.hpp>
#include <ballast/comm/detail/mpi_requests.hpp>
#include <ballast/core.hpp>

#include <mpi.h>

#include <bitset>

namespace ballast::inline v0 {

namespace detail {

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
  mpi_channel& operator=(mpi_channel&&) = delete;
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

/// The messages of a rank of a group: those of operations, in rounds (see checked_group), and
/// transfers between two ranks, which are tested one at a time. MPI's own collectives need a
/// communicator for just these ranks (see mpi_channel), and have the receive arrays in use for ever
/// if a rank does not come.
///
/// A transfer, and without `verify` each message, is cut into parts of `largest_message` bytes and a
/// shorter one, perhaps empty, which is last; what comes is the channel's affair (mpi_incoming).
///
/// Expects     in a round all ranks expect what the others send; with `verify` they have compared
///             that. Transfers under way when it is destroyed are cancelled.
/// Ensures     (1) nothing is allocated if there was a round with as many messages before; a transfer
///                 allocates only where there were never as many, or never as large ones
///             (2) what allocates comes before the first message of a round or a transfer
///             (3) a message of another size than expected writes nothing past the end, and, of
///                 transfers, does not meet a later receive
/// Errors      those of mpi_requests; mismatch, of receives, without `verify` also in a round.
class mpi_pairs {
 public:
  static constexpr bool calls_roll = true;
  static constexpr bool keeps_memory = true;

  mpi_pairs(std::shared_ptr<mpi_channel> channel, mpi_communicator_options options)
      : channel_(std::move(channel)),
        options_(options),
        requests_(options.deadline, &channel_->incoming)
  {}
  mpi_pairs& operator=(mpi_pairs&&) = delete;
  ~mpi_pairs()
  {
    if (mpi_is_running()) {
      requests_.stop_listening();
      for (std::size_t each = 0; each < transfers_.all().size(); ++each) {
        if (transfers_.has(each)) { (void)withdraw(transfers_[each]); }
      }
    }
    channel_->release(tag_);
  }

  /// From now on it serves these ranks of the channel's communicators, of which this is number
  /// `rank`.
  [[nodiscard]] result<void> open(std::vector<int> members, std::size_t rank)
  {
    members_ = members;
    rank_ = rank;
    return requests_.listen(channel_->control, tag_, std::move(members), rank);
  }

  /// From now on its messages have the lowest free tag from `first` on, which it returns, or none.
  [[nodiscard]] int reserve_tag(int first) { return tag_ = channel_->reserve(first); }
  void release_tag() { channel_->release(std::exchange(tag_, mpi_channel::none)); }

  /// From now on it cuts messages at the size that all ranks have as an option.
  void cut() noexcept { largest_ = options_.largest_message; }

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  [[nodiscard]] std::vector<int> const& members() const noexcept { return members_; }
  [[nodiscard]] mpi_communicator_options const& options() const noexcept { return options_; }
  [[nodiscard]] std::shared_ptr<mpi_channel> const& channel() const noexcept { return channel_; }
  [[nodiscard]] mpi_requests& requests() noexcept { return requests_; }

  // ---- Rounds ----

  [[nodiscard]] result<void> enter(std::string_view operation)
  {
    return requests_.enter(operation);
  }

  [[nodiscard]] std::size_t messages(std::size_t bytes) const noexcept
  {
    if (!options_.verify) { return bytes == 0 ? 0 : bytes / largest_ + 1; }  // as mpi_incoming has
    return bytes / largest_ + (bytes % largest_ != 0 ? 1 : 0);
  }

  void expect(std::size_t messages)
  {
    requests_.expect(messages);
    if (!options_.verify) { expected_.reserve(messages); }
  }

  void receive(std::size_t peer, std::span<std::byte> bytes)
  {
    if (!options_.verify) {
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
      mpi_pairs& own;
      ~giving_up()
      {
        for (auto const& each : own.expected_) { (void)own.channel_->incoming.cancel(each.number); }
        own.expected_.clear();
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

  // ---- Transfers ----

  [[nodiscard]] result<transfer_id> begin_send(std::span<std::byte const> bytes, std::size_t peer)
  {
    transfer& own = transfers_.next();
    own.parts.assign(bytes.size() / largest_ + 1, MPI_REQUEST_NULL);
    own = {true, peer, bytes.size(), 0, std::move(own.parts)};
    auto const id = to_id<transfer_id>(transfers_.begin());
    for (MPI_Request& part : own.parts) {
      auto const size = std::min(bytes.size(), largest_);
      int const code = MPI_Isend(bytes.data(), static_cast<int>(size), MPI_BYTE, members_[peer],
                                 tag_, channel_->pairs, &part);
      if (code != MPI_SUCCESS) { return mpi_failure("MPI_Isend", code); }
      bytes = bytes.subspan(size);
    }
    return id;
  }

  [[nodiscard]] result<transfer_id> begin_receive(std::span<std::byte> bytes, std::size_t peer)
  {
    transfer& own = transfers_.next();
    std::size_t const message =
        channel_->incoming.begin(channel_->pairs, members_[peer], tag_, bytes, largest_);
    own = {false, peer, bytes.size(), message, std::move(own.parts)};
    return to_id<transfer_id>(transfers_.begin());
  }

  [[nodiscard]] char const* call_of(transfer_id id) { return name_of(transfers_.at(id)); }

  /// Whether it has ended; wait_for says how.
  [[nodiscard]] result<bool> is_done(transfer_id id)
  {
    channel_->incoming.look();
    return test(transfers_.at(id));
  }

  [[nodiscard]] result<void> wait_for(transfer_id id)
  {
    transfer& own = transfers_.at(id);
    auto done = requests_.wait_for(name_of(own), own.peer, [&] { return test(own); });
    if (!done) { return done; }  // it stays, for cancel
    std::size_t const theirs = own.sends ? own.bytes : channel_->incoming.end(own.message);
    transfers_.end(to_index(id));
    if (theirs == own.bytes) { return {}; }
    return comm_failure::different_message(name_of(own), to_id<rank_id>(own.peer), own.bytes,
                                           theirs);
  }

  /// Returns whether MPI no longer uses its bytes.
  [[nodiscard]] bool cancel(transfer_id id)
  {
    bool const unused = withdraw(transfers_.at(id));
    transfers_.end(to_index(id));
    return unused;
  }

 private:
  /// A message of a size that nobody has compared.
  struct expected_message {
    std::size_t number;
    std::size_t peer;
    std::size_t bytes;
  };

  struct transfer {
    bool sends = false;
    std::size_t peer = 0;
    std::size_t bytes = 0;
    std::size_t message = 0;         // its number among the channel's, if it receives
    std::vector<MPI_Request> parts;  // if it sends
  };

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

  [[nodiscard]] static char const* name_of(transfer const& each)
  {
    return each.sends ? "send" : "receive";
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

  std::shared_ptr<mpi_channel> channel_;
  mpi_communicator_options options_;
  std::size_t largest_ = mpi_communicator_options().largest_message;
  mpi_requests requests_;
  std::vector<expected_message> expected_;  // in this round
  numbered_places<transfer> transfers_;
  std::vector<int> members_;  // their ranks in the channel's communicators
  std::size_t rank_ = 0;
  int tag_ = mpi_channel::none;
};

}  // namespace detail

/// One process of an MPI job as a communicator: `mpi_communicator::over(MPI_COMM_WORLD)`.
///
/// It is `point_to_point` too, and a transfer makes progress while its sender calls MPI, and its
/// receiver this communicator or one that was split from the same: a large message may wait.
///
/// It works on duplicates of the MPI communicator that it is given, so its messages never mix with
/// the caller's. Groups made by split use the same duplicates, and each has tags of its own: a
/// split makes no MPI communicator, which no deadline could end. All calls wait, and while they
/// wait they yield the core to other processes.
///
/// Expects     what `communicator` and `point_to_point` expect. MPI is initialised, with
///             MPI_THREAD_MULTIPLE if several threads have a communicator each. All ranks destroy
///             theirs before MPI_Finalize. The deadline is above zero.
/// Ensures     (1) those of `communicator`; in the steady state ballast allocates nothing, MPI
///                 itself may
///             (2) a call ends within the deadline, counted from the last message that arrived,
///                 plus a grace period in which the waiting ranks find out who is missing: a
///                 quarter of the deadline, but at least 100 ms and at most 5 s
///             (3) nothing is written past the end of an array, whatever other ranks send
/// Errors      mismatch, with `verify`, of transfers, and of `over`, where ranks have different
///             options. Without `verify` a message of another size is a mismatch where it comes;
///             the communicator is broken then.
///             timed_out: `ranks` had not made the call when the first rank gave up, or made it so
///             late that the others gave up while it did. A rank that makes it later gets the same
///             error, with itself among `ranks`. A rank that had finished the operation and did not
///             call another one of this group within the grace period is also named: the others
///             cannot tell a rank that computes, or waits in a call of another group, from one that
///             hangs. Where a rank waits for a transfer, only those are named on which it depends,
///             directly or through others. All ranks name the same ranks if their messages arrive
///             within the grace period. A process that died is named too, unless mpirun ends the
///             job first, as it does by default. `over` cannot name ranks.
///             transport, with MPI's code and text; MPI_ERR_TAG where some rank has 32,768 groups.
///             peer_lost, with this rank itself: an earlier call ended with std::bad_alloc.
///             After timed_out, transport and peer_lost MPI may still use the arrays of the call
///             that failed: receives are cancelled if possible, sends cannot be. So those arrays
///             must stay valid as long as MPI runs; the communicator does not free its own memory
///             either. End such a job with MPI_Abort: MPI_Finalize would wait for the missing
///             ranks.
/// Complexity  messages of each rank: all_to_all_v one to each peer with bytes, all_gather log2(P),
///             broadcast at most log2(P), the comparison and barrier log2(P) of at most 4 P bytes;
///             several above `largest_message`.
class mpi_communicator : public checked_group<detail::mpi_pairs> {
 public:
  /// Makes a group of the ranks of `borrowed`, which stays the caller's, and returns this rank's
  /// end of it. Collective.
  [[nodiscard]] static result<mpi_communicator> over(MPI_Comm borrowed,
                                                     mpi_communicator_options options = {})
  {
    BALLAST_EXPECTS(detail::mpi_is_running(), "MPI is not initialised, or finalised already");
    detail::expect_deadline(options.deadline);
    BALLAST_EXPECTS(options.largest_message >= 1 &&
                    options.largest_message <= std::numeric_limits<int>::max());
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(borrowed, &rank);
    MPI_Comm_size(borrowed, &size);
    std::vector<int> members(static_cast<std::size_t>(size));
    std::iota(members.begin(), members.end(), 0);
    mpi_communicator made(std::make_shared<detail::mpi_channel>(), options, members.size());
    made.set_under_way(true);  // MPI writes to the channel
    auto done = made.duplicate(borrowed).and_then([&] {
      (void)made.pairs().reserve_tag(0);
      return made.open(std::move(members), static_cast<std::size_t>(rank));
    });
    if (done) { done = made.compare_options(); }
    if (!done) { return tl::unexpected(std::move(done).error()); }
    return made;
  }

  /// Whether a thread may use one of these while another thread uses another.
  [[nodiscard]] static bool serves_threads()
  {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level >= MPI_THREAD_MULTIPLE;
  }

  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept
  {
    return pairs().options().deadline;
  }

  [[nodiscard]] result<mpi_communicator> split(std::uint32_t colour)
  {
    std::optional<mpi_communicator> part;
    auto const done = run({collective::split}, {}, {}, [&] { return make_part(part, colour); });
    if (!done) { return tl::unexpected(done.error()); }
    return *std::move(part);
  }

  [[nodiscard]] result<transfer_id> send(std::span<std::byte const> bytes, rank_id peer)
  {
    collective_call::expect_peer(peer, size());
    return transfer("send", [&] { return pairs().begin_send(bytes, to_index(peer)); });
  }

  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, rank_id peer)
  {
    collective_call::expect_peer(peer, size());
    return transfer("receive", [&] { return pairs().begin_receive(bytes, to_index(peer)); });
  }

  /// Returns at once, since transfers have started already.
  [[nodiscard]] result<void> start() { return state(); }

  [[nodiscard]] result<bool> is_done(transfer_id id)
  {
    return transfer(pairs().call_of(id), [&] { return pairs().is_done(id); });
  }

  [[nodiscard]] result<void> wait_for(transfer_id id)
  {
    return transfer(pairs().call_of(id), [&] { return pairs().wait_for(id); });
  }

  /// Returns false for a send that has not ended: MPI has no means to take it back.
  [[nodiscard]] bool cancel(transfer_id id) { return pairs().cancel(id); }

 private:
  mpi_communicator(std::shared_ptr<detail::mpi_channel> channel, mpi_communicator_options options,
                   std::size_t most_ranks)
      : checked_group(most_ranks, options.verify, std::move(channel), options)
  {}

  /// A roll call that this rank has missed comes first.
  template <class F>
  [[nodiscard]] auto transfer(char const* call, F f) -> decltype(f())
  {
    return run([&] { return pairs().requests().look(call).and_then(f); });
  }

  [[nodiscard]] result<void> open(std::vector<int> members, std::size_t rank)
  {
    set_under_way(true);  // until MPI listens, and for ever if it does not
    return pairs().open(std::move(members), rank).map([this] {
      checked_group::open();
      set_under_way(false);
    });
  }

  [[nodiscard]] result<void> duplicate(MPI_Comm borrowed)
  {
    detail::mpi_channel& channel = *pairs().channel();
    for (MPI_Comm* const each : {&channel.data, &channel.control, &channel.pairs}) {
      MPI_Comm const from = each == &channel.data ? borrowed : channel.data;
      detail::mpi_requests& requests = pairs().requests();
      requests.started("MPI_Comm_idup", MPI_Comm_idup(from, each, requests.next()));
      if (auto done = requests.wait("over"); !done) { return done; }
      MPI_Comm_set_errhandler(*each, MPI_ERRORS_RETURN);
    }
    return {};
  }

  /// Before anything depends on them: also on how messages are cut, so these are not yet.
  [[nodiscard]] result<void> compare_options()
  {
    constexpr std::array names{"verify", "deadline", "largest_message"};
    mpi_communicator_options const& own = pairs().options();
    std::array<std::uint64_t, names.size()> const values{
        own.verify ? 1U : 0U, static_cast<std::uint64_t>(own.deadline.count()),
        own.largest_message};
    set_under_way(true);
    auto done = pairs().enter("over");
    if (done) { done = checked_group::compare_options(names, values); }
    pairs().cut();
    return done;
  }

  /// Makes a group of the ranks of this one that gave the same colour, in order. Collective.
  [[nodiscard]] result<void> make_part(std::optional<mpi_communicator>& part, std::uint32_t colour)
  {
    // Where memory runs out in here, the others may have made their group: they miss this rank in
    // the next call.
    mpi_communicator made(pairs().channel(), pairs().options(), size());
    std::vector<int> members;
    members.reserve(size());
    if (auto agreed = agree_on_tag(made.pairs(), colour); !agreed) { return agreed; }
    std::size_t place = 0;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (words()[peer] >> 32U != colour) { continue; }
      if (peer == pairs().rank()) { place = members.size(); }
      members.push_back(pairs().members()[peer]);
    }
    made.pairs().cut();
    auto done = made.open(std::move(members), place);
    if (done) { part.emplace(std::move(made)); }
    return done;
  }

  /// Reserves a tag for the part that is free on all ranks that give this colour: each offers its
  /// lowest, and goes on from the highest that was offered, until all offers of each colour are the
  /// same.
  [[nodiscard]] result<void> agree_on_tag(detail::mpi_pairs& part, std::uint32_t colour)
  {
    for (int tag = part.reserve_tag(0);;) {
      std::uint64_t const offer = static_cast<std::uint32_t>(tag);
      auto told = gather_word("split", std::uint64_t{colour} << 32U | offer);
      if (!told) { return told; }
      bool same = true;
      std::uint64_t highest = offer;
      for (std::uint64_t const word : words()) {
        auto const theirs = static_cast<std::uint32_t>(word);
        if (theirs == static_cast<std::uint32_t>(detail::mpi_channel::none)) {
          return detail::mpi_failure("split: all tags are in use, MPI", MPI_ERR_TAG);
        }
        for (std::uint64_t const other : words()) {
          same = same && (word >> 32U != other >> 32U || word == other);
        }
        if (word >> 32U == colour) { highest = std::max<std::uint64_t>(highest, theirs); }
      }
      if (same) { return {}; }
      if (highest == offer) { continue; }
      part.release_tag();
      tag = part.reserve_tag(static_cast<int>(highest));
    }
  }
};

}  // namespace ballast::inline v0
