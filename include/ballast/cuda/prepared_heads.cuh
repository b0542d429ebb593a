// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/head_copies.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/detail/tiles.cuh>
#include <ballast/cuda/device_ulysses.cuh>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime.h>
#include <cub/block/block_scan.cuh>

namespace ballast::inline v0 {

namespace detail {

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

}  // namespace detail

/// Ulysses exchanges of arrays of some shapes on one GPU of a bag, ready to run: where every head
/// lies in messages, how the copies are cut into tiles, and of which row of the bag each row of the
/// GPU is. All that depends on the plan and the shapes is found once, by prepare(); then each of the
/// four functions, in every layer, is one kernel.
///
///     prepared_heads ready(heads, gpu, device_heads(arrays), memory);
///     ready.prepare(stream);                    // every step, after the plan's upload
///     ready.pack_to_heads(qkv, messages, stream);  // every layer, with other arrays of the shapes
///
/// The functions make the bytes of the host's functions of their names. A graph can hold all of it:
/// it moves rows by the plan that was staged when it is replayed.
///
/// Shapes      device[device_bytes()], of any alignment. Arrays have the sizes of to_heads() or
///             to_tokens(). Messages that leave: message_bytes() for each peer in order, none for
///             the GPU itself; messages that come: from each peer in order.
/// Expects     the GPU is one of the bag; `plan`, device memory and a side stream that outlive this
///             object; arrays of as many heads and bytes as the shapes, and messages that are aligned to
///             message_alignment, in memory that the stream's device reaches; no `to` overlaps
///             another of these. That device is the current one. Work of one object is queued on one
///             stream, or in the order of events.
///             unpack_to_tokens: if some head of an array is on several GPUs, an element_type that
///             is not `other`.
/// Ensures     (1) the bytes after a block, up to a multiple of message_alignment, are zero
///             (2) unpacking includes what stays on the GPU
///             (3) a head that several GPUs have is summed in the order of the GPUs, with the same
///                 bits as on the host and any flags of nvcc; only a NaN may be another NaN
///             (4) nothing is allocated, and nothing waits
/// Errors      CUDA's own; prepare: cudaErrorInvalidValue if there are too few bytes.
/// Complexity  prepare: a block of threads that finds where the blocks of messages begin, twice, and
///             four scans. Copies: one per GPU and array to pack for heads and to unpack to tokens,
///             and one per sequence more of what stays; one per GPU, array and sequence otherwise.
///             Each byte is read and written once.
class prepared_heads {
 public:
  /// Writes how much device memory is enough for the plan staged last and for every plan that gives
  /// the GPU no more rows.
  [[nodiscard]] static cudaError_t device_bytes(device_ulysses& plan, std::uint32_t gpu,
                                                device_heads const& shapes, std::size_t& bytes)
  {
    prepared_heads const of(plan, gpu, shapes, {});
    parts at = of.cut();
    std::size_t scan_bytes = 0;
    auto const error = of.find_all_tiles(at, nullptr, scan_bytes, cudaStream_t{});
    (void)at.storage.take<std::byte>(scan_bytes);
    bytes = at.storage.bytes();
    return error;
  }

  /// With a side stream, heads that stay are copied while messages travel.
  prepared_heads(device_ulysses& plan, std::uint32_t gpu, device_heads const& shapes,
                 std::span<std::byte> device, side_stream const* side = nullptr)
      : plan_(plan), gpu_(gpu), shapes_(shapes), device_(device), side_(side)
  {
    BALLAST_EXPECTS(gpu < plan.bound().gpus, "GPU ", gpu, " of a bag of ", plan.bound().gpus);
    for (std::uint32_t index = 0; index < shapes.size(); ++index) {
      if (plan.bound().split().replicates(shapes[index].shape.heads)) { adds_ = true; }
    }
    bag_rows_ = rows_now();
  }

  /// Finds all that depends on the plan, when the stream reaches it; call it after the plan's
  /// upload.
  ///
  /// Expects     the plan gives the GPU no more rows than the plan at construction, if some head is
  ///             on several GPUs.
  [[nodiscard]] cudaError_t prepare(cudaStream_t stream) const
  {
    nvtx_range const range("ballast::prepared_heads::prepare");
    BALLAST_EXPECTS(rows_now() <= bag_rows_, "the plan gives the GPU ", rows_now(),
                    " rows, and the exchange was made for ", bag_rows_);
    parts at = cut();
    std::size_t scan_bytes = 0;
    if (auto const error = find_all_tiles(at, nullptr, scan_bytes, stream); error != cudaSuccess) {
      return error;
    }
    auto* const scan = at.storage.take<std::byte>(scan_bytes);
    if (at.storage.is_only_asking() || device_.size() < at.storage.bytes()) {
      return cudaErrorInvalidValue;
    }
    for (auto const side : {detail::block_side::own_tokens, detail::block_side::own_heads}) {
      if (shapes_.size() == 0) { break; }
      if (auto const error =
              detail::queue_head_blocks(blocks_of(side), shapes_, at.blocks(side), stream);
          error != cudaSuccess) {
        return error;
      }
    }
    if (auto const error =
            detail::queue_bag_rows(plan_.tables(), gpu_, {at.bag_rows, bag_rows_}, stream);
        error != cudaSuccess) {
      return error;
    }
    return find_all_tiles(at, scan, scan_bytes, stream);
  }

  /// Copies the GPU's tokens into messages, for each peer with the peer's heads.
  [[nodiscard]] cudaError_t pack_to_heads(device_heads const& heads, std::byte* messages,
                                          cudaStream_t stream) const
  {
    nvtx_range const range("ballast::prepared_heads::pack_to_heads");
    parts const at = checked(heads, messages);
    detail::packed_for_heads const list{copies<detail::packed_for_heads>(at, heads), messages};
    return detail::run_copies(list, at.for_heads, stream);
  }

  /// Copies those messages, and what stays on the GPU, into whole sequences with the GPU's heads, or
  /// one of both.
  [[nodiscard]] cudaError_t unpack_to_heads(device_heads const& heads, std::byte const* messages,
                                            cudaStream_t stream,
                                            unpack_part part = unpack_part::all) const
  {
    nvtx_range const range("ballast::prepared_heads::unpack_to_heads");
    parts const at = checked(heads, messages);
    detail::unpacked_to_heads const list{copies<detail::unpacked_to_heads>(at, heads), messages};
    return detail::run_part(list, at.to_heads, part, stream);
  }

  /// Copies whole sequences with the GPU's heads into messages, for each peer the peer's tokens.
  [[nodiscard]] cudaError_t pack_to_tokens(device_heads const& heads, std::byte* messages,
                                           cudaStream_t stream) const
  {
    nvtx_range const range("ballast::prepared_heads::pack_to_tokens");
    parts const at = checked(heads, messages);
    detail::packed_for_tokens const list{copies<detail::packed_for_tokens>(at, heads), messages};
    return detail::run_copies(list, at.for_tokens, stream);
  }

  /// Copies those messages, and what stays on the GPU, into the GPU's tokens with all heads, or one
  /// of both, and with the messages sums the heads that several GPUs have.
  [[nodiscard]] cudaError_t unpack_to_tokens(device_heads const& heads, std::byte const* messages,
                                             cudaStream_t stream,
                                             unpack_part part = unpack_part::all) const
  {
    nvtx_range const range("ballast::prepared_heads::unpack_to_tokens");
    for (std::uint32_t index = 0; adds_ && index < heads.size(); ++index) {
      std::uint32_t const count = heads[index].shape.heads;
      BALLAST_EXPECTS(
          heads[index].element != element_type::other || !plan_.bound().split().replicates(count),
          "several GPUs have the same of the ", detail::counted(count, "head"), " of array ", index,
          ", and its elements cannot be added");
    }
    parts const at = checked(heads, messages);
    detail::head_sums const list{{copies<detail::head_sums>(at, heads), messages},
                                 adds_ && part != unpack_part::kept ? at.bag_rows : nullptr};
    return detail::run_part(list, at.to_tokens, part, stream);
  }

  [[nodiscard]] device_ulysses& plan() const noexcept { return plan_; }
  [[nodiscard]] side_stream const* beside() const noexcept { return side_; }

 private:
  /// The arrays in the device's memory.
  struct parts {
    explicit parts(std::byte* device) : storage(device) {}

    detail::temporary_storage storage;
    detail::device_head_block* own_tokens = nullptr;
    detail::device_head_block* own_heads = nullptr;
    tokens* bag_rows = nullptr;
    detail::copy_tiles for_heads;
    detail::copy_tiles to_heads;
    detail::copy_tiles for_tokens;
    detail::copy_tiles to_tokens;

    [[nodiscard]] detail::device_head_block* blocks(detail::block_side side) const
    {
      return side == detail::block_side::own_tokens ? own_tokens : own_heads;
    }
  };

  [[nodiscard]] parts cut() const
  {
    ulysses_bound const bound = plan_.bound();
    std::uint32_t const blocks = bound.gpus * shapes_.size();
    parts at(device_.data());
    at.own_tokens = at.storage.take<detail::device_head_block>(blocks);
    at.own_heads = at.storage.take<detail::device_head_block>(blocks);
    at.bag_rows = at.storage.take<tokens>(bag_rows_);
    at.for_heads = detail::copy_tiles::in(at.storage, blocks);
    at.to_heads = detail::copy_tiles::in(at.storage, blocks * bound.sequences);
    at.for_tokens = detail::copy_tiles::in(at.storage, blocks * bound.sequences);
    at.to_tokens = detail::copy_tiles::in(at.storage, blocks + shapes_.size() * bound.sequences);
    return at;
  }

  [[nodiscard]] parts checked(device_heads const& heads, std::byte const* messages) const
  {
    BALLAST_EXPECTS(heads.has_shapes_of(shapes_), "the exchange was prepared for ", shapes_.size(),
                    " arrays, and these are not as many of the same shapes; prepare one for them");
    BALLAST_EXPECTS(reinterpret_cast<std::uintptr_t>(messages) % message_alignment == 0,
                    "the messages do not begin at a multiple of ", message_alignment, " bytes");
    return cut();
  }

  [[nodiscard]] detail::head_blocks blocks_of(detail::block_side side) const
  {
    return {plan_.tables(), gpu_, shapes_.size(), side};
  }

  template <class List>
  [[nodiscard]] detail::head_copies copies(parts const& at, device_heads const& heads) const
  {
    return {blocks_of(List::side), at.blocks(List::side), heads};
  }

  /// Queues what finds the tiles of all four lists, or asks for the size of the scans' storage.
  [[nodiscard]] cudaError_t find_all_tiles(parts const& at, std::byte* scan,
                                           std::size_t& scan_bytes, cudaStream_t stream) const
  {
    std::size_t most = 0;
    auto error = cudaSuccess;
    auto const find = [&](auto list, detail::copy_tiles const& tiles) {
      std::size_t bytes = scan_bytes;
      if (error == cudaSuccess) { error = detail::find_tiles(scan, bytes, list, tiles, stream); }
      most = std::max(most, bytes);
    };
    using namespace detail;  // the four lists
    find(packed_for_heads{copies<packed_for_heads>(at, shapes_), nullptr}, at.for_heads);
    find(unpacked_to_heads{copies<unpacked_to_heads>(at, shapes_), nullptr}, at.to_heads);
    find(packed_for_tokens{copies<packed_for_tokens>(at, shapes_), nullptr}, at.for_tokens);
    find(unpacked_to_tokens{copies<unpacked_to_tokens>(at, shapes_), nullptr}, at.to_tokens);
    if (scan == nullptr) { scan_bytes = most; }
    return error;
  }

  /// The rows for which the GPU must know of which row of the bag they are.
  [[nodiscard]] std::size_t rows_now() const
  {
    return adds_ ? static_cast<std::size_t>(plan_.plan().rows(gpu_)) : 0;
  }

  device_ulysses& plan_;
  std::uint32_t gpu_;
  device_heads shapes_;
  std::span<std::byte> device_;
  side_stream const* side_;
  bool adds_ = false;  ///< some head is on several GPUs
  std::size_t bag_rows_ = 0;
};

}  // namespace ballast::inline v0
