// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_PACK_ROWS_CUH
#define BALLAST_CUDA_PACK_ROWS_CUH

#include <ballast/core/quantities.hpp>
#include <ballast/cuda/copy_batch.cuh>
#include <ballast/cuda/detail/copy/row_copies.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/row_tables.hpp>
#include <ballast/gpu/nvtx_range.hpp>

#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

namespace detail {

/// Finds where each peer's message begins: one block of threads, `Peers` peers at a time.
template <int Peers>
__global__ void __launch_bounds__(Peers)
    find_message_blocks(__grid_constant__ message_blocks const blocks)
{
  using block_scan = cub::BlockScan<peer_sums, Peers>;
  __shared__ typename block_scan::TempStorage storage;
  auto const plus = [](peer_sums const& one, peer_sums const& other) { return one + other; };
  peer_sums before;
  for (std::uint32_t first = 0; first < blocks.table.ranks; first += Peers) {
    std::uint32_t const peer = first + threadIdx.x;
    bool const is_there = peer < blocks.table.ranks;
    peer_sums own = is_there ? blocks.of(peer) : peer_sums{};
    peer_sums all;
    block_scan(storage).ExclusiveScan(own, own, peer_sums{}, plus, all);
    if (is_there) { blocks.write(peer, before + own); }
    before = before + all;
    __syncthreads();  // before the next scan takes the storage
  }
}

/// Finds the places of all pieces of the messages, then makes the copies of the list
/// copies_of(pieces).
template <class CopiesOf>
[[nodiscard]] cudaError_t copy_messages(void* temporary, std::size_t& temporary_bytes,
                                        device_ranges const& table, device_rows const& rows,
                                        std::byte* padded, CopiesOf const& copies_of,
                                        cudaStream_t stream)
{
  temporary_storage storage(temporary);
  auto* const rows_before = storage.take<tokens>(table.bound);
  auto* const origins = storage.take<std::size_t>(std::size_t{table.ranks} * rows.count);
  message_pieces const pieces{table, rows, rows_before, origins};
  auto const copies = copies_of(pieces);
  thrust::transform_iterator const counts(thrust::counting_iterator<std::uint32_t>(0),
                                          rows_of_range{table});
  std::size_t scan_bytes = 0;
  std::size_t copy_bytes = 0;
  if (auto const error = cub::DeviceScan::ExclusiveSum(nullptr, scan_bytes, counts, rows_before,
                                                       table.bound, stream);
      error != cudaSuccess) {
    return error;
  }
  if (auto const error = copy_batch(nullptr, copy_bytes, copies, pieces.count(), stream);
      error != cudaSuccess) {
    return error;
  }
  // The copies use the scan's storage, since they run after it.
  auto* const scratch = storage.take<std::byte>(std::max(scan_bytes, copy_bytes));
  if (storage.is_only_asking()) {
    temporary_bytes = storage.bytes();
    return cudaSuccess;
  }
  if (temporary_bytes < storage.bytes()) { return cudaErrorInvalidValue; }
  if (pieces.count() == 0) { return cudaSuccess; }
  if (auto const error = cub::DeviceScan::ExclusiveSum(scratch, scan_bytes, counts, rows_before,
                                                       table.bound, stream);
      error != cudaSuccess) {
    return error;
  }
  constexpr int peers_at_once = 256;
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(1);
  launch.blockDim = dim3(peers_at_once);
  launch.stream = stream;
  if (auto const error = cudaLaunchKernelEx(&launch, find_message_blocks<peers_at_once>,
                                            message_blocks{table, rows, origins, padded});
      error != cudaSuccess) {
    return error;
  }
  return copy_batch(scratch, copy_bytes, copies, pieces.count(), stream);
}

}  // namespace detail

/// Copies the rows that leave into messages on a stream: the same bytes that pack_rows() of the
/// host makes from the same plan.
///
///     pack_rows(temporary, bytes, there.sent(), device_rows(arrays), messages, stream)
///
/// Shapes      messages: the sum of message_bytes().
/// In, out     without memory (temporary == nullptr) only temporary_bytes is written, as CUB does:
///             it depends on the table's bound and the number of arrays alone
/// Expects     a table whose upload is queued already; arrays and messages that do not overlap, in
///             memory that the stream's device reaches; that device is the current one.
/// Ensures     (1) the bytes after a block, up to a multiple of message_alignment, are zero
///             (2) a captured graph packs by the table as it is at each replay
/// Errors      CUDA's own; cudaErrorInvalidValue if temporary_bytes is too small.
/// Complexity  one scan of the ranges' rows, one block of threads that finds where the peers'
///             messages begin, and a copy_batch of `bound` copies per array; each byte is read and
///             written once.
[[nodiscard]] inline cudaError_t pack_rows(void* temporary, std::size_t& temporary_bytes,
                                           device_ranges const& table, device_rows const& rows,
                                           std::byte* messages, cudaStream_t stream)
{
  nvtx_range const range("ballast::pack_rows");
  return detail::copy_messages(
      temporary, temporary_bytes, table, rows, messages,
      [messages](detail::message_pieces const& pieces) {
        return detail::pack_copies{pieces, messages};
      },
      stream);
}

/// Copies messages into the rows that they are for: the inverse of pack_rows(), with the same
/// contract.
[[nodiscard]] inline cudaError_t unpack_rows(void* temporary, std::size_t& temporary_bytes,
                                             device_ranges const& table, device_rows const& rows,
                                             std::byte const* messages, cudaStream_t stream)
{
  nvtx_range const range("ballast::unpack_rows");
  return detail::copy_messages(
      temporary, temporary_bytes, table, rows, nullptr,
      [messages](detail::message_pieces const& pieces) {
        return detail::unpack_copies{pieces, messages};
      },
      stream);
}

/// Copies the rows that stay on their rank to their new places or, with `reverse`, back. It needs
/// no more temporary storage than pack_rows() with the same bound and arrays.
[[nodiscard]] inline cudaError_t keep_rows(void* temporary, std::size_t& temporary_bytes,
                                           device_kept const& table, device_rows const& rows,
                                           bool reverse, cudaStream_t stream)
{
  nvtx_range const range("ballast::keep_rows");
  detail::keep_copies const copies{table, rows, reverse};
  return copy_batch(temporary, temporary_bytes, copies, copies.count(), stream);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_PACK_ROWS_CUH
