// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/head_copies.hpp>

#include <ballast/cuda/tables.hpp>

#include "../../../route/bag_arrays.hpp"
#include "../../../support/test.hpp"
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

static_assert(ballast::copy_list<packed_for_heads> && ballast::copy_list<unpacked_to_heads>);
static_assert(ballast::copy_list<packed_for_tokens> && ballast::copy_list<unpacked_to_tokens>);
static_assert(ballast::contiguous_copy_list<packed_for_tokens>);

// To the last byte: padding is zero. That they are unpacked, and added up, is seen over NCCL.
template <class List>
void expect_packed_as_by_the_host(ballast::ulysses_plan const& plan, tables_on_host const& tables,
                                  std::uint32_t gpu, std::span<head_array const> arrays)
{
  placed_blocks const placed(*tables, gpu, List::side, arrays);
  std::vector<std::byte> messages(placed.messages, std::byte{0xee});
  ballast_test::pack_by_list<List>(*tables, gpu, arrays, messages.data());
  std::vector<std::byte> expected(messages.size());
  constexpr bool to_heads = std::is_same_v<List, packed_for_heads>;
  (to_heads ? ballast::pack_to_heads : ballast::pack_to_tokens)(plan, gpu, arrays, expected, 0);
  RC_ASSERT(messages == expected);
}

RC_GTEST_PROP(UlyssesLists, PackAsTheHostDoes, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  tables_on_host const tables(bag);
  std::array const shapes{head_shape{bag.query_heads, 1 + random.below(40)},
                          head_shape{ballast_test::random_heads(random, bag), 1 + random.below(9)},
                          head_shape{1, 16}};
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays const chunks(random, plan, gpu, true, shapes);
    expect_packed_as_by_the_host<packed_for_heads>(plan, tables, gpu, chunks.arrays);
    random_arrays const sequences(random, plan, gpu, false, shapes);
    expect_packed_as_by_the_host<packed_for_tokens>(plan, tables, gpu, sequences.arrays);
  }
}

// Both heads are on several GPUs, so no copy writes them: threads that add them up run beside.
TEST(UlyssesLists, LeaveSharedHeadsToTheSums)
{
  bag_case const bag{4, {4, 9}, 6};  // heads of two: shares {0}, {0, 1}, {1}, {1}
  tables_on_host const tables(bag);
  ballast::random_source random(20240607);
  std::array const shapes{head_shape{2, 5}};
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays const held(random, bag.plan(), gpu, false, shapes);
    placed_blocks const placed(*tables, gpu, unpacked_to_tokens::side, held.arrays);
    std::vector<std::byte> const messages(placed.messages);
    unpacked_to_tokens const list{placed.copies(), messages.data()};
    for (std::uint32_t at = 0; at < list.count(); ++at) { EXPECT_EQ(list(at).bytes(), 0U); }
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
