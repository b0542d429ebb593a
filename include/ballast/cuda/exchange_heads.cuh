// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/device_messages.hpp>
#include <ballast/cuda/prepared_heads.cuh>

#include <cuda_runtime.h>

namespace ballast::inline v0 {

namespace detail {

/// Queues copies of heads on a stream.
class device_head_mover : public device_mover<prepared_heads, device_heads> {
 public:
  device_head_mover(prepared_heads const& ready, head_direction direction,
                    std::span<head_array const> arrays, std::span<std::byte> temporary,
                    cudaStream_t stream)
      : device_mover(ready, direction == head_direction::to_heads, device_heads(arrays), temporary,
                     stream),
        whole_(arrays),
        stream_(stream)
  {}

  [[nodiscard]] result<void> copy() const
  {
    for (head_array const& array : whole_) {
      if (array.to.data() == array.from.data() || array.to.empty()) { continue; }
      auto const code = cudaMemcpyAsync(array.to.data(), array.from.data(), array.to.size(),
                                        cudaMemcpyDefault, stream_);
      if (code != cudaSuccess) { return cuda_failure("cudaMemcpyAsync", code); }
    }
    return {};
  }

 private:
  std::span<head_array const> whole_;
  cudaStream_t stream_;
};

template <stream_communicator C>
[[nodiscard]] result<void> exchange_on_device(C& bag, prepared_heads const& ready,
                                              head_direction direction,
                                              std::span<head_array const> arrays,
                                              std::span<std::byte> temporary)
{
  return exchange_heads(bag, ready.there().plan(), direction, arrays, ready.there().memory(),
                        device_head_mover(ready, direction, arrays, temporary, bag.stream()));
}

}  // namespace detail

/// Returns the bytes of temporary device memory that are enough for the messages of to_heads() and
/// to_tokens() on a GPU of the bag, with the plan staged last and with every plan that gives no GPU
/// more rows.
template <std::same_as<head_array>... Arrays>
[[nodiscard]] std::size_t exchange_bytes(staged<ulysses_plan> const& there, std::uint32_t gpu,
                                         Arrays const&... arrays)
{
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  std::size_t messages = detail::temporary_storage::alignment;
  for (std::uint32_t peer = 0; peer < there.bound().gpus; ++peer) {
    if (peer == gpu) { continue; }
    messages += there.plan().message_bytes(gpu, peer, all);
    messages += there.plan().message_bytes(peer, gpu, all);
  }
  return messages;
}

/// Before attention, on the bag's stream, without waiting: as to_heads() of the host, with arrays
/// in device memory.
///
///     heads.stage(plan);  // every step
///     heads.upload(bag.stream());
///     ready.prepare(bag.stream());
///     to_heads(bag, ready, temporary,  // every layer
///              heads_of(q, q_whole, 32, 128),
///              heads_of(k, k_whole, 8, 128), heads_of(v, v_whole, 8, 128))
///
/// Shapes      each array: from[plan.rows(gpu)][heads][dim], to[plan.rows()][share][dim], by the
///             plan staged last; temporary[exchange_bytes()].
/// Expects     bag.size() == plan.gpus(), and the plan is prepared for arrays of these shapes. In a
///             bag of one a `to` may be its own `from`.
/// Ensures     (1) when the stream has done it, `to` is what to_heads() of the host makes it
/// The rest is as for route() of arrays in device memory (route_rows.cuh).
template <stream_communicator C, std::same_as<head_array>... Arrays>
[[nodiscard]] result<void> to_heads(C& bag, prepared_heads const& ready,
                                    std::span<std::byte> temporary, Arrays const&... arrays)
{
  nvtx_range const range("ballast::to_heads");
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_on_device(bag, ready, detail::head_direction::to_heads, all, temporary);
}

/// After attention, and the gradient of to_heads(): what to_tokens() of the host does.
///
/// Shapes      each array: from[plan.rows()][share][dim], to[plan.rows(gpu)][heads][dim].
/// Expects     if several GPUs have the same head, an element_type that is not `other`.
/// Ensures     sums are those of prepared_heads::unpack().
/// The rest is as for to_heads().
template <stream_communicator C, std::same_as<head_array>... Arrays>
[[nodiscard]] result<void> to_tokens(C& bag, prepared_heads const& ready,
                                     std::span<std::byte> temporary, Arrays const&... arrays)
{
  nvtx_range const range("ballast::to_tokens");
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_on_device(bag, ready, detail::head_direction::to_tokens, all, temporary);
}

}  // namespace ballast::inline v0
