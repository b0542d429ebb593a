// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/exchange_heads.cuh>

#include "../cuda/head_copies_on_host.hpp"
#include "../route/bag_arrays.hpp"
#include "gpu_test.hpp"
#include "staged_on_device.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>

namespace {

using ballast::head_shape;
using ballast::tokens;
using ballast::detail::block_side;
using ballast::detail::device_head_block;
using ballast_test::bag_case;
using ballast_test::placed_blocks;
using ballast_test::random_arrays;
using ballast_test::tables_on_host;

class UlyssesBlocks : public ballast_test::gpu_test {
 protected:
  void expect_blocks(bag_case const& bag, std::span<head_shape const> shapes,
                     ballast::random_source& random) const
  {
    tables_on_host const tables(bag, 1);
    ballast_test::staged_on_device<ballast::ulysses_plan> device(
        {tables->sequences, bag.gpus, bag.query_heads, bag.kv_heads});
    ASSERT_TRUE(device->stage(bag.plan()));
    ASSERT_EQ(device->upload(stream()), cudaSuccess);
    auto const gpu = static_cast<std::uint32_t>(random.below(bag.gpus));
    random_arrays const held(random, bag.plan(), gpu, true, shapes);
    for (block_side const side : {block_side::own_tokens, block_side::own_heads}) {
      placed_blocks const expected(*tables, gpu, side, held.arrays);
      auto const blocks = to_device(std::vector<device_head_block>(expected.all.count()));
      ballast::detail::head_blocks all = expected.all;
      all.tables = device->tables();
      ASSERT_EQ(ballast::detail::queue_head_blocks(all, ballast::device_heads(held.arrays),
                                                   blocks.data(), stream()),
                cudaSuccess);
      auto const found = to_host(blocks);
      for (std::uint32_t index = 0; index < found.size(); ++index) {
        SCOPED_TRACE(testing::Message() << "block " << index << " of " << found.size());
        auto const& block = expected.blocks[index].block;
        EXPECT_EQ(found[index].block.rows, block.rows);
        EXPECT_EQ(found[index].block.row, block.row);
        EXPECT_EQ(found[index].block.first, block.first);
        EXPECT_EQ(found[index].block.run, block.run);
        EXPECT_EQ(found[index].block.shared, block.shared);
        EXPECT_EQ(found[index].block.offset, block.offset);
        EXPECT_EQ(found[index].shared_after, expected.blocks[index].shared_after);
      }
    }
  }
};

TEST_F(UlyssesBlocks, AreTheHosts)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 50; ++trial) {
    bag_case const bag = ballast_test::random_bag(random, 8);
    expect_blocks(
        bag,
        std::array{head_shape{bag.query_heads, 1 + random.below(20)},
                   head_shape{ballast_test::random_heads(random, bag), 3}, head_shape{1, 8}},
        random);
  }
}

// Several rounds of the scan, and sums of sizes behind each other.
TEST_F(UlyssesBlocks, OfMoreGpusThanThreadsAreTheHosts)
{
  ballast::random_source random(20240607);
  bag_case bag{300, {700, 0, 301}, 600};
  expect_blocks(bag, std::array{head_shape{600, 3}, head_shape{20, 5}}, random);
  bag.query_heads = 100;  // most GPUs have none
  expect_blocks(bag, std::array{head_shape{100, 3}, head_shape{7, 5}, head_shape{1, 1}}, random);
}

}  // namespace
