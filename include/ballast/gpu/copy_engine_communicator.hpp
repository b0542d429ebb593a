// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_COPY_ENGINE_COMMUNICATOR_HPP
#define BALLAST_GPU_COPY_ENGINE_COMMUNICATOR_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/comm/thread_meeting.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/gpu/copy_engine_options.hpp>
#include <ballast/gpu/detail/aligned_scratch.hpp>
#include <ballast/gpu/detail/copy_engine_member.hpp>
#include <ballast/gpu/detail/copy_engine_ranks.hpp>
#include <ballast/gpu/nvtx_range.hpp>
#include <ballast/gpu/pinned_allocator.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

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
    expect_gather_sizes(send.size(), receive.size(), size());
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
    expect_counts(send_bytes.size(), receive_bytes.size(), size());
    expect_exchange_sizes(send.size(), std::reduce(send_bytes.begin(), send_bytes.end()),
                          receive.size(), std::reduce(receive_bytes.begin(), receive_bytes.end()));
    auto& offsets = state_->receive_offsets;
    std::exclusive_scan(receive_bytes.begin(), receive_bytes.end(), offsets.begin(),
                        std::size_t{0});
    return member().exchange(
        {{collective::all_to_all_v, 0, {}, content}, send, send_bytes, receive_bytes},
        [&](std::size_t peer) {
          return pull{group().offers().message(peer, member().rank),
                      receive.data() + offsets[peer]};
        },
        [&](std::size_t peer) { return send_bytes[peer]; });
  }

  [[nodiscard]] result<void> broadcast(std::span<std::byte> bytes, rank_id root)
  {
    nvtx_range const range("ballast::broadcast");
    expect_root(root, size());
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

#endif  // BALLAST_GPU_COPY_ENGINE_COMMUNICATOR_HPP
