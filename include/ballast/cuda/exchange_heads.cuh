// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_EXCHANGE_HEADS_CUH
#define BALLAST_CUDA_EXCHANGE_HEADS_CUH

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cuda/detail/device_messages.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/device_ulysses.cuh>
#include <ballast/cuda/pack_heads.cuh>
#include <ballast/cuda/ulysses_tables.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/nvtx_range.hpp>
#include <ballast/gpu/stream_communicator.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/pack_heads.hpp>
#include <ballast/route/ulysses_exchange.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// Queues copies of heads on a stream.
class device_head_mover : public device_messages {
 public:
  device_head_mover(ulysses_tables const& tables, std::uint32_t gpu, head_direction direction,
                    std::span<head_array const> arrays, std::span<std::byte> temporary,
                    cudaStream_t stream)
      : device_messages(temporary),
        tables_(tables),
        gpu_(gpu),
        to_heads_(direction == head_direction::to_heads),
        arrays_(arrays),
        heads_(arrays),
        stream_(stream)
  {}

  [[nodiscard]] result<void> pack(std::span<std::byte> outgoing) const
  {
    std::size_t bytes = storage().size();
    return to_heads_
               ? cuda_result("pack_to_heads", pack_to_heads(storage().data(), bytes, tables_, gpu_,
                                                            heads_, outgoing.data(), stream_))
               : cuda_result("pack_to_tokens",
                             pack_to_tokens(storage().data(), bytes, tables_, gpu_, heads_,
                                            outgoing.data(), stream_));
  }

  [[nodiscard]] result<void> keep() const { return {}; }

  [[nodiscard]] result<void> unpack(std::span<std::byte const> incoming) const
  {
    std::size_t bytes = storage().size();
    return to_heads_ ? cuda_result("unpack_to_heads",
                                   unpack_to_heads(storage().data(), bytes, tables_, gpu_, heads_,
                                                   incoming.data(), stream_))
                     : cuda_result("unpack_to_tokens",
                                   unpack_to_tokens(storage().data(), bytes, tables_, gpu_, heads_,
                                                    incoming.data(), stream_));
  }

  [[nodiscard]] result<void> copy() const
  {
    for (head_array const& array : arrays_) {
      if (array.to.data() == array.from.data() || array.to.empty()) { continue; }
      auto const code = cudaMemcpyAsync(array.to.data(), array.from.data(), array.to.size(),
                                        cudaMemcpyDefault, stream_);
      if (code != cudaSuccess) { return cuda_failure("cudaMemcpyAsync", code); }
    }
    return {};
  }

 private:
  ulysses_tables tables_;
  std::uint32_t gpu_;
  bool to_heads_;
  std::span<head_array const> arrays_;
  device_heads heads_;
  cudaStream_t stream_;
};

template <stream_communicator C>
[[nodiscard]] result<void> exchange_on_device(C& bag, device_ulysses& plan,
                                              head_direction direction,
                                              std::span<head_array const> arrays,
                                              std::span<std::byte> temporary)
{
  auto const gpu = static_cast<std::uint32_t>(to_index(bag.rank()));
  return exchange_heads(
      bag, plan.plan(), direction, arrays, plan.memory(),
      device_head_mover(plan.tables(), gpu, direction, arrays, temporary, bag.stream()));
}

}  // namespace detail

/// Returns the bytes of temporary device memory that are enough for to_heads() and to_tokens() on a
/// GPU of the bag, with the plan staged last and with every plan that gives no GPU more rows.
///
/// Errors      transport, if CUDA finds no device.
template <std::same_as<head_array>... Arrays>
[[nodiscard]] result<std::size_t> exchange_bytes(device_ulysses const& plan, std::uint32_t gpu,
                                                 Arrays const&... arrays)
{
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  ulysses_tables const tables = plan.tables();
  device_heads const heads(all);
  std::size_t there = 0;
  std::size_t back = 0;
  // One of these has the longest list of copies: which one depends on the numbers of GPUs and
  // sequences.
  if (auto const code = unpack_to_heads(nullptr, there, tables, gpu, heads, nullptr, nullptr);
      code != cudaSuccess) {
    return cuda_failure("unpack_to_heads", code);
  }
  if (auto const code = unpack_to_tokens(nullptr, back, tables, gpu, heads, nullptr, nullptr);
      code != cudaSuccess) {
    return cuda_failure("unpack_to_tokens", code);
  }
  std::size_t messages = 0;
  for (std::uint32_t peer = 0; peer < plan.bound().gpus; ++peer) {
    if (peer == gpu) { continue; }
    messages += message_bytes(plan.plan(), gpu, peer, all);
    messages += message_bytes(plan.plan(), peer, gpu, all);
  }
  return messages + std::max(there, back) + detail::temporary_storage::alignment;
}

/// Before attention, on the bag's stream, without waiting: as to_heads() of the host, with arrays
/// in device memory.
///
///     heads.stage(plan);
///     heads.upload(bag.stream());
///     to_heads(bag, heads, temporary, heads_of(q, q_whole, 32, 128),
///              heads_of(k, k_whole, 8, 128), heads_of(v, v_whole, 8, 128))
///
/// Collective; some GPUs may call this one, and others to_heads() of the host.
///
/// Shapes      each array: from[plan.rows(gpu)][heads][dim], to[plan.rows()][share][dim], by the
///             plan staged last; temporary[exchange_bytes()].
/// Expects     bag.size() == plan.gpus(), and the upload is queued already. The stream's device is
///             the current one, and reaches arrays and temporary, which nothing else uses until the
///             stream has done the exchange. No `to` overlaps another array, nor its own `from`
///             except in a bag of one. At most device_heads::most arrays.
/// Ensures     (1) when the stream has done it, `to` is what to_heads() of the host makes it
///             (2) it waits for nothing but what the communicator's all_to_all_v waits for
///             (3) the steady state allocates nothing
/// Errors      those of the communicator's all_to_all_v; transport with CUDA's code and text. Then
///             `to` is unspecified. bag.wait() reports later failures.
/// Complexity  that of pack_to_heads() and unpack_to_heads(), one after the other.
template <stream_communicator C, std::same_as<head_array>... Arrays>
[[nodiscard]] result<void> to_heads(C& bag, device_ulysses& plan, std::span<std::byte> temporary,
                                    Arrays const&... arrays)
{
  nvtx_range const range("ballast::to_heads");
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_on_device(bag, plan, detail::head_direction::to_heads, all, temporary);
}

/// After attention, and the gradient of to_heads(): what to_tokens() of the host does.
///
/// Shapes      each array: from[plan.rows()][share][dim], to[plan.rows(gpu)][heads][dim].
/// Expects     if several GPUs have the same head, an element_type that is not `other`.
/// Ensures     sums are those of unpack_to_tokens().
/// The rest is as for to_heads().
template <stream_communicator C, std::same_as<head_array>... Arrays>
[[nodiscard]] result<void> to_tokens(C& bag, device_ulysses& plan, std::span<std::byte> temporary,
                                     Arrays const&... arrays)
{
  nvtx_range const range("ballast::to_tokens");
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_on_device(bag, plan, detail::head_direction::to_tokens, all, temporary);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_EXCHANGE_HEADS_CUH
