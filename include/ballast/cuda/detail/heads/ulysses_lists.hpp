// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_HEADS_ULYSSES_LISTS_HPP
#define BALLAST_CUDA_DETAIL_HEADS_ULYSSES_LISTS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/cuda/detail/heads/device_head_block.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/strided_copy.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// What the lists of copies of the four functions of route/ulysses.hpp have in common.
/// blocks[all.count()] are the blocks of `all` with their offsets. `messages`, in the lists, is
/// what the function reads or writes.
struct head_copies {
  head_blocks all;
  device_head_block const* blocks = nullptr;
  device_heads heads;

  [[nodiscard]] BALLAST_HOST_DEVICE device_heads::array const& array_of(std::uint32_t block) const
  {
    return heads[block % all.arrays];
  }

  /// Writes one thread's part of the zeros behind the blocks that lie in messages.
  BALLAST_HOST_DEVICE void write_zeros(std::byte* messages, std::uint32_t thread,
                                       std::uint32_t threads) const
  {
    for (std::uint32_t index = thread; index < all.count(); index += threads) {
      if (all.peer_of(index) != all.gpu) { write_padding(blocks[index].block, messages); }
    }
  }
};

/// pack_to_heads: the GPU's tokens with each peer's heads, a copy for each block.
struct packed_for_heads : head_copies {
  static constexpr block_side side = block_side::own_tokens;
  std::byte* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const { return all.count(); }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    head_block const& block = blocks[index].block;
    if (block.is_empty() || all.peer_of(index) == all.gpu) { return {}; }
    return {array_of(index).from + block.first,
            messages + block.offset,
            block.row,
            block.run,
            block.run,
            static_cast<std::size_t>(block.rows)};
  }

  BALLAST_HOST_DEVICE void make_rest(std::uint32_t thread, std::uint32_t threads) const
  {
    write_zeros(messages, thread, threads);
  }
};

/// unpack_to_heads: each peer's tokens with the GPU's heads, a copy for each block and sequence;
/// those of the GPU itself come last.
struct unpacked_to_heads : head_copies {
  static constexpr block_side side = block_side::own_heads;
  std::byte const* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const
  {
    return all.count() * all.tables.sequences;
  }
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t from_messages() const
  {
    return (all.count() - all.arrays) * all.tables.sequences;
  }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    bool const stays = index >= from_messages();
    std::uint32_t const place = (stays ? index - from_messages() : index) / all.tables.sequences;
    std::uint32_t const own = all.gpu * all.arrays;  // the first block of the GPU itself
    std::uint32_t const at = stays ? own + place : place < own ? place : place + all.arrays;
    head_block const& block = blocks[at].block;
    if (block.is_empty()) { return {}; }
    std::uint32_t const peer = all.peer_of(at);
    bag_chunk const part = all.tables.part(peer, index % all.tables.sequences);
    std::byte const* const from = stays ? array_of(at).from + block.first : messages + block.offset;
    std::size_t const stride = stays ? block.row : block.run;
    return {from + static_cast<std::size_t>(part.own_row) * stride,
            array_of(at).to + static_cast<std::size_t>(part.row) * block.run,
            stride,
            block.run,
            block.run,
            static_cast<std::size_t>(part.count)};
  }
};

/// pack_to_tokens: each peer's tokens with the GPU's heads, a copy for each block and sequence.
struct packed_for_tokens : head_copies {
  static constexpr bool contiguous = true;
  static constexpr block_side side = block_side::own_heads;
  std::byte* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const
  {
    return all.count() * all.tables.sequences;
  }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    std::uint32_t const at = index / all.tables.sequences;
    head_block const& block = blocks[at].block;
    if (block.is_empty() || all.peer_of(at) == all.gpu) { return {}; }
    bag_chunk const part = all.tables.part(all.peer_of(at), index % all.tables.sequences);
    return strided_copy::contiguous(
        array_of(at).from + static_cast<std::size_t>(part.row) * block.run,
        messages + block.offset + static_cast<std::size_t>(part.own_row) * block.run,
        static_cast<std::size_t>(part.count) * block.run);
  }

  BALLAST_HOST_DEVICE void make_rest(std::uint32_t thread, std::uint32_t threads) const
  {
    write_zeros(messages, thread, threads);
  }
};

/// unpack_to_tokens: the GPU's tokens with each peer's heads, a copy for each block, and then a
/// copy for each array and sequence of what stays. Heads that several GPUs have are left out:
/// head_sums adds them.
struct unpacked_to_tokens : head_copies {
  static constexpr block_side side = block_side::own_tokens;
  std::byte const* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const
  {
    return from_messages() + all.arrays * all.tables.sequences;
  }
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t from_messages() const { return all.count(); }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    bool const is_block = index < from_messages();
    std::uint32_t const piece = is_block ? 0 : index - from_messages();
    std::uint32_t const at = is_block ? index : all.gpu * all.arrays + piece / all.tables.sequences;
    head_block const& block = blocks[at].block;
    if (block.is_empty() || (is_block && all.peer_of(at) == all.gpu)) { return {}; }
    bag_chunk const part = is_block ? bag_chunk{0, 0, block.rows}
                                    : all.tables.part(all.gpu, piece % all.tables.sequences);
    std::size_t const left_out = block.shared + blocks[at].shared_after;
    if (left_out >= block.run) { return {}; }
    std::byte const* const from =
        is_block ? messages + block.offset
                 : array_of(at).from + static_cast<std::size_t>(part.row) * block.run;
    return {from + block.shared,
            array_of(at).to + block.first + static_cast<std::size_t>(part.own_row) * block.row +
                block.shared,
            block.run,
            block.row,
            block.run - left_out,
            static_cast<std::size_t>(part.count)};
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_HEADS_ULYSSES_LISTS_HPP
