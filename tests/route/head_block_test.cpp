// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/head_array.hpp>

#include "../support/test.hpp"

namespace {

using ballast::block_of;
using ballast::head_block;
using ballast::head_split;

TEST(HeadBlock, IsInBytes)
{
  // Six query heads on four GPUs: the second has heads 2 and 3, which use 0 and 1 of two.
  head_block const block = block_of(head_split{6, 4}, 5, 1, {2, 12});
  EXPECT_EQ(block.rows, 5);
  EXPECT_EQ(block.row, 24U);
  EXPECT_EQ(block.first, 0U);
  EXPECT_EQ(block.run, 24U);
  EXPECT_EQ(block.shared, 12U);  // the first GPU's query heads 0 and 1 use head 0
  EXPECT_EQ(block.offset, 0U);
  EXPECT_EQ(block.bytes(), 120U);
  EXPECT_EQ(block.room(), 128U);
  EXPECT_FALSE(block.is_empty());
}

TEST(HeadBlock, IsEmptyWithoutRowsOrHeads)
{
  EXPECT_TRUE(block_of(head_split{4, 4}, 0, 1, {4, 8}).is_empty());
  EXPECT_TRUE(block_of(head_split{2, 4}, 7, 3, {2, 8}).is_empty());
  EXPECT_EQ(block_of(head_split{2, 4}, 7, 3, {2, 8}).room(), 0U);
  EXPECT_TRUE(head_block{}.is_empty());
}

TEST(HeadBlock, MayBeLongerThanFourGigabytes)
{
  head_block const block = block_of(head_split{32, 1}, 2'000'000, 0, {32, 256});
  EXPECT_EQ(block.bytes(), std::size_t{2'000'000} * 8192);
}

}  // namespace
