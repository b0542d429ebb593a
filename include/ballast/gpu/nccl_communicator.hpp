// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/collective_check.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/gpu/detail/nccl_queue.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t
#include <nccl.h>

namespace ballast::inline v0 {

namespace detail {

/// Before bytes move, each rank tells each other rank which call it makes. Ranks that are not heard
/// are missing: NCCL has no channel that is left to call the roll once it has been given up.
///
/// `Allocator` allocates memory that the GPU and the host both reach.
///
/// Shapes      send_bytes[P] and receive_bytes[P] for all_to_all_v, else both empty.
/// Expects     the thread has no NCCL group open: the words would stay in it.
/// Ensures     (1) it succeeds only if all ranks made the call and agree, and then on all of them
///             (2) every rank that made the call gets an error if any two ranks differ
/// Errors      mismatch. timed_out: `ranks` have not been heard; empty if NCCL has not even begun.
///             transport.
/// Complexity  O(P) calls of NCCL, 40 bytes to each rank.
template <class Allocator>
class nccl_comparison {
 public:
  nccl_comparison(std::size_t rank, std::size_t ranks, Allocator const& allocator)
      : words_(allocator), bytes_(ranks)
  {
    narrow(rank, ranks);
  }

  /// From now on it serves this rank of a group of no more ranks than it was made for. Allocates
  /// nothing then.
  void narrow(std::size_t rank, std::size_t ranks)
  {
    rank_ = rank;
    words_.resize(ranks);
    bytes_.assign(ranks, call_words<Allocator>::bytes);
  }

  [[nodiscard]] result<void> operator()(nccl_queue& queue, collective_call call,
                                        std::span<std::size_t const> send_bytes = {},
                                        std::span<std::size_t const> receive_bytes = {},
                                        std::uint32_t colour = 0)
  {
    std::string_view const operation = call.name();
    words_.tell(rank_, call, send_bytes, receive_bytes, colour);
    auto done =
        queue.exchange(operation, words_.told().data(), bytes_, words_.heard().data(), bytes_);
    if (done) {
      done = queue.drain(operation, [&] { return missing(); });
    }
    if (!done) { return done; }
    bool const no_group_was_open = words_.was_heard(rank_);
    BALLAST_EXPECTS(no_group_was_open);
    return words_.are_one_call() ? result<void>() : words_.disagreement(call.operation);
  }

  /// The colour that `peer` gave in the last call, which was split.
  [[nodiscard]] std::uint64_t colour_of(std::size_t peer) const { return words_.colour_of(peer); }

 private:
  [[nodiscard]] std::vector<rank_id> missing() const
  {
    std::vector<rank_id> ranks;
    // If even its own word has not arrived, NCCL was still connecting or the stream was busy: no
    // rank can be named.
    if (!words_.was_heard(rank_)) { return ranks; }
    for (std::size_t peer = 0; peer < bytes_.size(); ++peer) {
      if (!words_.was_heard(peer)) { ranks.push_back(to_id<rank_id>(peer)); }
    }
    return ranks;
  }

  std::size_t rank_ = 0;
  call_words<Allocator> words_;
  std::vector<std::size_t> bytes_;  // of the word to and from each rank
};

}  // namespace detail

/// How an nccl_communicator behaves.
struct nccl_communicator_options {
  /// How long each wait may take, for all that is queued; above zero. The clock also runs while a
  /// job is stopped.
  std::chrono::milliseconds deadline = default_deadline;
  bool verify = false;  ///< compare operations and sizes before bytes move, and wait for that
};

/// A `communicator` over NCCL: its calls join a CUDA stream, so that a GPU packs, sends and unpacks
/// without the host in between.
///
/// The NCCL communicator and the stream are borrowed. All arrays must lie in memory that the GPU
/// reaches; `Allocator` allocates scratch() and the words that ranks compare, in memory that the
/// host reaches too. Only wait(), barrier(), split(), the destructor, scratch() if it allocates
/// and, with `verify`, every operation wait for the stream. `verify` costs a round trip before each
/// operation: use it until a training loop is correct.
///
/// It is `point_to_point` too: start() queues the transfers begun since the last one as one NCCL
/// group, and an event tells when they are done. A send does not hold up the host, but it holds up
/// the stream until its receiver has come; and the first start() to a rank connects to it, for
/// which NCCL waits until that rank starts too. So transfers that others shall not wait for need an
/// NCCL communicator and a stream of their own. What goes both ways between two ranks has to be in
/// one start, or in an order on which all ranks agree.
///
/// Groups made by split() are on the same stream, and a kernel that waits for a rank holds up all
/// work behind it. So if a communicator breaks, so do its parents, parts and siblings that had a
/// call since the stream was last found empty; the others can still be used.
///
/// Expects     comm is ready: ncclCommGetAsyncError reports ncclSuccess. The device of comm and
///             stream is the thread's current one, and the thread has no NCCL group open. Both
///             outlive this object, the variable `comm` does not move, and nothing else uses comm
///             meanwhile. One thread at a time uses this object and those split from it. Without
///             `verify` a rank sends itself as many bytes as it receives from itself.
/// Ensures     (1) all_to_all_v is one NCCL group with at most one message to and one from each
///                 rank
///             (2) after timed_out and transport arrays are no longer in use, and received bytes
///                 are unspecified; comm has been aborted, which also frees it, and is null
///             (3) the destructor waits for calls that wait() has not waited for; at the deadline
///                 it aborts comm. The owner destroys comm afterwards unless it is null, and after
///                 the graphs that have captured its work: NCCL waits for them
/// Errors      wrong_order from what waits, while the stream is captured; the communicator can be
///             used again. mismatch, from over where options differ, after which comm is whole, and
///             with `verify`; without it, calls that differ are undefined as in NCCL.
///             timed_out: `ranks` have not been heard, in split and with `verify`. `ranks` is empty
///             in other calls, while NCCL was still connecting, and if another communicator's
///             failure broke this one. A rank that made the call may be among them if NCCL placed
///             its word behind that of a missing rank. A blocking comm connects to a rank in the
///             first call that needs it, and no deadline ends that call: set
///             ncclConfig_t::blocking to 0. std::bad_alloc from over, split and scratch.
/// Complexity  O(P) calls of NCCL for all_to_all_v, and for comparing calls, else O(1).
template <class Allocator = pinned_allocator<std::byte>>
  requires std::same_as<typename std::allocator_traits<Allocator>::value_type, std::byte>
class nccl_communicator {
 public:
  /// Borrows `comm`; if it must abort comm it sets the variable to null. Collective: all ranks have
  /// the same options.
  [[nodiscard]] static result<nccl_communicator> over(ncclComm_t& comm, cudaStream_t stream,
                                                      nccl_communicator_options options = {},
                                                      Allocator const& allocator = Allocator())
  {
    detail::expect_deadline(options.deadline);
    int rank = 0;
    int ranks = 0;
    if (auto const code = ncclCommUserRank(comm, &rank); code != ncclSuccess) {
      return comm_failure::transport("ncclCommUserRank", code, ncclGetErrorString(code));
    }
    if (auto const code = ncclCommCount(comm, &ranks); code != ncclSuccess) {
      return comm_failure::transport("ncclCommCount", code, ncclGetErrorString(code));
    }
    auto shared = std::make_shared<detail::nccl_stream>(stream, options.deadline);
    nccl_communicator made(static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks),
                           std::make_unique<detail::nccl_queue>(comm, std::move(shared)), options,
                           allocator);
    if (auto same = made.compare_options(); !same) { return tl::unexpected(same.error()); }
    return made;
  }

  /// Whether a thread may use one of these while another uses a part of it: they share a stream.
  [[nodiscard]] static constexpr bool serves_threads() noexcept { return false; }

  [[nodiscard]] rank_id rank() const noexcept { return to_id<rank_id>(state_->rank); }
  [[nodiscard]] std::size_t size() const noexcept { return state_->ranks; }

  /// The NCCL communicator, for your own calls; null once it has been aborted.
  [[nodiscard]] ncclComm_t native() const noexcept { return state_->queue->native(); }
  [[nodiscard]] cudaStream_t stream() const noexcept { return state_->queue->stream(); }

  [[nodiscard]] result<void> all_gather(std::span<std::byte const> send,
                                        std::span<std::byte> receive)
  {
    collective_call::expect_gather(send.size(), receive.size(), size());
    if (auto same = verify({collective::all_gather, send.size()}); !same) { return same; }
    return state_->queue->submit(
        "all_gather", "ncclAllGather", [&](ncclComm_t comm, cudaStream_t stream) {
          return ncclAllGather(send.data(), receive.data(), send.size(), ncclUint8, comm, stream);
        });
  }

  [[nodiscard]] result<void> all_to_all_v(std::span<std::byte const> send,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::byte> receive,
                                          std::span<std::size_t const> receive_bytes,
                                          std::uint64_t content = 0)
  {
    collective_call::expect_exchange(send.size(), send_bytes, receive.size(), receive_bytes,
                                     size());
    BALLAST_EXPECTS(
        state_->options.verify || send_bytes[state_->rank] == receive_bytes[state_->rank], "rank ",
        rank(), " sends itself ", detail::counted(send_bytes[state_->rank], "byte"),
        " and receives ", receive_bytes[state_->rank], " from itself");
    collective_call const call{collective::all_to_all_v, 0, rank_id{}, content};
    if (auto same = verify(call, send_bytes, receive_bytes); !same) { return same; }
    return state_->queue->exchange("all_to_all_v", send.data(), send_bytes, receive.data(),
                                   receive_bytes);
  }

  [[nodiscard]] result<void> broadcast(std::span<std::byte> bytes, rank_id root)
  {
    collective_call::expect_root(root, size());
    if (auto same = verify({collective::broadcast, bytes.size(), root}); !same) { return same; }
    return state_->queue->submit(
        "broadcast", "ncclBroadcast", [&](ncclComm_t comm, cudaStream_t stream) {
          return ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), ncclUint8,
                               static_cast<int>(to_index(root)), comm, stream);
        });
  }

  [[nodiscard]] result<void> barrier()
  {
    if (state_->options.verify) { return verify({collective::barrier}); }
    if (auto can = state_->queue->can_wait("barrier"); !can) { return can; }
    std::byte* const token = state_->token.data();
    auto queued = state_->queue->submit(
        "barrier", "ncclAllReduce", [&](ncclComm_t comm, cudaStream_t stream) {
          return ncclAllReduce(token, token, 1, ncclUint8, ncclSum, comm, stream);
        });
    return queued ? state_->queue->drain("barrier") : queued;
  }

  /// The new group has an NCCL communicator of its own, which it destroys, and the same stream.
  ///
  /// Destroying or aborting it is collective among the ranks of a node: all of them destroy their
  /// part, the last at most a deadline after the first. If NCCL is blocking, no deadline ends that
  /// wait. If the new communicator cannot be made, this one is broken as well.
  [[nodiscard]] result<nccl_communicator> split(std::uint32_t colour)
  {
    if (auto can = state_->queue->can_wait("split"); !can) { return tl::unexpected(can.error()); }
    // Memory comes first: a rank that threw between the roll call and NCCL's split would leave the
    // others in NCCL's. CUDA waits for the device before it allocates pinned memory.
    state_->queue->quiesce();
    nccl_communicator part(state_->rank, size(), state_->queue->part(), state_->options,
                           state_->scratch.get_allocator());
    auto& compared = state_->comparison;
    if (auto same = compared(*state_->queue, {collective::split}, {}, {}, colour); !same) {
      return tl::unexpected(std::move(same).error());
    }
    std::size_t rank = 0;
    std::size_t ranks = 0;
    std::size_t first = size();
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (compared.colour_of(peer) != colour) { continue; }
      if (ranks == 0) { first = peer; }
      rank += peer < state_->rank ? 1U : 0U;
      ++ranks;
    }
    // NCCL's colours end at 2^31 - 1, so the number of the first rank of a colour stands for it.
    auto made = state_->queue->split(*part.state_->queue, static_cast<int>(first),
                                     static_cast<int>(state_->rank));
    if (!made) { return tl::unexpected(std::move(made).error()); }
    part.state_->rank = rank;
    part.state_->ranks = ranks;
    part.state_->comparison.narrow(rank, ranks);
    return part;
  }

  [[nodiscard]] result<transfer_id> send(std::span<std::byte const> bytes, rank_id peer)
  {
    collective_call::expect_peer(peer, size());
    return state_->transfers.send(*state_->queue, bytes, to_index(peer));
  }

  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, rank_id peer)
  {
    collective_call::expect_peer(peer, size());
    return state_->transfers.receive(*state_->queue, bytes, to_index(peer));
  }

  /// Queues the transfers that were begun since the last start.
  [[nodiscard]] result<void> start() { return state_->transfers.start(*state_->queue); }

  [[nodiscard]] result<bool> is_done(transfer_id transfer)
  {
    return state_->transfers.is_done(*state_->queue, transfer);
  }

  [[nodiscard]] result<void> wait_for(transfer_id transfer)
  {
    return state_->transfers.wait_for(*state_->queue, transfer);
  }

  /// Returns false for a transfer that is queued and not done: NCCL has no means to take it back.
  [[nodiscard]] bool cancel(transfer_id transfer)
  {
    return state_->transfers.cancel(*state_->queue, transfer);
  }

  /// Waits until the stream is empty, if there was a call since it was last found empty, or ever
  /// one while it was captured: a graph with that call may have been launched.
  [[nodiscard]] result<void> wait() { return state_->queue->drain("wait"); }

  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    // CUDA waits for the device before it allocates or frees pinned memory, without a deadline.
    return state_->scratch.take(bytes, [this] { state_->queue->quiesce(); });
  }

 private:
  using byte_array = std::vector<std::byte, Allocator>;

  struct state {
    nccl_communicator_options options;
    std::size_t rank;
    std::size_t ranks;
    detail::aligned_scratch<Allocator> scratch;
    byte_array token;
    detail::nccl_comparison<Allocator> comparison;
    detail::nccl_transfers transfers;
    // Last, since its destructor waits for what uses the memory above.
    std::unique_ptr<detail::nccl_queue> queue;
  };

  nccl_communicator(std::size_t rank, std::size_t ranks, std::unique_ptr<detail::nccl_queue> queue,
                    nccl_communicator_options options, Allocator const& allocator)
      : state_(new state{options,
                         rank,
                         ranks,
                         detail::aligned_scratch<Allocator>(allocator),
                         byte_array(1, allocator),
                         detail::nccl_comparison<Allocator>(rank, ranks, allocator),
                         {},
                         std::move(queue)})
  {}

  /// Compares what the ranks were made with: one all_gather of 16 bytes a rank.
  [[nodiscard]] result<void> compare_options()
  {
    constexpr std::array names{"verify", "deadline"};
    std::array<std::uint64_t, names.size()> const own{
        state_->options.verify ? 1U : 0U,
        static_cast<std::uint64_t>(state_->options.deadline.count())};
    if (auto can = state_->queue->can_wait("over"); !can) { return can; }
    std::span<std::byte> const memory = scratch(sizeof(own) * (size() + 1));
    std::memcpy(memory.data(), own.data(), sizeof(own));
    auto queued =
        state_->queue->submit("over", "ncclAllGather", [&](ncclComm_t comm, cudaStream_t stream) {
          return ncclAllGather(memory.data(), &memory[sizeof(own)], sizeof(own), ncclUint8, comm,
                               stream);
        });
    if (!queued) { return queued; }
    if (auto done = state_->queue->drain("over"); !done) { return done; }
    auto differing = detail::dissent_on_words(memory.subspan(sizeof(own)), size());
    if (!differing) { return {}; }
    return comm_failure::different_options("over", names[differing->word],
                                           std::move(differing->ranks));
  }

  [[nodiscard]] result<void> verify(collective_call call,
                                    std::span<std::size_t const> send_bytes = {},
                                    std::span<std::size_t const> receive_bytes = {})
  {
    if (!state_->options.verify) { return {}; }
    if (auto can = state_->queue->can_wait(call.name()); !can) { return can; }
    return state_->comparison(*state_->queue, call, send_bytes, receive_bytes);
  }

  std::unique_ptr<state> state_;
};

}  // namespace ballast::inline v0
