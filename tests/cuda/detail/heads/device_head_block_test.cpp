// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/heads/device_head_block.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/core/random.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../../route/bag_arrays.hpp"
#include "../../head_copies_on_host.hpp"

namespace {

using ballast::head_array;
using ballast::head_block;
using ballast::head_shape;
using ballast::detail::block_side;
using ballast_test::bag_case;
using ballast_test::placed_blocks;
using ballast_test::random_arrays;
using ballast_test::tables_on_host;

RC_GTEST_PROP(HeadBlocks, LieWhereTheHostsMessagesHaveThem, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  tables_on_host const tables(bag);
  std::array const shapes{head_shape{bag.query_heads, 1 + random.below(40)},
                          head_shape{ballast_test::random_heads(random, bag), 1 + random.below(9)}};
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays const held(random, plan, gpu, true, shapes);
    for (block_side const side : {block_side::own_tokens, block_side::own_heads}) {
      placed_blocks const placed(*tables, gpu, side, held.arrays);
      std::size_t seen = 0;
      ballast::detail::walk_blocks(
          plan, gpu, side, held.arrays,
          [&](std::uint32_t peer, head_array const& array, head_block const& block) {
            auto const which = static_cast<std::uint32_t>(&array - held.arrays.data());
            auto const& own = placed.blocks[peer * shapes.size() + which];
            ++seen;
            RC_ASSERT(own.block.rows == block.rows);
            RC_ASSERT(own.block.row == block.row);
            RC_ASSERT(own.block.first == block.first);
            RC_ASSERT(own.block.run == block.run);
            RC_ASSERT(own.block.shared == block.shared);
            RC_ASSERT(own.block.offset == block.offset);
            RC_ASSERT(own.from == array.from.data());
            RC_ASSERT(own.to == array.to.data());
          });
      std::size_t bytes = 0;
      for (std::uint32_t peer = 0; peer < bag.gpus; ++peer) {
        bool const own_tokens = side == block_side::own_tokens;
        bytes += peer == gpu ? 0
                             : ballast::message_bytes(plan, own_tokens ? gpu : peer,
                                                      own_tokens ? peer : gpu, held.arrays);
      }
      RC_ASSERT(placed.messages == bytes);
      for (auto const& each : placed.blocks) { seen += each.block.is_empty() ? 1 : 0; }
      RC_ASSERT(seen == placed.all.count());
    }
  }
}

TEST(WritePadding, FillsARoomAndNothingMore)
{
  std::vector<std::byte> messages(64, std::byte{0xee});
  head_block block;
  block.rows = 3;
  block.run = 7;
  block.offset = 16;
  ballast::detail::write_padding(block, messages.data());
  for (std::size_t at = 0; at < messages.size(); ++at) {
    bool const padding = 16 + 21 <= at && at < 16 + 32;
    EXPECT_EQ(messages[at], padding ? std::byte{0} : std::byte{0xee}) << at;
  }
}

}  // namespace
