// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <compare>
#include <mutex>  // also std::chrono::milliseconds: <chrono> has calendars, 0.4 s a file

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

/// A word of what an all-to-all moves, which must be the same on every rank: half of it is the
/// plan's, half the arrays' (how many, and how wide their rows and elements are). 0 says nothing.
[[nodiscard]] constexpr std::uint64_t content_word(std::uint64_t plan,
                                                   std::uint64_t arrays) noexcept
{
  return plan << 32U | (arrays & 0xffff'ffffU);
}

namespace detail {

/// Any communicator, by reference: what calls one is compiled once, and not for each type.
class any_communicator {
 public:
  template <communicator C>
    requires(!std::same_as<C, any_communicator>)
  any_communicator(C& comm) noexcept : comm_(&comm)
  {
    static constexpr calls of_type{
        [](void* self) { return static_cast<C*>(self)->rank(); },
        [](void* self) { return static_cast<C*>(self)->size(); },
        [](void* self, std::span<std::byte const> send, std::span<std::byte> receive) {
          return static_cast<C*>(self)->all_gather(send, receive);
        },
        [](void* self, std::span<std::byte const> send, std::span<std::size_t const> send_bytes,
           std::span<std::byte> receive, std::span<std::size_t const> receive_bytes,
           [[maybe_unused]] std::uint64_t content) {
          C& own = *static_cast<C*>(self);
          if constexpr (requires {
                          own.all_to_all_v(send, send_bytes, receive, send_bytes, content);
                        }) {
            return own.all_to_all_v(send, send_bytes, receive, receive_bytes, content);
          } else {
            return own.all_to_all_v(send, send_bytes, receive, receive_bytes);
          }
        },
        [](void* self) { return static_cast<C*>(self)->wait(); },
        [](void* self, std::size_t bytes) { return static_cast<C*>(self)->scratch(bytes); }};
    calls_ = &of_type;
  }

  [[nodiscard]] rank_id rank() const { return calls_->rank(comm_); }
  [[nodiscard]] std::size_t size() const { return calls_->size(comm_); }
  [[nodiscard]] result<void> all_gather(std::span<std::byte const> send,
                                        std::span<std::byte> receive) const
  {
    return calls_->all_gather(comm_, send, receive);
  }
  [[nodiscard]] result<void> all_to_all_v(std::span<std::byte const> send,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::byte> receive,
                                          std::span<std::size_t const> receive_bytes,
                                          std::uint64_t content = 0) const
  {
    return calls_->all_to_all_v(comm_, send, send_bytes, receive, receive_bytes, content);
  }
  [[nodiscard]] result<void> wait() const { return calls_->wait(comm_); }
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes) const
  {
    return calls_->scratch(comm_, bytes);
  }

 private:
  using sizes = std::span<std::size_t const>;
  struct calls {
    rank_id (*rank)(void*);
    std::size_t (*size)(void*);
    result<void> (*all_gather)(void*, std::span<std::byte const>, std::span<std::byte>);
    result<void> (*all_to_all_v)(void*, std::span<std::byte const>, sizes, std::span<std::byte>,
                                 sizes, std::uint64_t);
    result<void> (*wait)(void*);
    std::span<std::byte> (*scratch)(void*, std::size_t);
  };

  void* comm_;
  calls const* calls_;
};

}  // namespace detail

/// A transfer of one rank that is under way, from the call that began it to the one that ended it.
struct transfer_id : basic_id<transfer_id> {
  using basic_id::basic_id;
};

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

/// The errors of communicators, so that all of them report the same failure in the same words. For
/// authors of communicators.
///
/// `operation` is the name of the call, such as "all_to_all_v".
namespace ballast::inline v0::comm_failure {

/// Returns "rank 3", "ranks 0, 2 and 5", or of more than ten "ranks 0, 1, ..., 9 and 22 more".
[[nodiscard]] BALLAST_ONCE std::string ranks_text(std::vector<rank_id> const& ranks);

/// An error with the ranks that caused it.
[[nodiscard]] inline tl::unexpected<error> with_ranks(error_code code, std::string message,
                                                      std::vector<rank_id> ranks)
{
  return tl::unexpected<error>(error{code, 0, std::move(message), std::move(ranks)});
}

/// The same error, of which `rank` is the cause.
[[nodiscard]] inline tl::unexpected<error> of_rank(rank_id rank, tl::unexpected<error> why)
{
  why.value().ranks = {rank};
  return why;
}

/// Ranks made different calls. `differing` is empty on a rank that agrees with all its own peers.
/// `advice` goes on from "Make every rank".
[[nodiscard]] BALLAST_ONCE tl::unexpected<error> mismatch(
    std::string_view operation, std::string_view what, std::vector<rank_id> differing,
    std::string_view advice = "plan from the same gathered lengths and settings",
    std::string_view outcome = "nothing was sent");

/// Ranks gave an exchange arrays of different widths or types, or different plans.
[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_content(
    std::string_view operation, bool in_arrays, std::vector<rank_id> differing,
    std::string_view outcome = "nothing was sent");

/// Ranks have made a communicator with different options; `option` is the first that differs.
[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_options(std::string_view operation,
                                                                   std::string_view option,
                                                                   std::vector<rank_id> differing);

/// Of a message between two ranks, `peer` sends or expects another number of bytes than this rank.
[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_message(std::string_view operation,
                                                                   rank_id peer, std::size_t bytes,
                                                                   std::size_t of_peer);

/// Ranks ended, or gave up, before the operation was complete.
[[nodiscard]] BALLAST_ONCE tl::unexpected<error> peer_lost(std::string_view operation,
                                                           std::vector<rank_id> lost);

/// A call of the library below (MPI, NCCL, CUDA) failed: the call's name, that library's code and
/// text.
[[nodiscard]] BALLAST_ONCE tl::unexpected<error> transport(std::string_view call, int code,
                                                           std::string_view text);

/// The deadline passed. `missing` is empty if the communicator cannot tell which ranks are missing.
[[nodiscard]] BALLAST_ONCE tl::unexpected<error> timed_out(std::string_view operation,
                                                           std::chrono::milliseconds deadline,
                                                           std::vector<rank_id> missing);

}  // namespace ballast::inline v0::comm_failure

namespace ballast::inline v0 {

/// Two ranks, of which the first sends to the second.
struct rank_pair {
  rank_id from{};
  rank_id to{};

  friend bool operator==(rank_pair const&, rank_pair const&) = default;
  friend std::strong_ordering operator<=>(rank_pair const&, rank_pair const&) = default;
};

namespace detail {

/// The scratch memory of a communicator whose arrays lie in host memory: whole cache lines, with
/// unspecified content.
///
/// Ensures     (1) the memory is aligned to 64 bytes
///             (2) a call that asks for no more than an earlier one allocates nothing, and neither
///                 moves nor changes the memory
/// Errors      std::bad_alloc and std::length_error; the earlier memory is then gone.
class host_scratch {
 public:
  [[nodiscard]] std::span<std::byte> take(std::size_t bytes)
  {
    if (bytes > size()) {
      lines_ = std::vector<line>();  // first, so that old and new never take memory together
      lines_.resize(bytes / sizeof(line) + (bytes % sizeof(line) != 0 ? 1 : 0));
    }
    return std::as_writable_bytes(mutable_span_of(lines_)).first(bytes);
  }

  /// The most bytes that take() returns without allocating.
  [[nodiscard]] std::size_t size() const noexcept { return lines_.size() * sizeof(line); }

 private:
  struct alignas(64) line {
    std::byte bytes[64];
  };

  std::vector<line> lines_;
};

}  // namespace detail

/// How long a rank waits for the others by default: long enough for a checkpoint to be written,
/// short enough for a failure to be noticed the same night. milliseconds::max() stands for none; no
/// wait is longer than a year.
inline constexpr std::chrono::milliseconds default_deadline = std::chrono::minutes(10);

namespace detail {

/// What a rank may wait for beside a rank: nothing, and all ranks that do not wait for this too.
struct waits_for {
  static constexpr int nobody = -1;
  static constexpr int everybody = -2;
};

/// Returns the ranks that wait for nobody and hold up one of those that are `held`, directly or
/// through others. Empty if ranks wait in a circle only. It is called only at a deadline, so it need
/// not be fast.
///
/// Shapes      held[P]; awaited[P]: for whom each rank waits.
[[nodiscard]] BALLAST_ONCE std::vector<rank_id> ranks_that_hold_up(std::vector<bool> held,
                                                                   std::span<int const> awaited);

}  // namespace detail

/// How an mpi_communicator behaves. Every rank gives the same options, which are compared.
struct mpi_communicator_options {
  /// How long a rank waits without any message arriving, above zero. A call in which messages keep
  /// arriving may take longer.
  std::chrono::milliseconds deadline = default_deadline;
  /// Whether the ranks compare operations and sizes before bytes move: 8 bytes of each rank, a
  /// call. Turn it off only for plans that the ranks have compared already. Then sizes that differ
  /// are a mismatch on the ranks that receive such a message, and on others a deadline that passes
  /// or bytes that never arrive. barrier and split always compare.
  bool verify = true;
  /// Bytes; MPI's own limit is 2^31 - 1. A transfer is cut into parts of this size and a shorter
  /// one.
  std::size_t largest_message = std::size_t{1} << 30U;
};

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

/// The sentences of failures, which communicator.hpp declares.
namespace ballast::inline v0 {

namespace comm_failure {

[[nodiscard]] BALLAST_ONCE std::string ranks_text(std::vector<rank_id> const& ranks)
{
  constexpr std::size_t most = 10;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    if (index == most) { return detail::concat(text, " and ", ranks.size() - most, " more"); }
    bool const last = index + 1 == ranks.size();
    if (index > 0) { text += last ? " and " : ", "; }
    text += std::to_string(to_index(ranks[index]));
  }
  return text;
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> mismatch(std::string_view operation,
                                                          std::string_view what,
                                                          std::vector<rank_id> differing,
                                                          std::string_view advice,
                                                          std::string_view outcome)
{
  std::string message = std::string(operation).append(": ranks disagree on ").append(what);
  if (!differing.empty()) {
    // Which side is right nobody knows, and half the ranks may be on each.
    message += " (" + ranks_text(differing) + (differing.size() == 1 ? " differs" : " differ");
    message += " from the others)";
  }
  message.append("; ").append(outcome).append(". Make every rank ").append(advice);
  return with_ranks(error_code::mismatch, std::move(message), std::move(differing));
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_content(std::string_view operation,
                                                                   bool in_arrays,
                                                                   std::vector<rank_id> differing,
                                                                   std::string_view outcome)
{
  if (!in_arrays) {
    return mismatch(operation, "the plan or its direction", std::move(differing),
                    "plan from the same gathered lengths and settings", outcome);
  }
  return mismatch(operation, "the number of arrays, the type of their elements or their width",
                  std::move(differing), "give arrays of the same types and widths", outcome);
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_options(std::string_view operation,
                                                                   std::string_view option,
                                                                   std::vector<rank_id> differing)
{
  return mismatch(operation, detail::concat("the option ", option), std::move(differing),
                  "give the same options");
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_message(std::string_view operation,
                                                                   rank_id peer, std::size_t bytes,
                                                                   std::size_t of_peer)
{
  std::string message = std::string(operation).append(": this rank has a message of ");
  message += detail::concat(detail::counted(bytes, "byte"), ", and ", ranks_text({peer}),
                            " one of ", of_peer,
                            "; make both ranks plan from the same gathered lengths and settings, "
                            "and give arrays of the same types and widths");
  return with_ranks(error_code::mismatch, std::move(message), {peer});
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> peer_lost(std::string_view operation,
                                                           std::vector<rank_id> lost)
{
  std::string message = std::string(operation).append(": ");
  message += lost.empty() ? "a rank" : ranks_text(lost);
  message += " left before it was complete; look at the first failure there";
  return with_ranks(error_code::peer_lost, std::move(message), std::move(lost));
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> transport(std::string_view call, int code,
                                                           std::string_view text)
{
  return fail(error_code::transport, static_cast<std::size_t>(code), call, " failed with code ",
              code, ": ", text);
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> timed_out(std::string_view operation,
                                                           std::chrono::milliseconds deadline,
                                                           std::vector<rank_id> missing)
{
  std::string message = std::string(operation).append(": ");
  message += missing.empty() ? "some ranks" : ranks_text(missing);
  message += detail::concat(" did not arrive within ", deadline.count(),
                            " ms; look for what holds them up, or raise the deadline");
  return with_ranks(error_code::timed_out, std::move(message), std::move(missing));
}

}  // namespace comm_failure

namespace detail {

[[nodiscard]] BALLAST_ONCE std::vector<rank_id> ranks_that_hold_up(std::vector<bool> held,
                                                                   std::span<int const> awaited)
{
  for (bool more = true; more;) {
    more = false;
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      for (std::size_t peer = 0; peer < held.size() && held[rank]; ++peer) {
        bool const holds_up =
            std::cmp_equal(awaited[rank], peer) ||
            (awaited[rank] == waits_for::everybody && awaited[peer] != waits_for::everybody);
        more = more || (holds_up && !held[peer]);
        held[peer] = held[peer] || holds_up;
      }
    }
  }
  std::vector<rank_id> ranks;
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    if (held[rank] && awaited[rank] == waits_for::nobody) { ranks.push_back(to_id<rank_id>(rank)); }
  }
  return ranks;
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif
