// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/heads/ulysses_lists.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/cuda/strided_copy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../../../route/bag_arrays.hpp"
#include "../../head_copies_on_host.hpp"

namespace {

using ballast::head_array;
using ballast::head_shape;
using ballast::strided_copy;
using ballast_test::bag_case;
using ballast_test::placed_blocks;
using ballast_test::random_arrays;
using ballast_test::tables_on_host;

using packed_for_heads = ballast::detail::packed_for_heads;
using packed_for_tokens = ballast::detail::packed_for_tokens;
using unpacked_to_heads = ballast::detail::unpacked_to_heads;
using unpacked_to_tokens = ballast::detail::unpacked_to_tokens;
using byte_list = std::vector<std::byte>;

static_assert(ballast::copy_list<packed_for_heads> && ballast::copy_list<unpacked_to_heads>);
static_assert(ballast::copy_list<packed_for_tokens> && ballast::copy_list<unpacked_to_tokens>);
static_assert(ballast::contiguous_copy_list<packed_for_tokens>);

// Nobody's head is with two GPUs, so that there is nothing to add.
std::array<head_shape, 2> shapes_without_copies(ballast::random_source& random, bag_case const& bag)
{
  return {head_shape{bag.query_heads, 1 + random.below(40)},
          head_shape{bag.query_heads, 16 * (1 + random.below(3))}};
}

std::array<head_shape, 3> any_shapes(ballast::random_source& random, bag_case const& bag)
{
  return {head_shape{bag.query_heads, 1 + random.below(40)},
          head_shape{ballast_test::random_heads(random, bag), 1 + random.below(9)},
          head_shape{1, 16}};
}

// What a list packs, with what else its kernel writes, on top of bytes of a known value.
template <class List>
byte_list packed(tables_on_host const& tables, std::uint32_t gpu,
                 std::span<head_array const> arrays)
{
  placed_blocks const placed(*tables, gpu, List::side, arrays);
  byte_list messages(placed.messages, std::byte{0xee});
  List const list{placed.copies(), messages.data()};
  std::size_t bytes = ballast_test::make_copies(list);
  list.make_rest(0, 1);
  for (std::uint32_t index = 0; index < placed.all.count(); ++index) {
    auto const& block = placed.blocks[index].block;
    if (placed.all.room(index, block) == 0) { continue; }
    bytes += block.room() - block.bytes();
  }
  RC_ASSERT(bytes == placed.messages);  // no byte is written twice
  return messages;
}

template <class List>
std::size_t unpack(tables_on_host const& tables, std::uint32_t gpu,
                   std::span<head_array const> arrays, byte_list const& messages)
{
  placed_blocks const placed(*tables, gpu, List::side, arrays);
  RC_ASSERT(placed.messages == messages.size());
  return ballast_test::make_copies(List{placed.copies(), messages.data()});
}

// Messages as they come from others: of the right size, and otherwise anything.
template <class List>
byte_list any_messages(ballast::random_source& random, tables_on_host const& tables,
                       std::uint32_t gpu, std::span<head_array const> arrays)
{
  return ballast_test::random_bytes(random,
                                    placed_blocks(*tables, gpu, List::side, arrays).messages);
}

std::size_t bytes_of(std::vector<byte_list> const& arrays)
{
  std::size_t bytes = 0;
  for (byte_list const& each : arrays) { bytes += each.size(); }
  return bytes;
}

RC_GTEST_PROP(UlyssesLists, PackAsTheHostDoes, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  tables_on_host const tables(bag);
  auto const shapes = any_shapes(random, bag);
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays const chunks(random, plan, gpu, true, shapes);
    byte_list const to_heads = packed<packed_for_heads>(tables, gpu, chunks.arrays);
    byte_list expected(to_heads.size());
    ballast::pack_to_heads(plan, gpu, chunks.arrays, expected);
    RC_ASSERT(to_heads == expected);

    random_arrays const sequences(random, plan, gpu, false, shapes);
    byte_list const to_tokens = packed<packed_for_tokens>(tables, gpu, sequences.arrays);
    expected.resize(to_tokens.size());
    ballast::pack_to_tokens(plan, gpu, sequences.arrays, expected);
    RC_ASSERT(to_tokens == expected);
  }
}

RC_GTEST_PROP(UlyssesLists, UnpackToHeadsAsTheHostDoes, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  tables_on_host const tables(bag);
  auto const shapes = any_shapes(random, bag);
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays held(random, plan, gpu, true, shapes);
    auto const messages = any_messages<unpacked_to_heads>(random, tables, gpu, held.arrays);
    auto const before = held.to;
    ballast::unpack_to_heads(plan, gpu, held.arrays, messages);
    auto const expected = held.to;
    for (std::size_t array = 0; array < before.size(); ++array) {
      std::ranges::copy(before[array], held.to[array].begin());
    }
    RC_ASSERT(unpack<unpacked_to_heads>(tables, gpu, held.arrays, messages) == bytes_of(held.to));
    RC_ASSERT(held.to == expected);
  }
}

RC_GTEST_PROP(UlyssesLists, UnpackToTokensAsTheHostDoes, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  tables_on_host const tables(bag);
  auto const shapes = shapes_without_copies(random, bag);
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays held(random, plan, gpu, false, shapes);
    auto const messages = any_messages<unpacked_to_tokens>(random, tables, gpu, held.arrays);
    auto const before = held.to;
    ballast::unpack_to_tokens(plan, gpu, held.arrays, messages);
    auto const expected = held.to;
    for (std::size_t array = 0; array < before.size(); ++array) {
      std::ranges::copy(before[array], held.to[array].begin());
    }
    RC_ASSERT(unpack<unpacked_to_tokens>(tables, gpu, held.arrays, messages) == bytes_of(held.to));
    RC_ASSERT(held.to == expected);
  }
}

// Both heads are on several GPUs, so no copy writes them.
TEST(UlyssesLists, LeaveSharedHeadsToTheSums)
{
  bag_case const bag{4, {4, 9}, 6};  // heads of two: shares {0}, {0, 1}, {1}, {1}
  tables_on_host const tables(bag);
  auto const plan = bag.plan();
  ballast::random_source random(20240607);
  std::array const shapes{head_shape{2, 5}};
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays const held(random, plan, gpu, false, shapes);
    placed_blocks const placed(*tables, gpu, unpacked_to_tokens::side, held.arrays);
    byte_list const messages(placed.messages);
    unpacked_to_tokens const list{placed.copies(), messages.data()};
    EXPECT_EQ(ballast_test::make_copies(list), 0U);
  }
}

// Nothing of it is read or written: only where copies would be is looked at.
TEST(UlyssesLists, FindBytesBeyondFourGigabytes)
{
  bag_case const bag{2, {1'000'001, 999'999}, 4};
  tables_on_host const tables(bag, 0);
  std::vector<std::byte> base(1);
  constexpr std::size_t head = 4096;
  std::vector<ballast::detail::device_head_block> blocks;
  ballast::detail::head_blocks const all{*tables, 0, 1, packed_for_tokens::side};
  for (std::uint32_t peer = 0; peer < 2; ++peer) {
    blocks.push_back({ballast::block_of(tables->split, tables->rows(peer), 0, {4, head})});
  }
  std::array const arrays{head_array{{base.data(), 0}, {base.data(), 0}, {4, head}}};
  packed_for_tokens const list{{all, blocks.data(), ballast::device_heads(arrays)}, base.data()};
  // The second GPU's part of the second sequence, with two of four heads.
  strided_copy const last = list(list.count() - 1);
  auto const at = [&](auto const* place) {
    return reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(base.data());
  };
  EXPECT_EQ(at(last.from), (1'000'001 + std::size_t{500'000}) * 2 * head);
  EXPECT_EQ(at(last.to), std::size_t{500'000} * 2 * head);
  EXPECT_EQ(last.bytes(), std::size_t{499'999} * 2 * head);
  EXPECT_GT(last.bytes(), std::size_t{1} << 31);
}

}  // namespace
