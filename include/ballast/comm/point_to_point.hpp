// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_POINT_TO_POINT_HPP
#define BALLAST_COMM_POINT_TO_POINT_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// A transfer of one rank that is under way, from the call that began it to the one that ended it.
enum class transfer_id : std::uint32_t {};

/// A communicator whose ranks also exchange bytes in pairs, while other ranks do something else.
///
///   send(bytes, peer)     begins to send bytes to a rank
///   receive(bytes, peer)  begins to receive bytes from a rank
///   start()               lets go of what was begun since the last start. Threads and MPI have let
///                         go already, so it returns at once; NCCL queues all of it as one group,
///                         and groups one after the other
///   is_done(transfer)     returns whether wait_for would return at once
///   wait_for(transfer)    returns when the bytes have been sent, so that they may be changed, or
///                         received; this ends the transfer
///   cancel(transfer)      ends a transfer that nobody needs any more, or whose wait has failed;
///                         returns whether its bytes are no longer in use. Where it returns false
///                         they must stay valid as long as the library below is in use
///
/// None but wait_for waits for another rank. So a sender goes on to compute, to other transfers and
/// to collective operations while its receiver sleeps. The exception is NCCL's first start() to a
/// rank, which connects to it, and waits until that rank starts too. Any number of transfers may be
/// under way, and they are waited for in any order, each once.
///
/// Expects     peer is below size(); it may be the rank itself. The bytes of a send do not change,
///             and those of a receive are not read, until its transfer has ended; they lie in
///             memory that the communicator reaches. A transfer that has ended is not used again.
///             Every transfer is started before it is waited for. Every send has its receive, and a
///             message whose one end is cancelled has the other cancelled too: over MPI a send that
///             was not received meets a later receive, perhaps of the next group. A communicator is
///             destroyed with no transfer under way; those that are left are cancelled.
/// Ensures     (1) the n-th receive from a rank gets the bytes of that rank's n-th send to this
///                 one, whatever they wait for in between; transfers do not meet collective
///                 operations
///             (2) a message may be empty, and it is a message all the same
///             (3) once as many transfers have been under way, nothing is allocated
/// Errors      mismatch: `ranks`, the peer, sends or expects another number of bytes. The receiver
///             gets this error, and on threads the sender too; what it has received is unspecified,
///             and what lies behind its bytes is untouched (NCCL compares no sizes).
///             The transfer has ended, and the communicator can still be used.
///             timed_out: a wait reached the deadline, counted from its call. `ranks` are those for
///             which it waited: the peer, or if that rank waits itself, the rank for which that one
///             waits, and so on; empty if they wait in a circle. peer_lost: `ranks` ended or gave
///             up. transport: the library below failed. After these three the communicator is
///             broken: every further call returns the same error, on all its ranks, and collective
///             operations do too. Transfers stay under way, also the one that failed: cancel them.
template <class C>
concept point_to_point =
    requires(C& comm, C const& view, std::span<std::byte const> send, std::span<std::byte> receive,
             rank_id peer, transfer_id transfer) {
      { view.rank() } -> std::same_as<rank_id>;
      { view.size() } -> std::same_as<std::size_t>;
      { comm.send(send, peer) } -> std::same_as<result<transfer_id>>;
      { comm.receive(receive, peer) } -> std::same_as<result<transfer_id>>;
      { comm.start() } -> std::same_as<result<void>>;
      { comm.is_done(transfer) } -> std::same_as<result<bool>>;
      { comm.wait_for(transfer) } -> std::same_as<result<void>>;
      { comm.cancel(transfer) } -> std::same_as<bool>;
    };

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_POINT_TO_POINT_HPP
