// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/prepared.cuh>

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
  return launch(find_head_blocks<threads>, 1, threads, stream, all, heads, blocks);
}

[[nodiscard]] inline cudaError_t queue_bag_rows(ulysses_tables const& tables, std::uint32_t gpu,
                                                std::span<tokens> bag_rows, cudaStream_t stream)
{
  constexpr int threads = 256;
  constexpr std::size_t most_blocks = 1024;
  if (bag_rows.empty()) { return cudaSuccess; }
  return launch(find_bag_rows<threads>, std::min(most_blocks, (bag_rows.size() - 1) / threads + 1),
                threads, stream, tables, gpu, bag_rows.data(),
                static_cast<tokens>(bag_rows.size()));
}

}  // namespace detail

/// Ulysses exchanges of arrays of some shapes on one GPU of a bag, ready to run: where every head
/// lies in messages, how the copies are cut into tiles, and of which row of the bag each row of the
/// GPU is. All that depends on the plan and the shapes is found once, by prepare(); then every pack()
/// and unpack(), in every layer, to heads and back to tokens, is one kernel.
///
///     prepared_heads ready(heads, gpu, device_heads(arrays), memory);
///     ready.prepare(stream);                    // every step, after the plan's upload
///     ready.pack(true, qkv, messages, stream);  // every layer, with other arrays of the shapes
///
/// They make the bytes of pack_to_heads(), unpack_to_heads(), pack_to_tokens() and unpack_to_tokens()
/// of the host. A graph can hold all of it: it moves rows by the plan that was staged when it is
/// replayed.
///
/// Shapes      device[device_bytes()], of any alignment. Arrays have the sizes of to_heads() or
///             to_tokens(). Messages that leave: message_bytes() for each peer in order, none for
///             the GPU itself; messages that come: from each peer in order.
/// Expects     the GPU is one of the bag; `there`, device memory and a side stream that outlive this
///             object; arrays of as many heads and bytes as the shapes, and messages that are aligned to
///             message_alignment, in memory that the stream's device reaches; no `to` overlaps
///             another of these. That device is the current one. Work of one object is queued on one
///             stream, or in the order of events.
///             unpack to tokens: if some head of an array is on several GPUs, an element_type that
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
class prepared_heads : public detail::prepared<prepared_heads, ulysses_plan, device_heads> {
 public:
  /// Writes how much device memory is enough for the plan staged last and for every plan that gives
  /// the GPU no more rows.
  [[nodiscard]] static cudaError_t device_bytes(staged<ulysses_plan>& there, std::uint32_t gpu,
                                                device_heads const& shapes, std::size_t& bytes)
  {
    return prepared_heads(there, gpu, shapes, {}).find_all(bytes, cudaStream_t{});
  }

  /// With a side stream, heads that stay are copied while messages travel.
  prepared_heads(staged<ulysses_plan>& there, std::uint32_t gpu, device_heads const& shapes,
                 std::span<std::byte> device, side_stream const* side = nullptr)
      : prepared(there, shapes, device, side), gpu_(gpu)
  {
    BALLAST_EXPECTS(gpu < there.bound().gpus, "GPU ", gpu, " of a bag of ", there.bound().gpus);
    for (std::uint32_t index = 0; index < shapes.size(); ++index) {
      if (there.bound().split().replicates(shapes[index].shape.heads)) { adds_ = true; }
    }
    bag_rows_ = rows_now();
  }

  /// Copies the GPU's tokens into messages, for each peer with the peer's heads; or, to tokens, whole
  /// sequences with the GPU's heads, for each peer the peer's tokens.
  [[nodiscard]] cudaError_t pack(bool to_heads, device_heads const& heads, std::byte* messages,
                                 cudaStream_t stream) const
  {
    nvtx_range const range("ballast::prepared_heads::pack");
    using namespace detail;  // the lists
    parts const at = found(heads, messages);
    if (to_heads) {
      packed_for_heads const list{copies<packed_for_heads>(at, heads), messages};
      return run_copies(list, at.for_heads, stream);
    }
    packed_for_tokens const list{copies<packed_for_tokens>(at, heads), messages};
    return run_copies(list, at.for_tokens, stream);
  }

  /// Copies those messages, and what stays on the GPU, into whole sequences with the GPU's heads, or
  /// into the GPU's tokens with all heads; or one of both. To tokens, it sums the heads that several
  /// GPUs have, with the messages.
  [[nodiscard]] cudaError_t unpack(bool to_heads, device_heads const& heads,
                                   std::byte const* messages, cudaStream_t stream,
                                   unpack_part part = unpack_part::all) const
  {
    nvtx_range const range("ballast::prepared_heads::unpack");
    using namespace detail;  // the lists
    if (to_heads) {
      parts const at = found(heads, messages);
      unpacked_to_heads const list{copies<unpacked_to_heads>(at, heads), messages};
      return run_part(list, at.to_heads, part, stream);
    }
    for (std::uint32_t index = 0; adds_ && index < heads.size(); ++index) {
      std::uint32_t const count = heads[index].shape.heads;
      BALLAST_EXPECTS(
          heads[index].element != element_type::other || !there_.bound().split().replicates(count),
          "several GPUs have the same of the ", counted(count, "head"), " of array ", index,
          ", and its elements cannot be added");
    }
    parts const at = found(heads, messages);
    head_sums const list{{copies<head_sums>(at, heads), messages},
                         adds_ && part != unpack_part::kept ? at.bag_rows : nullptr};
    return run_part(list, at.to_tokens, part, stream);
  }

 private:
  friend detail::prepared<prepared_heads, ulysses_plan, device_heads>;

  /// The arrays in the device's memory.
  struct parts {
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

  [[nodiscard]] parts cut(detail::temporary_storage& storage) const
  {
    std::uint32_t const sequences = there_.bound().sequences;
    std::uint32_t const blocks = there_.bound().gpus * shapes_.size();
    auto const tiles = [&](std::uint32_t count) { return detail::copy_tiles::in(storage, count); };
    parts at;
    at.own_tokens = storage.take<detail::device_head_block>(blocks);
    at.own_heads = storage.take<detail::device_head_block>(blocks);
    at.bag_rows = storage.take<tokens>(bag_rows_);
    at.for_heads = tiles(blocks);
    at.to_heads = tiles(blocks * sequences);
    at.for_tokens = tiles(blocks * sequences);
    at.to_tokens = tiles(blocks + shapes_.size() * sequences);
    return at;
  }

  [[nodiscard]] detail::head_blocks blocks_of(detail::block_side side) const
  {
    return {there_.tables(), gpu_, shapes_.size(), side};
  }

  template <class List>
  [[nodiscard]] detail::head_copies copies(parts const& at, device_heads const& heads) const
  {
    return {blocks_of(List::side), at.blocks(List::side), heads};
  }

  /// The plan gives the GPU no more rows than the plan at construction, if some head is on several
  /// GPUs.
  void expect_plan() const
  {
    BALLAST_EXPECTS(rows_now() <= bag_rows_, "the plan gives the GPU ", rows_now(),
                    " rows, and the exchange was made for ", bag_rows_);
  }

  [[nodiscard]] cudaError_t find(parts const& at, detail::scan_storage& scans,
                                 cudaStream_t stream) const
  {
    using namespace detail;  // the four lists
    auto error = cudaSuccess;
    if (scans.memory != nullptr) {
      for (auto const side : {block_side::own_tokens, block_side::own_heads}) {
        if (error != cudaSuccess || shapes_.size() == 0) { break; }
        error = queue_head_blocks(blocks_of(side), shapes_, at.blocks(side), stream);
      }
      if (error == cudaSuccess) {
        error = queue_bag_rows(there_.tables(), gpu_, {at.bag_rows, bag_rows_}, stream);
      }
    }
    auto const find_for = [&](auto list, copy_tiles const& tiles) {
      if (error == cudaSuccess) { error = find_tiles(scans, list, tiles, stream); }
    };
    find_for(packed_for_heads{copies<packed_for_heads>(at, shapes_), nullptr}, at.for_heads);
    find_for(unpacked_to_heads{copies<unpacked_to_heads>(at, shapes_), nullptr}, at.to_heads);
    find_for(packed_for_tokens{copies<packed_for_tokens>(at, shapes_), nullptr}, at.for_tokens);
    find_for(unpacked_to_tokens{copies<unpacked_to_tokens>(at, shapes_), nullptr}, at.to_tokens);
    return error;
  }

  /// The rows for which the GPU must know of which row of the bag they are.
  [[nodiscard]] std::size_t rows_now() const
  {
    return adds_ ? static_cast<std::size_t>(there_.plan().rows(gpu_)) : 0;
  }

  std::uint32_t gpu_;
  bool adds_ = false;  ///< some head is on several GPUs
  std::size_t bag_rows_ = 0;
};

}  // namespace ballast::inline v0
