// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_COPY_ENGINE_MEMBER_HPP
#define BALLAST_GPU_DETAIL_COPY_ENGINE_MEMBER_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/result.hpp>
#include <ballast/gpu/copy_engine_options.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/detail/copy_engine_ranks.hpp>
#include <ballast/gpu/detail/stream_wait.hpp>

#include <cuda_runtime_api.h>  // cudaMemcpyBatchAsync, cudaStream_t

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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
  copy_engine_member(copy_engine_member const&) = delete;
  copy_engine_member& operator=(copy_engine_member const&) = delete;

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
  [[nodiscard]] result<void> exchange(call_offer offer, Incoming incoming, Outgoing outgoing)
  {
    if (!health_) { return health_; }
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
  [[nodiscard]] result<void> meet(call_offer const& offer, Take take_part)
  {
    if (!health_) { return health_; }
    auto met = group->meet(rank, offer, take_part);
    if (!met && met.error().code != error_code::mismatch) { health_ = met; }
    return met;
  }

  /// Waits until the stream is empty, if there was an exchange since it was last found empty: also
  /// after a failure, since running copies cannot be cancelled.
  [[nodiscard]] result<void> drain(std::string_view operation)
  {
    cudaError_t const state = quiesce();
    if (!health_) { return health_; }
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
  [[nodiscard]] result<void> stage(call_offer& offer)
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
    health_ = std::move(why);
    group->leave(rank);
    return health_;
  }

  copy_engine_batch batch_;
  bool pending_ = false;  // there was an exchange since the stream was last found empty
  result<void> health_;   // once it is an error, every further call returns it
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_COPY_ENGINE_MEMBER_HPP
