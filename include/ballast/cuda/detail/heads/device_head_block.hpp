// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_HEADS_DEVICE_HEAD_BLOCK_HPP
#define BALLAST_CUDA_DETAIL_HEADS_DEVICE_HEAD_BLOCK_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/ulysses_tables.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// A block as kernels read it.
struct device_head_block {
  head_block block;
  std::size_t shared_after = 0;  ///< bytes of the share's last head if the next GPU has it too
};

/// The blocks between one GPU and its peers, peer by peer and array by array.
struct head_blocks {
  ulysses_tables tables;
  std::uint32_t gpu = 0;
  std::uint32_t arrays = 0;
  block_side side = block_side::own_tokens;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t count() const
  {
    return tables.split.gpus * arrays;
  }
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t peer_of(std::uint32_t index) const
  {
    return index / arrays;
  }

  /// Block `index` of count(), at offset 0. Of the arrays only their shapes are read.
  [[nodiscard]] BALLAST_HOST_DEVICE device_head_block make(device_heads const& heads,
                                                           std::uint32_t index) const
  {
    std::uint32_t const peer = peer_of(index);
    bool const own_tokens = side == block_side::own_tokens;
    tokens const rows = tables.rows(own_tokens ? gpu : peer);
    std::uint32_t const of_heads = own_tokens ? peer : gpu;
    head_shape const shape = heads[index % arrays].shape;
    bool const is_shared =
        of_heads + 1 < tables.split.gpus && tables.split.shared(of_heads + 1, shape.heads) > 0;
    return {block_of(tables.split, rows, of_heads, shape), is_shared ? shape.head_bytes : 0};
  }

  /// The bytes that block `index` takes in messages.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t room(std::uint32_t index,
                                                               head_block const& block) const
  {
    return peer_of(index) == gpu ? 0 : block.room();
  }
};

/// Writes the zeros after a block that lies in messages.
BALLAST_HOST_DEVICE inline void write_padding(head_block const& block, std::byte* messages)
{
  for (std::size_t at = block.bytes(); at < block.room(); ++at) {
    messages[block.offset + at] = std::byte{0};
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_HEADS_DEVICE_HEAD_BLOCK_HPP
