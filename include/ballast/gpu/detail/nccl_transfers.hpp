// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_NCCL_TRANSFERS_HPP
#define BALLAST_GPU_DETAIL_NCCL_TRANSFERS_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/gpu/detail/cuda_event.hpp>
#include <ballast/gpu/detail/nccl_queue.hpp>

#include <cuda_runtime_api.h>  // cudaError_t

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The transfers of a rank over NCCL. Those begun between two starts are one group on the stream,
/// and an event behind it tells when all of them are done.
///
/// Expects     the same queue in every call, and what nccl_queue expects.
/// Ensures     (1) no call but wait_for waits for the stream; the first start() to a rank waits
///                 until NCCL has connected, at most until the deadline if NCCL is not blocking
///             (2) nothing is allocated, and no event created, where there were as many transfers
///                 and groups before
/// Errors      those of nccl_queue, without `ranks`: which rank holds up a stream NCCL does not
///             say.
class nccl_transfers {
 public:
  [[nodiscard]] result<transfer_id> send(nccl_queue const& queue, std::span<std::byte const> bytes,
                                         std::size_t peer)
  {
    return note(queue, {true, peer, bytes, {}});
  }

  [[nodiscard]] result<transfer_id> receive(nccl_queue const& queue, std::span<std::byte> bytes,
                                            std::size_t peer)
  {
    return note(queue, {false, peer, {}, bytes});
  }

  [[nodiscard]] result<void> start(nccl_queue& queue)
  {
    if (noted_.empty()) { return queue.state(); }
    auto const group = unused_group();
    if (!group) { return queue.give_up(tl::unexpected(group.error())); }
    auto queued = queue.group("start", [&](nccl_calls& calls) {
      for (std::size_t const index : noted_) {
        transfer const& each = all_[index];
        each.sends ? calls.send(each.from, each.peer) : calls.receive(each.to, each.peer);
      }
    });
    if (!queued) { return queued; }
    auto& [reached, under_way] = groups_[*group];
    if (auto const code = reached.record(queue.stream()); code != cudaSuccess) {
      return queue.give_up("cudaEventRecord", code);
    }
    under_way = noted_.size();
    for (std::size_t const index : noted_) {
      all_[index].now = state::queued;
      all_[index].group = *group;
    }
    noted_.clear();
    return {};
  }

  [[nodiscard]] result<bool> is_done(nccl_queue& queue, transfer_id id)
  {
    if (auto const sound = queue.state(); !sound) { return tl::unexpected(sound.error()); }
    transfer const& own = at(id);
    if (own.now != state::queued) { return false; }
    cudaError_t const reached = groups_[own.group].reached.state();
    if (reached == cudaErrorNotReady) { return false; }
    if (reached != cudaSuccess) { return queue.give_up("cudaEventQuery", reached); }
    return true;
  }

  [[nodiscard]] result<void> wait_for(nccl_queue& queue, transfer_id id)
  {
    transfer const& own = at(id);
    if (auto const sound = queue.state(); !sound) { return sound; }
    BALLAST_EXPECTS(own.now == state::queued, "transfer ", to_index(id),
                    " is waited for before it was started");
    cuda_event const& reached = groups_[own.group].reached;
    auto done = queue.await(own.sends ? "send" : "receive", [&] { return reached.state(); });
    if (done) { end(id); }
    return done;
  }

  /// After a failure NCCL has been aborted, so that no array is in use.
  [[nodiscard]] bool cancel(nccl_queue& queue, transfer_id id)
  {
    bool const is_noted = at(id).now == state::noted;
    auto const done = is_done(queue, id);
    if (is_noted) { std::erase(noted_, to_index(id)); }
    end(id);
    return is_noted || !done || *done;
  }

 private:
  enum class state { unused, noted, queued };

  struct transfer {
    bool sends = false;
    std::size_t peer = 0;
    std::span<std::byte const> from;
    std::span<std::byte> to;
    state now = state::unused;
    std::size_t group = 0;
  };

  /// The transfers of one start.
  struct started {
    cuda_event reached;
    std::size_t under_way = 0;
  };

  [[nodiscard]] transfer& at(transfer_id id)
  {
    BALLAST_EXPECTS(to_index(id) < all_.size() && all_[to_index(id)].now != state::unused,
                    "transfer ", to_index(id), " is not under way");
    return all_[to_index(id)];
  }

  [[nodiscard]] result<transfer_id> note(nccl_queue const& queue, transfer own)
  {
    if (auto const sound = queue.state(); !sound) { return tl::unexpected(sound.error()); }
    if (unused_.empty()) {
      unused_.reserve(all_.size() + 1);  // for all to end, which must not allocate
      noted_.reserve(all_.size() + 1);
      all_.emplace_back();
      unused_.push_back(all_.size() - 1);
    }
    std::size_t const index = unused_.back();
    unused_.pop_back();
    own.now = state::noted;
    all_[index] = own;
    noted_.push_back(index);
    return to_id<transfer_id>(index);
  }

  [[nodiscard]] result<std::size_t> unused_group()
  {
    auto const unused = std::find_if(groups_.begin(), groups_.end(),
                                     [](started const& each) { return each.under_way == 0; });
    if (unused != groups_.end()) { return static_cast<std::size_t>(unused - groups_.begin()); }
    auto event = cuda_event::make();
    if (!event) { return tl::unexpected(std::move(event).error()); }
    groups_.push_back({*std::move(event), 0});
    return groups_.size() - 1;
  }

  void end(transfer_id id)
  {
    transfer& own = at(id);
    if (own.now == state::queued) { --groups_[own.group].under_way; }
    own.now = state::unused;
    unused_.push_back(to_index(id));
  }

  std::vector<transfer> all_;
  std::vector<std::size_t> unused_;  // places among them
  std::vector<std::size_t> noted_;   // likewise, since the last start
  std::vector<started> groups_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_NCCL_TRANSFERS_HPP
