// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/tables.hpp>

#include "../support/test.hpp"

#include <ballast/route/placement.hpp>

#include <cstring>

namespace {

using ballast::chunk_layout;
using ballast::chunk_of;
using ballast::chunks_to_ranks;
using ballast::ranks_to_chunks;
using ballast::strided_copy;
using row_value = std::vector<std::byte>;

static_assert(ballast::copy_list<chunks_to_ranks> && ballast::copy_list<ranks_to_chunks>);

/// No two rows have the same bytes in the first four.
row_value row_of(std::uint32_t rank, std::int64_t index, std::size_t bytes)
{
  row_value value(bytes);
  auto const word = static_cast<std::uint32_t>(1000 * index + rank);
  std::memcpy(value.data(), &word, std::min(bytes, sizeof word));
  return value;
}

void append(std::vector<std::byte>& to, row_value const& value)
{
  to.insert(to.end(), value.begin(), value.end());
}

/// [rank][row]
std::vector<std::byte> by_rank(chunk_layout const& layout)
{
  std::vector<std::byte> rows;
  for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
    for (std::int64_t index = 0; index < layout.rows; ++index) {
      append(rows, row_of(rank, index, layout.row_bytes));
    }
  }
  return rows;
}

/// What an all-gather of chunk after chunk leaves, each behind the one before.
std::vector<std::byte> by_chunk(chunk_layout const& layout)
{
  std::vector<std::byte> rows;
  for (std::uint32_t index = 0; index < layout.chunks; ++index) {
    auto const cut = chunk_of(layout.rows, layout.chunks, index);
    for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
      for (std::int64_t each = 0; each < cut.count; ++each) {
        append(rows, row_of(rank, cut.first + each, layout.row_bytes));
      }
    }
  }
  return rows;
}

/// What the copies of the list make; untouched bytes are 0xee.
template <class List>
std::vector<std::byte> copied(chunk_layout const& layout, std::vector<std::byte> const& from)
{
  std::vector<std::byte> to(from.size(), std::byte{0xee});
  List const list{layout, from.data(), to.data()};
  for (std::uint32_t index = 0; index < layout.copies(); ++index) {
    strided_copy const each = list(index);
    EXPECT_TRUE(each.is_contiguous());
    if (each.bytes() > 0) { std::memcpy(each.to, each.from, each.bytes()); }
  }
  return to;
}

RC_GTEST_PROP(ChunkLayout, IsRemappedBothWays, ())  // Ensures (1)
{
  chunk_layout const layout{.rows = *rc::gen::inRange<std::int64_t>(0, 40),
                            .ranks = *rc::gen::inRange(1U, 9U),
                            .chunks = *rc::gen::inRange(1U, 12U),
                            .row_bytes = *rc::gen::inRange(1U, 20U)};
  RC_ASSERT(copied<chunks_to_ranks>(layout, by_chunk(layout)) == by_rank(layout));
  RC_ASSERT(copied<ranks_to_chunks>(layout, by_rank(layout)) == by_chunk(layout));
}

TEST(ChunkLayout, HasUnevenChunks)
{
  chunk_layout const layout{.rows = 5, .ranks = 2, .chunks = 3, .row_bytes = 10};  // 2, 2, 1 rows
  ASSERT_EQ(layout.copies(), 6U);
  auto const expect = [&](std::uint32_t index, std::size_t by_rank, std::size_t by_chunk,
                          std::size_t bytes) {
    auto const part = layout(index);
    EXPECT_EQ(part.by_rank, by_rank) << index;
    EXPECT_EQ(part.by_chunk, by_chunk) << index;
    EXPECT_EQ(part.bytes, bytes) << index;
  };
  expect(0, 0, 0, 20);
  expect(1, 50, 20, 20);
  expect(2, 20, 40, 20);
  expect(3, 70, 60, 20);
  expect(4, 40, 80, 10);
  expect(5, 90, 90, 10);
}

TEST(ChunkLayout, BeginsWithTheChunk)  // Ensures (2)
{
  chunk_layout const layout{.rows = 1000, .ranks = 7, .chunks = 13, .row_bytes = 6};
  for (std::uint32_t index = 0; index < layout.chunks; ++index) {
    auto const cut = chunk_of(layout.rows, layout.chunks, index);
    EXPECT_EQ(layout(index * layout.ranks).by_chunk,
              static_cast<std::size_t>(cut.first) * layout.ranks * layout.row_bytes);
  }
}

TEST(ChunkLayout, HoldsNothingMoreThanItsRows)
{
  for (std::uint32_t const chunks : {1U, 4U}) {
    chunk_layout const none{.rows = 0, .ranks = 3, .chunks = chunks, .row_bytes = 8};
    EXPECT_EQ(copied<chunks_to_ranks>(none, {}).size(), 0U);
  }
  chunk_layout const fewer{.rows = 2, .ranks = 1, .chunks = 4, .row_bytes = 1};
  EXPECT_EQ(fewer(3).bytes, 0U);
}

TEST(ChunkLayout, CountsBeyondFourGigabytes)
{
  constexpr std::int64_t rows = std::int64_t{1} << 33;
  chunk_layout const layout{.rows = rows, .ranks = 8, .chunks = 4, .row_bytes = 16384};
  auto const last = layout(layout.copies() - 1);
  constexpr std::size_t quarter = (std::size_t{1} << 31) * 16384;
  EXPECT_EQ(last.bytes, quarter);
  EXPECT_EQ(last.by_rank, (7 * 4 + 3) * quarter);
  EXPECT_EQ(last.by_chunk, (3 * 8 + 7) * quarter);
}

}  // namespace
