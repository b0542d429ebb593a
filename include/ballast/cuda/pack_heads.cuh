// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_PACK_HEADS_CUH
#define BALLAST_CUDA_PACK_HEADS_CUH

#include <ballast/core/contract.hpp>
#include <ballast/cuda/copy_batch.cuh>
#include <ballast/cuda/detail/heads/device_head_block.hpp>
#include <ballast/cuda/detail/heads/head_sums.hpp>
#include <ballast/cuda/detail/heads/ulysses_blocks.cuh>
#include <ballast/cuda/detail/heads/ulysses_lists.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/ulysses_tables.hpp>
#include <ballast/gpu/nvtx_range.hpp>
#include <ballast/route/pack_rows.hpp>
#include <ballast/text/detail/counted.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

namespace detail {

/// Finds the blocks of the messages, makes the copies of a list over them, then calls after(list),
/// which may queue more.
template <class List, class Bytes, class After>
[[nodiscard]] cudaError_t copy_heads(void* temporary, std::size_t& temporary_bytes,
                                     ulysses_tables const& tables, std::uint32_t gpu,
                                     device_heads const& heads, Bytes* messages, std::byte* padded,
                                     After const& after, cudaStream_t stream)
{
  BALLAST_EXPECTS(gpu < tables.split.gpus, "GPU ", gpu, " of a bag of ", tables.split.gpus);
  BALLAST_EXPECTS(reinterpret_cast<std::uintptr_t>(messages) % message_alignment == 0,
                  "the messages do not begin at a multiple of ", message_alignment, " bytes");
  temporary_storage storage(temporary);
  head_blocks const all{tables, gpu, heads.size(), List::side};
  auto* const blocks = storage.take<device_head_block>(all.count());
  List const list{{all, blocks}, messages};
  std::size_t copy_bytes = 0;
  if (auto const error = copy_batch(nullptr, copy_bytes, list, list.count(), stream);
      error != cudaSuccess) {
    return error;
  }
  auto* const scratch = storage.take<std::byte>(copy_bytes);
  if (storage.is_only_asking()) {
    temporary_bytes = storage.bytes();
    return cudaSuccess;
  }
  if (temporary_bytes < storage.bytes()) { return cudaErrorInvalidValue; }
  if (all.count() == 0) { return cudaSuccess; }
  if (auto const error = queue_head_blocks(all, heads, blocks, padded, stream);
      error != cudaSuccess) {
    return error;
  }
  if (auto const error = copy_batch(scratch, copy_bytes, list, list.count(), stream);
      error != cudaSuccess) {
    return error;
  }
  return after(list);
}

inline constexpr auto nothing_after = [](auto const&) { return cudaSuccess; };

}  // namespace detail

/// Copies a GPU's tokens into messages on a stream, for each peer with the peer's heads: the same
/// bytes that pack_to_heads() of the host makes.
///
///     pack_to_heads(temporary, bytes, heads.tables(), gpu, device_heads(arrays), messages, stream)
///
/// Shapes      messages: message_bytes(plan, gpu, peer, arrays) for each peer in order, none for
///             the GPU itself.
/// In, out     without memory (temporary == nullptr) only temporary_bytes is written, as CUB does:
///             it depends on the bound of the tables and the number of arrays alone
/// Expects     tables whose upload is queued already; arrays with the sizes of to_heads(), and
///             messages that are aligned to message_alignment, in memory that the stream's device
///             reaches; no `to` overlaps another of these. That device is the current one.
/// Ensures     (1) the bytes after a block, up to a multiple of message_alignment, are zero
///             (2) a captured graph packs by the lengths that the tables have at each replay
/// Errors      CUDA's own; cudaErrorInvalidValue if temporary_bytes is too small.
/// Complexity  one block of threads that finds where the blocks of messages begin, and a copy_batch
///             of one copy per GPU and array; each byte is read and written once.
[[nodiscard]] inline cudaError_t pack_to_heads(void* temporary, std::size_t& temporary_bytes,
                                               ulysses_tables const& tables, std::uint32_t gpu,
                                               device_heads const& heads, std::byte* messages,
                                               cudaStream_t stream)
{
  nvtx_range const range("ballast::pack_to_heads");
  return detail::copy_heads<detail::packed_for_heads>(temporary, temporary_bytes, tables, gpu,
                                                      heads, messages, messages,
                                                      detail::nothing_after, stream);
}

/// Copies the messages of pack_to_heads, and what stays on the GPU, into whole sequences with the
/// GPU's heads.
///
/// Shapes      messages: message_bytes(plan, peer, gpu, arrays) from each peer in order.
/// Complexity  a copy_batch of one copy per GPU, array and sequence.
/// The rest is as for pack_to_heads.
[[nodiscard]] inline cudaError_t unpack_to_heads(void* temporary, std::size_t& temporary_bytes,
                                                 ulysses_tables const& tables, std::uint32_t gpu,
                                                 device_heads const& heads,
                                                 std::byte const* messages, cudaStream_t stream)
{
  nvtx_range const range("ballast::unpack_to_heads");
  return detail::copy_heads<detail::unpacked_to_heads>(temporary, temporary_bytes, tables, gpu,
                                                       heads, messages, nullptr,
                                                       detail::nothing_after, stream);
}

/// Copies whole sequences with the GPU's heads into messages, for each peer the peer's tokens.
///
/// Shapes      messages: message_bytes(plan, peer, gpu, arrays) for each peer in order.
/// Expects     arrays with the sizes of to_tokens().
/// The rest is as for unpack_to_heads, and Ensures (1) and (2) as for pack_to_heads.
[[nodiscard]] inline cudaError_t pack_to_tokens(void* temporary, std::size_t& temporary_bytes,
                                                ulysses_tables const& tables, std::uint32_t gpu,
                                                device_heads const& heads, std::byte* messages,
                                                cudaStream_t stream)
{
  nvtx_range const range("ballast::pack_to_tokens");
  return detail::copy_heads<detail::packed_for_tokens>(temporary, temporary_bytes, tables, gpu,
                                                       heads, messages, messages,
                                                       detail::nothing_after, stream);
}

/// Copies the messages of pack_to_tokens, and what stays on the GPU, into the GPU's tokens with all
/// heads; a head that several GPUs have is summed in the order of the GPUs.
///
/// Shapes      messages: message_bytes(plan, gpu, peer, arrays) from each peer in order.
/// Expects     if some head of an array is on several GPUs, an element_type that is not `other`.
/// Ensures     sums have the same bits as on the host, with any flags of nvcc; only a NaN may be
///             another NaN
/// Complexity  a copy_batch of one copy per GPU and array, and per array and sequence. If heads are
///             on several GPUs one more kernel, which reads each copy of a head beyond the first
///             once, and each sum once more.
/// The rest is as for unpack_to_heads.
[[nodiscard]] inline cudaError_t unpack_to_tokens(void* temporary, std::size_t& temporary_bytes,
                                                  ulysses_tables const& tables, std::uint32_t gpu,
                                                  device_heads const& heads,
                                                  std::byte const* messages, cudaStream_t stream)
{
  nvtx_range const range("ballast::unpack_to_tokens");
  bool shares = false;
  for (std::uint32_t index = 0; index < heads.size(); ++index) {
    if (!tables.split.replicates(heads[index].shape.heads)) { continue; }
    // Without memory the call only asks for sizes, perhaps for an exchange to heads, which adds
    // nothing.
    BALLAST_EXPECTS(temporary == nullptr || heads[index].element != element_type::other,
                    "several GPUs have the same of the ",
                    detail::counted(heads[index].shape.heads, "head"), " of array ", index,
                    ", and its elements cannot be added");
    shares = true;
  }
  return detail::copy_heads<detail::unpacked_to_tokens>(
      temporary, temporary_bytes, tables, gpu, heads, messages, nullptr,
      [&](detail::unpacked_to_tokens const& list) {
        return shares ? detail::queue_head_sums(detail::head_sums{list}, stream) : cudaSuccess;
      },
      stream);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_PACK_HEADS_CUH
