// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_CONCEPTS_HPP
#define BALLAST_COMM_CONCEPTS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// One rank's end of a group of ranks that exchange bytes.
///
/// Every rank of the group holds one and calls the same operations in the same order: they are
/// collective. With P = size():
///
///   all_gather(send[n], receive[P * n])   rank r's bytes end up at [r * n, (r + 1) * n) everywhere
///   all_to_all_v(send, send_bytes[P], receive, receive_bytes[P])
///                                         send holds what goes to rank 0, then to rank 1, ...;
///                                         receive what comes from rank 0, then from rank 1, ...
///   broadcast(bytes, root)                everyone has root's bytes
///   barrier()                             no rank leaves before every rank came
///   split(colour)                         a new group of those who gave the same colour, in rank
///                                         order; the old one stays
///   wait()                                everything that was called for is done. Where the calls
///                                         themselves wait (threads, MPI) it returns at once; where
///                                         they only join a queue (NCCL) arrays must be left alone
///                                         until then
///   scratch(bytes)                        memory that the host and the communicator both reach,
///                                         aligned to 64 bytes, content unspecified, until scratch
///                                         is called again; it allocates only when it has never
///                                         been asked for as much
///
/// Expects     spans of the sizes above: send.size() is the sum of send_bytes, and so on; a root
///             below size(). send and receive do not overlap. They lie in memory that the
///             communicator reaches: the host's for threads and MPI, the GPU's or pinned for NCCL.
/// Ensures     (1) counts may be zero, on one side too, and a group may be a single rank
///             (2) send may be changed as soon as the call, or for queues wait(), has returned
///             (3) in the steady state nothing is allocated
/// Errors      mismatch: ranks called different operations, or with different sizes; every rank is
///             told, nothing was moved, and the communicator can still be used. `ranks` are those
///             whose operation, size or root is not what most have, the same list everywhere; where
///             only the counts of messages differ, the peers that this rank disagrees with.
///             timed_out: `ranks` did not come before the deadline; peer_lost: `ranks` died or gave
///             up; transport: the library beneath failed. After these three the communicator is
///             broken: each further call gives the same error. Which models check sizes, and when,
///             is said at each.
template <class C>
concept communicator =
    std::movable<C> &&
    requires(C& comm, C const& view, std::span<std::byte const> send, std::span<std::byte> receive,
             std::span<std::size_t const> bytes, rank_id root, std::uint32_t colour) {
      { view.rank() } -> std::same_as<rank_id>;
      { view.size() } -> std::same_as<std::size_t>;
      { comm.all_gather(send, receive) } -> std::same_as<result<void>>;
      { comm.all_to_all_v(send, bytes, receive, bytes) } -> std::same_as<result<void>>;
      { comm.broadcast(receive, root) } -> std::same_as<result<void>>;
      { comm.barrier() } -> std::same_as<result<void>>;
      { comm.split(colour) } -> std::same_as<result<C>>;
      { comm.wait() } -> std::same_as<result<void>>;
      { comm.scratch(bytes.size()) } -> std::same_as<std::span<std::byte>>;
    };

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_CONCEPTS_HPP
