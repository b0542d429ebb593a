// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/thread_meeting.hpp>
#include <ballast/core.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

#include <set>

namespace ballast::inline v0 {

/// How a copy_engine_communicator behaves.
struct copy_engine_options {
  /// How long a rank waits for the others to make the same call, and how long each wait for a
  /// stream may take; above zero.
  std::chrono::milliseconds deadline = default_deadline;
  /// Ask CUDA to copy by the copy engines, which leaves the multiprocessors to kernels. Within one
  /// GPU a copy engine is several times slower than they are: set it to false where no kernel runs
  /// at the same time.
  bool beside_kernels = true;
};

namespace detail {

/// A rank as its peers see it: a stream, and two events that show how far it is in an exchange.
///
/// There are two events so that no rank's copies wait for another's copies. They serve every group
/// that the rank is in. If a peer waits late, when the rank has begun an exchange in another group
/// already, the event is recorded further along the same stream: after all that the peer must wait
/// for.
struct copy_engine_rank {
  cudaStream_t stream;
  cuda_event ready;  ///< its arrays hold what it sends
  cuda_event taken;  ///< it has copied what its peers sent, so they may change their arrays
};

using copy_engine_ranks = std::vector<std::shared_ptr<copy_engine_rank const>>;

/// Makes a device the current one until the end of the scope, then the earlier one again.
class current_device {
 public:
  current_device() noexcept : known_(cudaGetDevice(&before_) == cudaSuccess) {}
  current_device& operator=(current_device&&) = delete;
  ~current_device()
  {
    if (known_) { (void)cudaSetDevice(before_); }
  }

  [[nodiscard]] result<void> set(int device) const
  {
    auto const code = cudaSetDevice(device);
    return code == cudaSuccess ? result<void>() : cuda_failure("cudaSetDevice", code);
  }

 private:
  int before_ = 0;
  bool known_;
};

/// Lets each device reach the others' memory if it can. If it cannot, or has mapped as many peers
/// as a device may, CUDA copies through the host.
[[nodiscard]] inline result<void> enable_peer_access(std::set<int> const& devices)
{
  current_device const current;
  for (int const device : devices) {
    for (int const peer : devices) {
      if (device == peer) { continue; }
      int can = 0;
      if (auto const code = cudaDeviceCanAccessPeer(&can, device, peer); code != cudaSuccess) {
        return cuda_failure("cudaDeviceCanAccessPeer", code);
      }
      if (can == 0) { continue; }
      if (auto set = current.set(device); !set) { return set; }
      auto const code = cudaDeviceEnablePeerAccess(peer, 0);
      if (code == cudaErrorPeerAccessAlreadyEnabled || code == cudaErrorTooManyPeers) {
        (void)cudaGetLastError();  // not an error
      } else if (code != cudaSuccess) {
        return cuda_failure("cudaDeviceEnablePeerAccess", code);
      }
    }
  }
  return {};
}

/// Makes a rank for each stream, in order, and enables peer access between their devices.
[[nodiscard]] inline result<copy_engine_ranks> make_copy_engine_ranks(
    std::span<cudaStream_t const> streams)
{
  current_device const current;
  copy_engine_ranks ranks;
  std::set<int> devices;
  for (cudaStream_t const stream : streams) {
    int device = 0;
    if (auto const code = cudaStreamGetDevice(stream, &device); code != cudaSuccess) {
      return cuda_failure("cudaStreamGetDevice", code);
    }
    if (auto set = current.set(device); !set) { return tl::unexpected(std::move(set).error()); }
    auto ready = cuda_event::make();
    if (!ready) { return tl::unexpected(std::move(ready).error()); }
    auto taken = cuda_event::make();
    if (!taken) { return tl::unexpected(std::move(taken).error()); }
    ranks.push_back(std::make_shared<copy_engine_rank>(
        copy_engine_rank{stream, *std::move(ready), *std::move(taken)}));
    devices.insert(device);
  }
  return enable_peer_access(devices).map([&] { return std::move(ranks); });
}

/// Copies that join a stream together, and are made in any order.
///
/// A single cudaMemcpyAsync within a GPU is a kernel on its multiprocessors; only a batch can ask
/// for the copy engines, which leave the multiprocessors to kernels. CUDA takes that as a hint.
///
/// Expects     no copy reads or writes what another writes; the stream is not the legacy default.
/// Ensures     nothing is allocated for up to as many copies as it was made for
class copy_engine_batch {
 public:
  explicit copy_engine_batch(std::size_t copies)
  {
    to_.reserve(copies);
    from_.reserve(copies);
    bytes_.reserve(copies);
  }

  void clear() noexcept
  {
    to_.clear();
    from_.clear();
    bytes_.clear();
  }

  /// Adds a copy; an empty one is left out.
  void add(std::span<std::byte const> from, std::byte* to)
  {
    if (from.empty()) { return; }
    to_.push_back(to);
    from_.push_back(from.data());
    bytes_.push_back(from.size());
  }

  [[nodiscard]] cudaError_t submit(cudaStream_t stream, bool beside_kernels)
  {
    if (to_.empty()) { return cudaSuccess; }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags =
        beside_kernels ? cudaMemcpyFlagPreferOverlapWithCompute : cudaMemcpyFlagDefault;
    std::size_t first = 0;  // the copy from which on the attributes hold
    return cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), to_.size(), &attributes,
                                &first, 1, stream);
  }

 private:
  std::vector<void*> to_;
  std::vector<void const*> from_;
  std::vector<std::size_t> bytes_;
};

/// What a rank copies from a peer, and to where.
struct copy_engine_pull {
  std::span<std::byte const> from;
  std::byte* to;
};

/// One rank of a group whose hosts meet and whose streams wait for each other. `Group` is how they
/// meet, and how they reach each other's memory: a thread_meeting, or a process_meeting.
///
/// An exchange of rank r, with p for each of its peers:
///
///   (a) r's stream records ready[r], after the work that writes what r sends; of processes it
///       first copies that to memory which peers reach, unless it lies there
///   (b) the hosts meet and compare their calls
///   (c) r's stream waits for ready[p], copies from p, and records taken[r]
///   (d) the hosts continue once all have done (c)
///   (e) r's stream waits for taken[p], so that what r queues next may change what it has sent
///
/// p records ready[p] again only after (d), when all waits for it have been queued; and taken[p]
/// only after the next meeting, which r joins after its (e). So the host orders records and waits,
/// and never waits for the GPU.
///
/// Ensures     (1) in (c) and (e) a stream waits only for peers with which it exchanges bytes
///             (2) a failure of CUDA ends the exchange after (e), or before (b); then the rank
///                 leaves the group
template <class Group>
class copy_engine_member {
 public:
  copy_engine_member(std::shared_ptr<Group> meeting, std::size_t self, copy_engine_ranks members,
                     copy_engine_options settings)
      : group(std::move(meeting)),
        rank(self),
        ranks(std::move(members)),
        options(settings),
        batch_(ranks.size())
  {}
  copy_engine_member& operator=(copy_engine_member&&) = delete;

  /// Leaves the group, and waits for running copies, at most until the deadline. A process waits
  /// first, since it closes what its copies read.
  ~copy_engine_member()
  {
    if constexpr (requires { group->end(ranks, true); }) {
      group->end(ranks, quiesce() == cudaSuccess);
    } else {
      group->leave(rank);
      (void)quiesce();
    }
  }

  [[nodiscard]] cudaStream_t stream() const noexcept { return ranks[rank]->stream; }

  /// incoming(peer) returns what to copy from the peer, and is called while all offers are there;
  /// outgoing(peer) returns how many bytes the peer copies from here.
  template <class Incoming, class Outgoing>
  [[nodiscard]] result<void> exchange(call_offers::rank_offer offer, Incoming incoming,
                                      Outgoing outgoing)
  {
    if (!health_) { return tl::unexpected(health_.error()); }
    pending_ = true;
    if (auto staged = stage(offer); !staged) {
      return break_off(tl::unexpected(std::move(staged).error()));
    }
    if (auto const code = ranks[rank]->ready.record(stream()); code != cudaSuccess) {
      return break_off(cuda_failure("cudaEventRecord", code));
    }
    result<void> done;
    if (auto met = meet(offer, [&] { done = take(incoming); }); !met) { return met; }
    for (std::size_t peer = 0; peer < ranks.size(); ++peer) {
      if (peer == rank || outgoing(peer) == 0) { continue; }
      note(done, "cudaStreamWaitEvent", ranks[peer]->taken.hold_up(stream()));
    }
    return done ? done : break_off(tl::unexpected(std::move(done).error()));
  }

  /// One turn of the group, as thread_meeting::meet.
  template <class Take>
  [[nodiscard]] result<void> meet(call_offers::rank_offer const& offer, Take take_part)
  {
    if (!health_) { return tl::unexpected(health_.error()); }
    auto met = group->meet(rank, offer, take_part);
    if (!met && met.error().code != error_code::mismatch) { health_ = tl::unexpected(met.error()); }
    return met;
  }

  /// Waits until the stream is empty, if there was an exchange since it was last found empty: also
  /// after a failure, since running copies cannot be cancelled.
  [[nodiscard]] result<void> drain(std::string_view operation)
  {
    cudaError_t const state = quiesce();
    if (!health_) { return tl::unexpected(health_.error()); }
    if (state == cudaSuccess) { return {}; }
    return break_off(state == cudaErrorNotReady
                         ? comm_failure::timed_out(operation, options.deadline, {})
                         : cuda_failure("cudaStreamQuery", state));
  }

  /// As drain(), but without breaking the communicator; returns the last state of the stream.
  [[nodiscard]] cudaError_t quiesce()
  {
    cudaError_t state = cudaSuccess;
    if (!pending_) { return state; }
    (void)poll(options.deadline, [&] {
      state = state_of(stream());
      return state != cudaErrorNotReady;
    });
    pending_ = state == cudaErrorNotReady;
    return state;
  }

  std::shared_ptr<Group> const group;
  std::size_t const rank;
  copy_engine_ranks ranks;
  copy_engine_options const options;

 private:
  /// Of several calls of CUDA the first failure stands; the later calls are made nevertheless.
  static void note(result<void>& done, std::string_view call, cudaError_t code)
  {
    if (done && code != cudaSuccess) { done = cuda_failure(call, code); }
  }

  /// Queues what brings the bytes to where peers reach them, if they do not lie there.
  [[nodiscard]] result<void> stage(call_offers::rank_offer& offer)
  {
    if constexpr (requires { group->staging_for(offer.send); }) {
      auto const there = group->staging_for(offer.send);
      if (!there) { return tl::unexpected(there.error()); }
      if (*there == nullptr) { return {}; }
      batch_.clear();
      batch_.add(offer.send, *there);
      offer.send = {*there, offer.send.size()};
      return cuda_result("cudaMemcpyBatchAsync", batch_.submit(stream(), options.beside_kernels));
    } else {
      return {};
    }
  }

  template <class Incoming>
  [[nodiscard]] result<void> take(Incoming incoming)
  {
    result<void> done;
    batch_.clear();
    for (std::size_t step = 1; step <= ranks.size(); ++step) {
      // Begins with the next rank: otherwise all would copy from the first rank at the same time.
      std::size_t const peer = (rank + step) % ranks.size();
      copy_engine_pull each = incoming(peer);
      if (each.from.empty()) { continue; }
      if (peer != rank) {
        note(done, "cudaStreamWaitEvent", ranks[peer]->ready.hold_up(stream()));
        if constexpr (requires { group->reach(peer, each.from); }) {
          auto const here = group->reach(peer, each.from);
          if (!here && done) { done = tl::unexpected(here.error()); }
          if (here) { each.from = *here; }
        }
      }
      batch_.add(each.from, each.to);
    }
    if (done) {
      note(done, "cudaMemcpyBatchAsync", batch_.submit(stream(), options.beside_kernels));
    }
    // After a failure too, since some copies may run already.
    note(done, "cudaEventRecord", ranks[rank]->taken.record(stream()));
    return done;
  }

  /// Leaves the group, so that peers fail at their next call and not at the deadline.
  [[nodiscard]] result<void> break_off(tl::unexpected<error> why)
  {
    health_ = why;
    group->leave(rank);
    return why;
  }

  copy_engine_batch batch_;
  bool pending_ = false;  // there was an exchange since the stream was last found empty
  result<void> health_;   // once it is an error, every further call returns it
};

}  // namespace detail

/// A `stream_communicator` whose ranks are threads of one process; with another `Group`, processes:
/// see process_copy_engine_communicator. The GPUs' copy engines move the bytes, so a matrix product
/// that runs at the same time keeps all multiprocessors.
///
/// Each rank has a stream: of a GPU of its own, or several ranks share a GPU. In a call the threads
/// meet and compare sizes; then each rank's stream waits until its peers' data is ready, and copies
/// its part; then each stream waits until its peers have copied theirs. The threads wait for each
/// other and never for a GPU. They cannot meet in a CUDA graph, so calls must not be captured.
///
/// Streams are borrowed. scratch() is memory of `Allocator`, which all GPUs must reach. Needs CUDA
/// 13.0. Destroying a rank's communicator waits as wait() does, and leaves the group.
///
/// Expects     what `communicator` expects, with arrays in memory that all GPUs of the group reach:
///             allocated by CUDA, not pageable host memory. Streams are not the legacy default one,
///             outlive this object, and are not being captured. One thread at a time uses a rank's
///             communicator and those split from it.
/// Ensures     (1) operations and all sizes are compared on every call, before a byte moves
///             (2) work that is queued on a rank's stream after a call finds the received bytes,
///                 and may change the sent ones
///             (3) in the steady state nothing is allocated and no event is created; ranks that
///                 exchange no bytes do not wait for each other's streams
/// Errors      mismatch; peer_lost. timed_out: with `ranks` if threads did not make the call,
///             without if a stream did not finish. transport: CUDA failed on this rank, and its
///             peers get peer_lost from their next call. Copies cannot be cancelled: also after a
///             failure wait() first waits for those that run, and if it is timed_out arrays may
///             still be in use. std::bad_alloc: peers may still copy this rank's arrays, which must
///             stay valid until all ranks have returned from the call.
/// Complexity  per call and rank O(P) calls of CUDA; the last rank compares P^2 counts.
/// Source      the idea of StepCCL: Zhang et al., "DistTrain", 2024, arXiv:2408.04275.
template <class Allocator = pinned_allocator<std::byte>, class Group = thread_meeting>
  requires std::same_as<typename std::allocator_traits<Allocator>::value_type, std::byte>
class copy_engine_communicator {
 public:
  /// Returns a communicator for each rank of a new group, in the order of the streams; give each to
  /// its thread. Enables peer access between GPUs that have it, for good.
  [[nodiscard]] static result<std::vector<copy_engine_communicator>> make(
      std::span<cudaStream_t const> streams, copy_engine_options options = {},
      Allocator const& allocator = Allocator())
    requires std::constructible_from<Group, std::size_t, std::chrono::milliseconds>
  {
    BALLAST_EXPECTS(!streams.empty(), "there are no streams, one for each rank");
    for (std::size_t rank = 0; rank < streams.size(); ++rank) {
      expect_usable(streams[rank], to_id<rank_id>(rank), options);
    }
    return detail::make_copy_engine_ranks(streams).map([&](detail::copy_engine_ranks const& ranks) {
      auto const group = std::make_shared<Group>(ranks.size(), options.deadline);
      std::vector<copy_engine_communicator> communicators;
      communicators.reserve(ranks.size());
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        communicators.push_back(copy_engine_communicator(group, rank, ranks, options, allocator));
      }
      return communicators;
    });
  }

  /// Makes this process a rank of a new group, of all ranks of `host`: see
  /// process_copy_engine_communicator.
  template <class Host>
    requires std::constructible_from<Group, Host>
  [[nodiscard]] static result<copy_engine_communicator> join(
      Host host, cudaStream_t stream, copy_engine_options options = {},
      Allocator const& allocator = Allocator())
  {
    expect_usable(stream, host.rank(), options);
    return Group::join(std::move(host), stream).map([&](auto&& all) {
      std::size_t const rank = all.group->rank();
      return copy_engine_communicator(std::move(all.group), rank, std::move(all.ranks), options,
                                      allocator);
    });
  }

  [[nodiscard]] rank_id rank() const noexcept { return to_id<rank_id>(member().rank); }
  [[nodiscard]] std::size_t size() const noexcept { return member().ranks.size(); }
  [[nodiscard]] cudaStream_t stream() const noexcept { return member().stream(); }

  [[nodiscard]] result<void> all_gather(std::span<std::byte const> send,
                                        std::span<std::byte> receive)
  {
    nvtx_range const range("ballast::all_gather");
    collective_call::expect_gather(send.size(), receive.size(), size());
    return member().exchange(
        {{collective::all_gather, send.size()}, send},
        [&](std::size_t peer) {
          return pull{group().offers()[peer].send, receive.data() + peer * send.size()};
        },
        [&](std::size_t) { return send.size(); });
  }

  [[nodiscard]] result<void> all_to_all_v(std::span<std::byte const> send,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::byte> receive,
                                          std::span<std::size_t const> receive_bytes,
                                          std::uint64_t content = 0)
  {
    nvtx_range const range("ballast::all_to_all_v");
    collective_call::expect_exchange(send.size(), send_bytes, receive.size(), receive_bytes,
                                     size());
    auto& offsets = state_->receive_offsets;
    std::exclusive_scan(receive_bytes.begin(), receive_bytes.end(), offsets.begin(),
                        std::size_t{0});
    return member().exchange(
        {{collective::all_to_all_v, 0, rank_id{}, content}, send, send_bytes, receive_bytes},
        [&](std::size_t peer) {
          return pull{group().offers().message(peer, member().rank),
                      receive.data() + offsets[peer]};
        },
        [&](std::size_t peer) { return send_bytes[peer]; });
  }

  [[nodiscard]] result<void> broadcast(std::span<std::byte> bytes, rank_id root)
  {
    nvtx_range const range("ballast::broadcast");
    collective_call::expect_root(root, size());
    bool const sends = root == rank();
    return member().exchange(
        {{collective::broadcast, bytes.size(), root}, sends ? bytes : std::span<std::byte>()},
        [&](std::size_t peer) {
          bool const has_it = !sends && peer == to_index(root);
          return has_it ? pull{group().offers()[peer].send, bytes.data()} : pull{};
        },
        [&](std::size_t) { return sends ? bytes.size() : 0; });
  }

  /// Waits as wait() does, then for the others.
  [[nodiscard]] result<void> barrier()
  {
    auto done = member().drain("barrier");
    return done ? member().meet({{collective::barrier}}, [] {}) : done;
  }

  /// The new group has the same streams; if it breaks, the old one does not.
  [[nodiscard]] result<copy_engine_communicator> split(std::uint32_t colour)
  {
    result<typename Group::place> place;
    detail::copy_engine_ranks ranks;
    auto const take_place = [&] {
      for (std::size_t peer = 0; peer < size(); ++peer) {
        if (group().offers()[peer].colour == colour) { ranks.push_back(member().ranks[peer]); }
      }
      place = group().place_in_part(member().rank);
    };
    if (auto met = member().meet({{collective::split}, {}, {}, {}, colour}, take_place); !met) {
      return tl::unexpected(std::move(met).error());
    }
    return std::move(place).map([&](auto&& mine) {
      return copy_engine_communicator(std::move(mine.group), mine.rank, std::move(ranks),
                                      member().options, state_->scratch.get_allocator());
    });
  }

  /// Of processes: device memory that peers reach, which lives as long as this communicator. What
  /// is sent from there is copied once; what is sent from elsewhere is first copied to such memory.
  [[nodiscard]] result<std::span<std::byte>> lend(std::size_t bytes)
    requires requires(Group& processes) { processes.lend(bytes); }
  {
    return group().lend(bytes);
  }

  /// Waits until the stream is empty, if there was a call since it was last found empty.
  [[nodiscard]] result<void> wait() { return member().drain("wait"); }

  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    return state_->scratch.take(bytes, [this] { (void)member().quiesce(); });
  }

 private:
  using pull = detail::copy_engine_pull;
  using member_type = detail::copy_engine_member<Group>;

  struct state {
    std::vector<std::size_t> receive_offsets;
    detail::aligned_scratch<Allocator> scratch;
    // Last, since its destructor waits for what uses the memory above.
    member_type member;
  };

  static void expect_usable(cudaStream_t stream, rank_id rank, copy_engine_options const& options)
  {
    detail::expect_deadline(options.deadline);
    BALLAST_EXPECTS(stream != nullptr && stream != cudaStreamLegacy, "the stream of rank ", rank,
                    " is the legacy default stream; give each rank one of its own");
  }

  copy_engine_communicator(std::shared_ptr<Group> group, std::size_t rank,
                           detail::copy_engine_ranks ranks, copy_engine_options options,
                           Allocator const& allocator)
      : state_(new state{std::vector<std::size_t>(ranks.size()),
                         detail::aligned_scratch<Allocator>(allocator),
                         {std::move(group), rank, std::move(ranks), options}})
  {}

  [[nodiscard]] member_type& member() const noexcept { return state_->member; }
  [[nodiscard]] Group& group() const noexcept { return *member().group; }

  std::unique_ptr<state> state_;
};

}  // namespace ballast::inline v0
