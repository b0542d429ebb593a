// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/heads/ulysses_lists.hpp>

#include <gtest/gtest.h>
#include <ballast/cuda/strided_copy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../../route/bag_arrays.hpp"
#include "../../head_copies_on_host.hpp"

namespace {

using ballast::head_array;
using ballast::strided_copy;
using ballast_test::bag_case;
using ballast_test::tables_on_host;

using packed_for_heads = ballast::detail::packed_for_heads;
using packed_for_tokens = ballast::detail::packed_for_tokens;
using unpacked_to_heads = ballast::detail::unpacked_to_heads;
using unpacked_to_tokens = ballast::detail::unpacked_to_tokens;

static_assert(ballast::copy_list<packed_for_heads> && ballast::copy_list<unpacked_to_heads>);
static_assert(ballast::copy_list<packed_for_tokens> && ballast::copy_list<unpacked_to_tokens>);
static_assert(ballast::contiguous_copy_list<packed_for_tokens>);

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
