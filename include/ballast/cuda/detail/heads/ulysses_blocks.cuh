// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_HEADS_ULYSSES_BLOCKS_CUH
#define BALLAST_CUDA_DETAIL_HEADS_ULYSSES_BLOCKS_CUH

#include <ballast/core/quantities.hpp>
#include <ballast/cuda/detail/heads/device_head_block.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/ulysses_tables.hpp>

#include <cuda_runtime.h>
#include <cub/block/block_scan.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Finds all blocks of the messages, which lie one after the other, with one block of threads.
template <int threads>
__global__ void __launch_bounds__(threads)
    find_head_blocks(__grid_constant__ head_blocks const all,
                     __grid_constant__ device_heads const heads, device_head_block* blocks)
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
    before += taken;
    __syncthreads();  // before the next scan takes the storage
  }
}

/// Finds of which row of the bag each row of a GPU is. It writes no more than `room` rows.
template <int threads>
__global__ void __launch_bounds__(threads)
    find_bag_rows(__grid_constant__ ulysses_tables const tables, std::uint32_t gpu,
                  tokens* bag_rows, tokens room)
{
  tokens const own = tables.rows(gpu);
  tokens const rows = own < room ? own : room;
  for (tokens row = tokens{blockIdx.x} * threads + threadIdx.x; row < rows;
       row += tokens{gridDim.x} * threads) {
    bag_rows[row] = tables.bag_row(gpu, row);
  }
}

[[nodiscard]] inline cudaError_t queue_head_blocks(head_blocks const& all,
                                                   device_heads const& heads,
                                                   device_head_block* blocks, cudaStream_t stream)
{
  constexpr int threads = 256;
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(1);
  launch.blockDim = dim3(threads);
  launch.stream = stream;
  return cudaLaunchKernelEx(&launch, find_head_blocks<threads>, all, heads, blocks);
}

[[nodiscard]] inline cudaError_t queue_bag_rows(ulysses_tables const& tables, std::uint32_t gpu,
                                                std::span<tokens> bag_rows, cudaStream_t stream)
{
  constexpr int threads = 256;
  constexpr std::size_t most_blocks = 1024;
  if (bag_rows.empty()) { return cudaSuccess; }
  cudaLaunchConfig_t launch{};
  launch.gridDim =
      dim3(static_cast<unsigned>(std::min(most_blocks, (bag_rows.size() - 1) / threads + 1)));
  launch.blockDim = dim3(threads);
  launch.stream = stream;
  return cudaLaunchKernelEx(&launch, find_bag_rows<threads>, tables, gpu, bag_rows.data(),
                            static_cast<tokens>(bag_rows.size()));
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_HEADS_ULYSSES_BLOCKS_CUH
