// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_CONCEPTS_HPP
#define BALLAST_COMM_CONCEPTS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// One rank's end of a group of ranks that exchange bytes.
///
/// Every rank of the group holds one. Operations are collective: every rank calls the same ones in
/// the same order. With P = size():
///
///   all_gather(send[n], receive[P * n])   rank r's bytes end up at [r * n, (r + 1) * n) everywhere
///   all_to_all_v(send, send_bytes[P], receive, receive_bytes[P])
///                                         send holds what goes to rank 0, then to rank 1, ...;
///                                         receive holds what comes from rank 0, then from rank 1
///   wait()                                returns when all earlier calls are done. Threads and MPI
///                                         wait in the calls themselves, so it returns at once;
///                                         NCCL's calls only join a queue, and arrays must not be
///                                         touched before wait() has returned
///   scratch(bytes)                        returns memory that the host and the communicator both
///                                         reach, aligned to 64 bytes, with unspecified content,
///                                         valid until the next call of scratch; it allocates only
///                                         when asked for more than ever before
///
/// This is what routes, `gather_samples` and `agree` call. The library's own communicators also
/// have
///
///   all_to_all_v(..., content)            as above, with a content_word that ranks compare where
///                                         they compare sizes: routes give one where they can
///   broadcast(bytes, root)                every rank has root's bytes; root is below size()
///   barrier()                             no rank returns before every rank has called it
///   split(colour)                         returns a new group, of the ranks that gave the same
///                                         colour, in rank order; the old group stays usable
///   serves_threads()                      (MPI, NCCL) whether a thread may use a group while
///                                         another uses a part of it; threads' groups always may
///
/// Expects     spans of the sizes above: send.size() is the sum of send_bytes, and so on. send and
///             receive do not overlap. They lie in memory that the communicator reaches: the host's
///             for threads and MPI, the GPU's or pinned for NCCL.
/// Ensures     (1) any count may be zero, and a group may be a single rank
///             (2) send may be changed as soon as the call (with a queue: wait()) has returned
///             (3) in the steady state nothing is allocated
/// Errors      mismatch: ranks called different operations, or with different sizes. Every rank
///             gets this error, nothing was moved, and the communicator can still be used. `ranks`
///             are those whose operation, size or root is not the most common one, the same list on
///             every rank; if only counts of messages differ, the peers with which this rank
///             disagrees. timed_out: `ranks` did not make the call before the deadline. peer_lost:
///             `ranks` ended or gave up. transport: the library below failed. After these three the
///             communicator is broken: every further call returns the same error. Each model says
///             which sizes it checks, and when.
template <class C>
concept communicator = requires(C& comm, C const& view, std::span<std::byte const> send,
                                std::span<std::byte> receive, std::span<std::size_t const> bytes) {
  { view.rank() } -> std::same_as<rank_id>;
  { view.size() } -> std::same_as<std::size_t>;
  { comm.all_gather(send, receive) } -> std::same_as<result<void>>;
  { comm.all_to_all_v(send, bytes, receive, bytes) } -> std::same_as<result<void>>;
  { comm.wait() } -> std::same_as<result<void>>;
  { comm.scratch(bytes.size()) } -> std::same_as<std::span<std::byte>>;
};

/// A communicator that can be split: each part of the ranks gets one of its own.
template <class C>
concept splitting_communicator = communicator<C> && requires(C& comm, std::uint32_t colour) {
  { comm.split(colour) } -> std::same_as<result<C>>;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_CONCEPTS_HPP
