// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_HEADS_ULYSSES_BLOCKS_CUH
#define BALLAST_CUDA_DETAIL_HEADS_ULYSSES_BLOCKS_CUH

#include <ballast/cuda/detail/device_attribute.hpp>
#include <ballast/cuda/detail/heads/device_head_block.hpp>
#include <ballast/cuda/detail/heads/head_sums.hpp>
#include <ballast/cuda/device_heads.hpp>

#include <cuda_runtime.h>
#include <cub/block/block_scan.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// Finds all blocks of the messages, which lie one after the other, with one block of threads, and
/// writes the zeros after each into `padded` unless that is null.
template <int threads>
__global__ void __launch_bounds__(threads)
    find_head_blocks(__grid_constant__ head_blocks const all,
                     __grid_constant__ device_heads const heads, device_head_block* blocks,
                     std::byte* padded)
{
  using block_scan = cub::BlockScan<std::size_t, threads>;
  __shared__ typename block_scan::TempStorage storage;
  std::size_t before = 0;
  for (std::uint32_t first = 0; first < all.count(); first += threads) {
    std::uint32_t const index = first + threadIdx.x;
    bool const is_there = index < all.count();
    device_head_block own = is_there ? all.make(heads, index) : device_head_block{};
    std::size_t const room = is_there ? all.room(index, own.block) : 0;
    std::size_t offset = 0;
    std::size_t taken = 0;
    block_scan(storage).ExclusiveSum(room, offset, taken);
    if (is_there) {
      own.block.offset = before + offset;
      blocks[index] = own;
    }
    if (padded != nullptr && room > 0) { write_padding(own.block, padded); }
    before += taken;
    __syncthreads();  // before the next scan takes the storage
  }
}

[[nodiscard]] inline cudaError_t queue_head_blocks(head_blocks const& all,
                                                   device_heads const& heads,
                                                   device_head_block* blocks, std::byte* padded,
                                                   cudaStream_t stream)
{
  constexpr int threads = 256;
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(1);
  launch.blockDim = dim3(threads);
  launch.stream = stream;
  return cudaLaunchKernelEx(&launch, find_head_blocks<threads>, all, heads, blocks, padded);
}

/// Adds up the head whose sum begins at block `index`. A Word has the size of a T.
template <class T, class Word>
__device__ void add_head(head_sums const& sums, std::uint32_t index)
{
  std::uint32_t const thread = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t const threads = gridDim.x * blockDim.x;
  if (sums.is_wide(index)) {
    sums.add_strided<T, uint4>(index, thread, threads);
  } else {
    sums.add_strided<T, Word>(index, thread, threads);
  }
}

/// Adds up all heads that several GPUs have. Each line (y) of blocks of threads takes some blocks
/// of the messages; at most of them no sum begins. With four blocks on a multiprocessor every
/// thread has the registers that it needs.
template <int threads>
__global__ void __launch_bounds__(threads, 4) add_heads(__grid_constant__ head_sums const sums)
{
  for (std::uint32_t index = blockIdx.y; index < sums.all.count(); index += gridDim.y) {
    if (!sums.begins_at(index)) { continue; }
    switch (sums.blocks[index].element) {
      case element_type::fp16: add_head<__half, std::uint16_t>(sums, index); break;
      case element_type::bf16: add_head<__nv_bfloat16, std::uint16_t>(sums, index); break;
      case element_type::fp32: add_head<float, std::uint32_t>(sums, index); break;
      case element_type::fp64: add_head<double, std::uint64_t>(sums, index); break;
      case element_type::other: break;  // unpack_to_tokens refuses it
    }
  }
}

[[nodiscard]] inline cudaError_t queue_head_sums(head_sums const& sums, cudaStream_t stream)
{
  int multiprocessors = 0;
  if (auto const error = device_attribute(multiprocessors, cudaDevAttrMultiProcessorCount);
      error != cudaSuccess) {
    return error;
  }
  constexpr int threads = 256;
  constexpr std::uint32_t most_lines = 65535;  // of a grid
  cudaLaunchConfig_t launch{};
  launch.gridDim =
      dim3(static_cast<unsigned>(multiprocessors) * 2, std::min(sums.all.count(), most_lines));
  launch.blockDim = dim3(threads);
  launch.stream = stream;
  return cudaLaunchKernelEx(&launch, add_heads<threads>, sums);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_HEADS_ULYSSES_BLOCKS_CUH
