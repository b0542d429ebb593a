// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_GPU_DETAIL_COPY_ENGINE_RANKS_HPP
#define BALLAST_GPU_DETAIL_COPY_ENGINE_RANKS_HPP

#include <ballast/core/result.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/detail/cuda_event.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t, cudaStreamGetDevice, cudaDeviceEnablePeerAccess

#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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
  current_device(current_device const&) = delete;
  current_device& operator=(current_device const&) = delete;
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_GPU_DETAIL_COPY_ENGINE_RANKS_HPP
