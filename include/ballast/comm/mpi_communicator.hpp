// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/detail/mpi_messages.hpp>
#include <ballast/core.hpp>

#include <mpi.h>

#include <chrono>
#include <cstring>
#include <memory>

namespace ballast::inline v0 {

namespace detail {

/// How the ranks of an mpi_group find out whether they have made the same call, and the words that
/// they tell each other. MPI may use these after a failure.
///
/// Ensures     every rank gets the same outcome
/// Errors      mismatch, where ranks differ; those of mpi_messages.
class mpi_comparison {
 public:
  explicit mpi_comparison(std::size_t most_ranks) { words_.reserve(most_ranks); }

  void open(std::size_t ranks) { words_.resize(ranks); }

  /// What gather() was told by each rank.
  [[nodiscard]] std::span<std::uint64_t const> words() const noexcept { return span_of(words_); }

  /// Whether words have not come as they should: not even a mismatch leaves all as it was then.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

  /// Gathers every rank's word.
  [[nodiscard]] result<void> gather(mpi_messages& messages, char const* operation,
                                    std::uint64_t word)
  {
    words_[messages.rank()] = word;
    auto done = messages.all_gather(operation, std::as_writable_bytes(mutable_span_of(words_)),
                                    sizeof(word));
    failed_ = failed_ || !done;
    return done;
  }

  /// Compares a call.
  [[nodiscard]] result<void> run(mpi_messages& messages, collective_call call,
                                 std::span<std::size_t const> send_bytes,
                                 std::span<std::size_t const> receive_bytes)
  {
    auto const word =
        check_word(to_id<rank_id>(messages.rank()), words_.size(), call, send_bytes, receive_bytes);
    if (auto met = gather(messages, name_of(call.operation), word); !met) { return met; }
    std::uint64_t const sum = std::reduce(words_.begin(), words_.end());
    return sum == 0 ? result<void>{} : disagreement(messages, call, send_bytes, receive_bytes);
  }

  /// Compares what each rank was made with.
  [[nodiscard]] result<void> run(mpi_messages& messages, mpi_communicator_options options)
  {
    struct option {
      char const* name;
      std::uint64_t value;
    };
    std::array const all{option{"verify", options.verify ? 1U : 0U},
                         option{"deadline", static_cast<std::uint64_t>(options.deadline.count())},
                         option{"largest_message", options.largest_message}};
    digest together;
    for (option const& each : all) { together.add(each.value); }
    if (auto told = gather(messages, "over", together.value()); !told) { return told; }
    if (dissenters(words_).empty()) { return {}; }
    for (option const& each : all) {
      if (auto told = gather(messages, "over", each.value); !told) { return told; }
      if (auto differing = dissenters(words_); !differing.empty()) {
        return comm_failure::different_options("over", each.name, std::move(differing));
      }
    }
    return {};
  }

 private:
  // Every rank knows that something differs; together they find out what.
  [[nodiscard]] result<void> disagreement(mpi_messages& messages, collective_call call,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::size_t const> receive_bytes)
  {
    char const* const name = name_of(call.operation);
    if (auto told = gather(messages, name, call.word()); !told) { return told; }
    if (auto differing = dissenters(words_); !differing.empty()) {
      return comm_failure::different_calls(name, std::move(differing));
    }
    if (auto told = gather(messages, name, call.content); !told) { return told; }
    if (auto found = dissent_on_content(words_); !found.ranks.empty()) {
      return comm_failure::different_content(name, found.in_arrays, std::move(found.ranks));
    }
    // Only all_to_all_v has more to compare: the ranks of each pair exchange both of their counts.
    counts_.clear();
    for (std::size_t peer = 0; peer < words_.size(); ++peer) {
      counts_.insert(counts_.end(), {send_bytes[peer], receive_bytes[peer]});
    }
    theirs_.resize(counts_.size());
    auto const pair_of = [](std::span<std::uint64_t> counts, std::size_t peer) {
      return std::as_writable_bytes(counts.subspan(2 * peer, 2));
    };
    auto const told = messages.all_to_all(
        name, [&](std::size_t peer) { return pair_of(counts_, peer); },
        [&](std::size_t peer) { return pair_of(theirs_, peer); });
    if (!told) { return tl::unexpected(told.error()); }
    std::vector<rank_id> differing;
    for (std::size_t peer = 0; peer < words_.size(); ++peer) {
      if (theirs_[2 * peer] != receive_bytes[peer] || theirs_[2 * peer + 1] != send_bytes[peer]) {
        differing.push_back(to_id<rank_id>(peer));
      }
    }
    return comm_failure::different_counts(name, std::move(differing));
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> theirs_;
  bool failed_ = false;
};

/// The ranks of an mpi_communicator: their messages, and the comparison with which each operation
/// begins.
///
/// Ensures     (1) with `verify`, no operation moves bytes unless all ranks have made the same call
///             (2) after a failure other than a mismatch each further operation returns that
///                 failure
///             (3) after an operation that ended with an exception each further one returns
///                 peer_lost, with this rank
///             (4) part() ends as any operation does, wherever a rank stops, dies or throws
///             (5) all ranks of a group that was made have the same options
class mpi_group {
 public:
  /// Frees a group, unless it is broken: if an operation did not end, MPI may still use the group's
  /// memory, and peers may still send to it. Such a group is never freed.
  struct release {
    void operator()(mpi_group* group) const
    {
      if (!group->is_broken()) { delete group; }
    }
  };
  using handle = std::unique_ptr<mpi_group, release>;

  mpi_group(mpi_group const&) = delete;
  mpi_group& operator=(mpi_group const&) = delete;
  ~mpi_group()
  {
    if (mpi_is_running()) { messages_.requests().stop_listening(); }
    channel_->release(tag_);
  }

  /// Makes a group of the ranks of `borrowed`. Collective.
  [[nodiscard]] static result<handle> over(MPI_Comm borrowed, mpi_communicator_options options)
  {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(borrowed, &rank);
    MPI_Comm_size(borrowed, &size);
    std::vector<int> members(static_cast<std::size_t>(size));
    std::iota(members.begin(), members.end(), 0);
    handle made(new mpi_group(std::make_shared<mpi_channel>(), options, members.size()));
    made->under_way_ = true;  // MPI writes to the channel
    mpi_channel& channel = *made->channel_;
    if (auto done = made->duplicate(borrowed, channel.data); !done) {
      return tl::unexpected(std::move(done).error());
    }
    MPI_Comm_set_errhandler(channel.data, MPI_ERRORS_RETURN);
    for (MPI_Comm* const each : {&channel.control, &channel.pairs}) {
      if (auto done = made->duplicate(channel.data, *each); !done) {
        return tl::unexpected(std::move(done).error());
      }
    }
    auto group = opened(std::move(made), channel.reserve(0), std::move(members),
                        static_cast<std::size_t>(rank));
    if (!group) { return group; }
    if (auto same = (*group)->compare_options(); !same) { return tl::unexpected(same.error()); }
    return group;
  }

  /// Makes a group of the ranks of this one that gave the same colour, in order. Collective.
  [[nodiscard]] result<handle> part(std::uint32_t colour)
  {
    // Where memory runs out in here, the others may have made their group: they miss this rank in
    // the next call.
    handle made(new mpi_group(channel_, options_, size_));
    std::vector<int> members;
    members.reserve(size_);
    if (auto agreed = made->agree_on_tag(*this, colour); !agreed) {
      return tl::unexpected(std::move(agreed).error());
    }
    std::size_t place = 0;
    for (std::size_t peer = 0; peer < size_; ++peer) {
      if (comparison_.words()[peer] >> 32U != colour) { continue; }
      if (peer == rank_) { place = members.size(); }
      members.push_back(messages_.members()[peer]);
    }
    int const tag = made->tag_;
    return opened(std::move(made), tag, std::move(members), place);
  }

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return options_.deadline; }
  [[nodiscard]] mpi_messages& messages() noexcept { return messages_; }
  [[nodiscard]] result<void> state() const
  {
    if (failure_) { return tl::unexpected(*failure_); }
    if (under_way_) { return comm_failure::peer_lost("an earlier call", {to_id<rank_id>(rank_)}); }
    return {};
  }

  /// Runs one operation: all ranks meet and compare their calls, then each runs move().
  template <class Move>
  [[nodiscard]] result<void> run(collective_call call, std::span<std::size_t const> send_bytes,
                                 std::span<std::size_t const> receive_bytes, Move move)
  {
    if (is_broken()) { return state(); }
    under_way_ = true;
    result<void> done = messages_.requests().enter(name_of(call.operation));
    if (done) { done = meet(call, send_bytes, receive_bytes); }
    bool const differ =  // before bytes moved
        !done && done.error().code == error_code::mismatch && !comparison_.failed();
    if (done) { done = move(); }
    if (!done && !differ) { failure_ = done.error(); }
    under_way_ = false;
    return done;
  }

  /// Runs one call for a transfer, whose name is `call`: f(transfers, requests). A roll call that
  /// this rank has missed comes first.
  template <class F>
  [[nodiscard]] auto transfer(char const* call, F f)
      -> decltype(f(std::declval<mpi_transfers&>(), std::declval<mpi_requests&>()))
  {
    if (is_broken()) { return tl::unexpected(state().error()); }
    under_way_ = true;
    auto done = messages_.requests().look(call).and_then(
        [&] { return f(transfers_, messages_.requests()); });
    if (!done && done.error().code != error_code::mismatch) { failure_ = done.error(); }
    under_way_ = false;
    return done;
  }

  /// The name of the call that began a transfer.
  [[nodiscard]] char const* call_of(transfer_id id) { return transfers_.call_of(id); }

  /// Ends a transfer, also of a broken group; returns whether MPI no longer uses its bytes.
  [[nodiscard]] bool cancel(transfer_id id) { return transfers_.cancel(id); }

  /// Host memory, which does not move until more is asked for.
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    if (is_broken() && bytes > scratch_.size()) { std::swap(retired_.emplace_back(), scratch_); }
    return scratch_.take(bytes);
  }

 private:
  mpi_group(std::shared_ptr<mpi_channel> channel, mpi_communicator_options options,
            std::size_t most_ranks)
      : options_(options),
        channel_(std::move(channel)),
        messages_(channel_, options),
        transfers_(channel_, options),
        comparison_(most_ranks)
  {}

  [[nodiscard]] static result<handle> opened(handle made, int tag, std::vector<int> members,
                                             std::size_t rank)
  {
    made->under_way_ = true;  // until MPI listens, and for ever if it does not
    made->tag_ = tag;
    made->rank_ = rank;
    made->size_ = members.size();
    made->comparison_.open(members.size());
    made->transfers_.open(tag, members);
    auto const done = made->messages_.open(tag, std::move(members), rank);
    if (!done) { return tl::unexpected(done.error()); }
    made->under_way_ = false;
    return made;
  }

  [[nodiscard]] bool is_broken() const noexcept { return failure_ || under_way_; }

  [[nodiscard]] result<void> duplicate(MPI_Comm from, MPI_Comm& to)
  {
    mpi_requests& requests = messages_.requests();
    requests.started("MPI_Comm_idup", MPI_Comm_idup(from, &to, requests.next()));
    return requests.wait("over");
  }

  /// Before anything depends on them: also on how messages are cut, so these are not yet.
  [[nodiscard]] result<void> compare_options()
  {
    under_way_ = true;
    result<void> done = messages_.requests().enter("over");
    if (done) { done = comparison_.run(messages_, options_); }
    under_way_ = comparison_.failed();
    messages_.cut_at(options_.largest_message);
    transfers_.cut_at(options_.largest_message);
    return done;
  }

  /// Reserves a tag that is free on all ranks that give this colour: each offers its lowest, and
  /// goes on from the highest that was offered, until all offers of each colour are the same.
  [[nodiscard]] result<void> agree_on_tag(mpi_group& whole, std::uint32_t colour)
  {
    for (tag_ = channel_->reserve(0);;) {
      std::uint64_t const offer = static_cast<std::uint32_t>(tag_);
      auto told =
          whole.comparison_.gather(whole.messages_, "split", std::uint64_t{colour} << 32U | offer);
      if (!told) { return told; }
      auto const words = whole.comparison_.words();
      bool same = true;
      std::uint64_t highest = offer;
      for (std::uint64_t const word : words) {
        auto const theirs = static_cast<std::uint32_t>(word);
        if (theirs == static_cast<std::uint32_t>(mpi_channel::none)) {
          return mpi_failure("split: all tags are in use, MPI", MPI_ERR_TAG);
        }
        for (std::uint64_t const other : words) {
          same = same && (word >> 32U != other >> 32U || word == other);
        }
        if (word >> 32U == colour) { highest = std::max<std::uint64_t>(highest, theirs); }
      }
      if (same) { return {}; }
      if (highest == offer) { continue; }
      channel_->release(std::exchange(tag_, mpi_channel::none));
      tag_ = channel_->reserve(static_cast<int>(highest));
    }
  }

  [[nodiscard]] result<void> meet(collective_call call, std::span<std::size_t const> send_bytes,
                                  std::span<std::size_t const> receive_bytes)
  {
    bool const always =
        call.operation == collective::barrier || call.operation == collective::split;
    if (!options_.verify && !always) { return {}; }
    return comparison_.run(messages_, call, send_bytes, receive_bytes);
  }

  mpi_communicator_options options_;
  std::shared_ptr<mpi_channel> channel_;
  mpi_messages messages_;
  mpi_transfers transfers_;
  int tag_ = mpi_channel::none;
  std::size_t rank_ = 0;
  std::size_t size_ = 0;
  std::optional<error> failure_;
  bool under_way_ = false;  // an operation runs, or the group is being made; stays true after an
                            // exception

  // Members, since MPI may use them after the call that gave it these arrays has returned.
  mpi_comparison comparison_;
  host_scratch scratch_;
  std::vector<host_scratch> retired_;  // MPI may still write there
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
class mpi_communicator {
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
    return detail::mpi_group::over(borrowed, options).map(wrap);
  }

  /// Whether a thread may use one of these while another thread uses another.
  [[nodiscard]] static bool serves_threads()
  {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level >= MPI_THREAD_MULTIPLE;
  }

  [[nodiscard]] rank_id rank() const noexcept { return to_id<rank_id>(group_->rank()); }
  [[nodiscard]] std::size_t size() const noexcept { return group_->size(); }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return group_->deadline(); }

  [[nodiscard]] result<void> all_gather(std::span<std::byte const> send,
                                        std::span<std::byte> receive)
  {
    std::size_t const bytes = send.size();
    expect_gather_sizes(bytes, receive.size(), size());
    return group_->run({collective::all_gather, bytes, {}}, {}, {}, [&]() -> result<void> {
      if (bytes > 0) { std::memcpy(&receive[group_->rank() * bytes], send.data(), bytes); }
      return group_->messages().all_gather("all_gather", receive, bytes);
    });
  }

  [[nodiscard]] result<void> all_to_all_v(std::span<std::byte const> send,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::byte> receive,
                                          std::span<std::size_t const> receive_bytes,
                                          std::uint64_t content = 0)
  {
    expect_counts(send_bytes.size(), receive_bytes.size(), size());
    std::size_t const sent = lay_out(send_bytes, send_at_);
    std::size_t const received = lay_out(receive_bytes, receive_at_);
    expect_exchange_sizes(send.size(), sent, receive.size(), received);
    collective_call const call{collective::all_to_all_v, 0, rank_id{}, content};
    return group_->run(call, send_bytes, receive_bytes, [&] {
      return group_->messages().all_to_all(
          "all_to_all_v",
          [&](std::size_t peer) { return send.subspan(send_at_[peer], send_bytes[peer]); },
          [&](std::size_t peer) {
            return receive.subspan(receive_at_[peer], receive_bytes[peer]);
          });
    });
  }

  [[nodiscard]] result<void> broadcast(std::span<std::byte> bytes, rank_id root)
  {
    expect_root(root, size());
    return group_->run({collective::broadcast, bytes.size(), root}, {}, {}, [&] {
      return group_->messages().broadcast("broadcast", bytes, to_index(root));
    });
  }

  [[nodiscard]] result<void> barrier()
  {
    return group_->run({collective::barrier, 0, {}}, {}, {}, [] { return result<void>{}; });
  }

  [[nodiscard]] result<mpi_communicator> split(std::uint32_t colour)
  {
    result<detail::mpi_group::handle> part;
    auto const done = group_->run({collective::split, 0, {}}, {}, {}, [&]() -> result<void> {
      part = group_->part(colour);
      return part ? result<void>{} : tl::unexpected(part.error());
    });
    if (!done) { return tl::unexpected(done.error()); }
    return wrap(*std::move(part));
  }

  [[nodiscard]] result<transfer_id> send(std::span<std::byte const> bytes, rank_id peer)
  {
    expect_peer(peer, size());
    return group_->transfer("send", [&](detail::mpi_transfers& transfers, detail::mpi_requests&) {
      return transfers.send(bytes, to_index(peer));
    });
  }

  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, rank_id peer)
  {
    expect_peer(peer, size());
    return group_->transfer("receive",
                            [&](detail::mpi_transfers& transfers, detail::mpi_requests&) {
                              return transfers.receive(bytes, to_index(peer));
                            });
  }

  /// Returns at once, since transfers have started already; likewise wait().
  [[nodiscard]] result<void> start() { return group_->state(); }

  [[nodiscard]] result<bool> is_done(transfer_id transfer)
  {
    return group_->transfer(group_->call_of(transfer),
                            [&](detail::mpi_transfers& transfers, detail::mpi_requests&) {
                              return transfers.is_done(transfer);
                            });
  }

  [[nodiscard]] result<void> wait_for(transfer_id transfer)
  {
    return group_->transfer(group_->call_of(transfer),
                            [&](detail::mpi_transfers& transfers, detail::mpi_requests& requests) {
                              return transfers.wait_for(transfer, requests);
                            });
  }

  /// Returns false for a send that has not ended: MPI has no means to take it back.
  [[nodiscard]] bool cancel(transfer_id transfer) { return group_->cancel(transfer); }

  /// Returns at once, since calls have waited already; a broken communicator returns its error.
  [[nodiscard]] result<void> wait() { return group_->state(); }

  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes) { return group_->scratch(bytes); }

 private:
  explicit mpi_communicator(detail::mpi_group::handle group)
      : group_(std::move(group)), send_at_(group_->size()), receive_at_(group_->size())
  {}

  static mpi_communicator wrap(detail::mpi_group::handle group)
  {
    return mpi_communicator(std::move(group));
  }

  /// Where each peer's bytes begin; returns where the last end.
  static std::size_t lay_out(std::span<std::size_t const> bytes, std::vector<std::size_t>& begins)
  {
    std::exclusive_scan(bytes.begin(), bytes.end(), begins.begin(), std::size_t{0});
    return begins.back() + bytes.back();
  }

  detail::mpi_group::handle group_;
  std::vector<std::size_t> send_at_;
  std::vector<std::size_t> receive_at_;
};

}  // namespace ballast::inline v0
