// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_PACK_HEADS_HPP
#define BALLAST_ROUTE_PACK_HEADS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/head_block.hpp>
#include <ballast/route/ulysses.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace ballast::inline v0 {

/// Returns the bytes of the message between two GPUs that holds the tokens of one with the heads of
/// the other: to the heads' GPU before attention, back to the tokens' GPU after it.
///
/// A message has a block for each array, in the order of the arrays. A block is
/// [rows(of_tokens)][share of of_heads][head_bytes], and zeros up to a multiple of
/// message_alignment.
[[nodiscard]] inline std::size_t message_bytes(ulysses_plan const& plan, std::uint32_t of_tokens,
                                               std::uint32_t of_heads,
                                               std::span<head_array const> arrays)
{
  std::size_t bytes = 0;
  for (head_array const& array : arrays) {
    bytes += block_of(plan.split(), plan.rows(of_tokens), of_heads, array.shape).room();
  }
  return bytes;
}

namespace detail {

enum class block_side { own_tokens, own_heads };

/// Calls visit(peer, head_array, head_block) for every block of the messages between one GPU and
/// its peers, peer by peer and array by array, and for the blocks that stay on the GPU, which take
/// no room in messages.
///
/// The blocks are either the GPU's own tokens with each peer's heads, or each peer's tokens with
/// the GPU's own heads. Each message begins with `head` bytes that are not its own.
template <class Visit>
void walk_blocks(ulysses_plan const& plan, std::uint32_t gpu, block_side side,
                 std::span<head_array const> arrays, std::size_t head, Visit const& visit)
{
  std::size_t offset = 0;
  for (std::uint32_t peer = 0; peer < plan.gpus(); ++peer) {
    std::size_t before = peer == gpu ? 0 : head;
    std::uint32_t const of_tokens = side == block_side::own_tokens ? gpu : peer;
    std::uint32_t const of_heads = side == block_side::own_tokens ? peer : gpu;
    for (head_array const& array : arrays) {
      head_block block = block_of(plan.split(), plan.rows(of_tokens), of_heads, array.shape);
      if (block.is_empty()) { continue; }
      offset += std::exchange(before, 0);
      block.offset = offset;
      visit(peer, array, block);
      if (peer != gpu) { offset += block.room(); }
    }
  }
}

/// Copies `rows` runs of `run` bytes, which may be 0. Runs begin a stride apart.
inline void copy_runs(std::byte* to, std::size_t to_stride, std::byte const* from,
                      std::size_t from_stride, std::size_t run, tokens rows)
{
  auto const count = static_cast<std::size_t>(rows);
  if (run == 0) { return; }
  if (to_stride == run && from_stride == run) {
    std::memcpy(to, from, run * count);
    return;
  }
  for (std::size_t row = 0; row < count; ++row) {
    std::memcpy(to + row * to_stride, from + row * from_stride, run);
  }
}

/// Copies `rows` runs into tokens with all heads; a head that an earlier GPU has too is added to
/// what is there.
inline void place_runs(head_array const& array, head_block const& block, std::byte* to,
                       std::byte const* from, tokens rows)
{
  if (block.shared > 0) {
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      array.add(to + row * block.row, from + row * block.run, block.shared);
    }
  }
  copy_runs(to + block.shared, block.row, from + block.shared, block.run, block.run - block.shared,
            rows);
}

/// Writes the zeros after a block, so that every byte of a message is written.
inline void pad_block(head_block const& block, std::byte* message)
{
  std::size_t const padding = block.room() - block.bytes();
  if (padding > 0) { std::memset(message + block.bytes(), 0, padding); }
}

}  // namespace detail

/// Copies a GPU's tokens into messages, for each peer with the peer's heads. This function and the
/// next three are the references of the device's, which make the same bytes.
///
/// Shapes      messages: message_bytes(plan, gpu, peer, arrays) for each peer in order, none for
///             the GPU itself; and `head` bytes more for each that has any, which are left alone.
/// Complexity  one copy of the bytes, in runs of a share of the heads, or in one where the share is
///             all heads; O(GPUs x arrays) beside that.
inline void pack_to_heads(ulysses_plan const& plan, std::uint32_t gpu,
                          std::span<head_array const> arrays, std::span<std::byte> messages,
                          std::size_t head = 0)
{
  using namespace detail;
  walk_blocks(plan, gpu, block_side::own_tokens, arrays, head,
              [&](std::uint32_t peer, head_array const& array, head_block const& block) {
                if (peer == gpu) { return; }
                std::byte* const message = messages.data() + block.offset;
                copy_runs(message, block.run, array.from.data() + block.first, block.row, block.run,
                          block.rows);
                pad_block(block, message);
              });
}

/// Copies the messages of pack_to_heads, and what stays on the GPU, into whole sequences with the
/// GPU's heads.
///
/// Shapes      messages: message_bytes(plan, peer, gpu, arrays) from each peer in order.
/// Complexity  one copy of the bytes, in runs of a chunk; O(GPUs x arrays x sequences) beside that.
inline void unpack_to_heads(ulysses_plan const& plan, std::uint32_t gpu,
                            std::span<head_array const> arrays, std::span<std::byte const> messages,
                            std::size_t head = 0)
{
  using namespace detail;
  walk_blocks(plan, gpu, block_side::own_heads, arrays, head,
              [&](std::uint32_t peer, head_array const& array, head_block const& block) {
                bool const stays = peer == gpu;
                std::byte const* const from =
                    stays ? array.from.data() + block.first : messages.data() + block.offset;
                std::size_t const stride = stays ? block.row : block.run;
                plan.for_each_chunk(peer, [&](bag_chunk const& part) {
                  copy_runs(array.to.data() + static_cast<std::size_t>(part.row) * block.run,
                            block.run, from + static_cast<std::size_t>(part.own_row) * stride,
                            stride, block.run, part.count);
                });
              });
}

/// Copies whole sequences with the GPU's heads into messages, for each peer the peer's tokens.
///
/// Shapes      messages: message_bytes(plan, peer, gpu, arrays) for each peer in order.
/// Complexity  that of unpack_to_heads.
inline void pack_to_tokens(ulysses_plan const& plan, std::uint32_t gpu,
                           std::span<head_array const> arrays, std::span<std::byte> messages,
                           std::size_t head = 0)
{
  using namespace detail;
  walk_blocks(plan, gpu, block_side::own_heads, arrays, head,
              [&](std::uint32_t peer, head_array const& array, head_block const& block) {
                if (peer == gpu) { return; }
                std::byte* const message = messages.data() + block.offset;
                plan.for_each_chunk(peer, [&](bag_chunk const& part) {
                  copy_runs(message + static_cast<std::size_t>(part.own_row) * block.run, block.run,
                            array.from.data() + static_cast<std::size_t>(part.row) * block.run,
                            block.run, block.run, part.count);
                });
                pad_block(block, message);
              });
}

/// Copies the messages of pack_to_tokens, and what stays on the GPU, into the GPU's tokens with all
/// heads; a head that several GPUs have is summed in the order of the GPUs.
///
/// Shapes      messages: message_bytes(plan, gpu, peer, arrays) from each peer in order.
/// Expects     if some head of an array is on several GPUs, that array's elements can be added.
/// Complexity  that of pack_to_heads, and one addition for each copy of an element beyond the
///             first.
inline void unpack_to_tokens(ulysses_plan const& plan, std::uint32_t gpu,
                             std::span<head_array const> arrays,
                             std::span<std::byte const> messages, std::size_t head = 0)
{
  using namespace detail;
  walk_blocks(plan, gpu, block_side::own_tokens, arrays, head,
              [&](std::uint32_t peer, head_array const& array, head_block const& block) {
                BALLAST_EXPECTS(block.shared == 0 || array.add != nullptr,
                                "several GPUs have the same of the ",
                                detail::counted(array.shape.heads, "head"), " of array ",
                                &array - arrays.data(), ", and its elements cannot be added");
                std::byte* const to = array.to.data() + block.first;
                if (peer != gpu) {
                  place_runs(array, block, to, messages.data() + block.offset, block.rows);
                  return;
                }
                plan.for_each_chunk(gpu, [&](bag_chunk const& part) {
                  place_runs(array, block, to + static_cast<std::size_t>(part.own_row) * block.row,
                             array.from.data() + static_cast<std::size_t>(part.row) * block.run,
                             part.count);
                });
              });
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_PACK_HEADS_HPP
