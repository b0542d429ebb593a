// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_MPI_COMMUNICATOR_HPP
#define BALLAST_COMM_MPI_COMMUNICATOR_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/deadline.hpp>
#include <ballast/comm/detail/mpi/mpi_channel.hpp>
#include <ballast/comm/detail/mpi/mpi_group.hpp>
#include <ballast/comm/detail/mpi/mpi_requests.hpp>
#include <ballast/comm/detail/mpi/mpi_transfers.hpp>
#include <ballast/comm/mpi_communicator_options.hpp>
#include <ballast/comm/point_to_point.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

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
    collective_call const call{collective::all_to_all_v, 0, {}, content};
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

#endif  // BALLAST_COMM_MPI_COMMUNICATOR_HPP
