// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/detail/checked_group.hpp>
#include <ballast/comm/detail/mpi_pairs.hpp>
#include <ballast/core.hpp>

#include <mpi.h>

#include <chrono>
#include <memory>

namespace ballast::inline v0 {

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
class mpi_communicator : public detail::checked_group<detail::mpi_pairs> {
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
    expect_peer(peer, size());
    return transfer("send", [&] { return pairs().begin_send(bytes, to_index(peer)); });
  }

  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, rank_id peer)
  {
    expect_peer(peer, size());
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

  /// The channel's communicators.
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
