// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/tables.hpp>

#include "../route/bag_arrays.hpp"
#include "../support/test.hpp"
#include "head_copies_on_host.hpp"

#include <ballast/route/placement.hpp>

#include <cstring>

namespace {

using ballast::chunk_layout;
using ballast::chunk_of;
using ballast::chunks_to_ranks;
using ballast::copy_list;
using ballast::device_rows;
using ballast::ranks_to_chunks;
using ballast::rows_of;
using ballast::strided_copy;
using ballast::ulysses_plan;
using ballast::detail::contiguous_copy_list;
using ballast_test::bag_case;
using ballast_test::tables_on_host;

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

static_assert(sizeof(ballast::device_ranges::peer_rows) == 16, "one load");
static_assert(sizeof(device_rows) <= 256, "by value to every kernel");

TEST(DeviceRows, HaveWhatTheArraysSay)
{
  std::vector<float> const x(12);
  std::vector<float> y(18);
  std::vector<std::int32_t> const tags(4);
  std::vector<std::int32_t> tags_there(6);
  device_rows const rows(std::vector{rows_of(x, y, 3), rows_of(tags, tags_there)});
  ASSERT_EQ(rows.count, 2U);
  EXPECT_EQ(rows.arrays[0].from, reinterpret_cast<std::byte const*>(x.data()));
  EXPECT_EQ(rows.arrays[0].to, reinterpret_cast<std::byte*>(y.data()));
  EXPECT_EQ(rows.arrays[0].row_bytes, 12U);
  EXPECT_EQ(rows.arrays[1].row_bytes, 4U);
  EXPECT_EQ(device_rows({}).count, 0U);
}

TEST(DeviceRowsDeathTest, AreAtMostEight)
{
  std::vector<ballast::row_array> arrays(8);
  EXPECT_EQ(device_rows(arrays).count, 8U);
  arrays.emplace_back();
  EXPECT_DEATH((void)device_rows(arrays), "exchanges 9 arrays, and the most is 8");
}

static_assert(std::is_trivially_copyable_v<strided_copy>);

struct no_copies {
  strided_copy operator()(std::uint32_t) const { return {}; }
};

struct contiguous_copies : no_copies {
  static constexpr bool contiguous = true;
};

struct strided_copies : no_copies {
  static constexpr bool contiguous = false;
};

static_assert(copy_list<no_copies> && !contiguous_copy_list<no_copies>);
static_assert(contiguous_copy_list<contiguous_copies>);
static_assert(copy_list<strided_copies> && !contiguous_copy_list<strided_copies>);
static_assert(!copy_list<std::function<strided_copy(std::uint32_t)>>);  // not trivially copyable
static_assert(!copy_list<std::byte* (*)(std::uint32_t)>);

TEST(StridedCopy, KnowsItsBytesAndWhetherTheyAreContiguous)
{
  std::array<std::byte, 1> memory{};
  auto* const at = memory.data();
  EXPECT_EQ(strided_copy{}.bytes(), 0U);
  EXPECT_TRUE(strided_copy{}.is_contiguous());
  EXPECT_EQ(strided_copy::contiguous(at, at, 77).bytes(), 77U);
  EXPECT_TRUE(strided_copy::contiguous(at, at, 77).is_contiguous());
  EXPECT_TRUE((strided_copy{at, at, 500, 600, 8, 1}.is_contiguous()));
  EXPECT_TRUE((strided_copy{at, at, 8, 8, 8, 9}.is_contiguous()));
  EXPECT_FALSE((strided_copy{at, at, 8, 16, 8, 9}.is_contiguous()));
  EXPECT_FALSE((strided_copy{at, at, 16, 8, 8, 9}.is_contiguous()));
  EXPECT_EQ((strided_copy{at, at, 16, 8, 8, std::size_t{1} << 30}.bytes()), std::size_t{1} << 33);
}

RC_GTEST_PROP(UlyssesTables, SayWhatThePlanSays, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  tables_on_host const tables(bag, static_cast<std::uint32_t>(1 + random.below(3)));
  RC_ASSERT(tables->rows(bag.gpus) == plan.rows());
  RC_ASSERT(tables->split == plan.split());
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    RC_ASSERT(tables->rows(gpu) == plan.rows(gpu));
    std::vector<ulysses_plan::bag_chunk> parts;
    plan.for_each_chunk(gpu, [&](ulysses_plan::bag_chunk const& part) { parts.push_back(part); });
    std::size_t next = 0;
    for (std::uint32_t sequence = 0; sequence < tables->sequences; ++sequence) {
      ulysses_plan::bag_chunk const part = tables->part(gpu, sequence);
      if (part.count == 0) { continue; }
      RC_ASSERT(next < parts.size());
      RC_ASSERT(part == parts[next++]);
      for (ballast::tokens row = 0; row < part.count; ++row) {
        RC_ASSERT(tables->bag_row(gpu, part.own_row + row) == part.row + row);
      }
    }
    RC_ASSERT(next == parts.size());
  }
}

TEST(UlyssesTables, CountTheLongestSequence)
{
  bag_case const bag{2, {ballast::longest_sample}, 1};
  tables_on_host const tables(bag);
  EXPECT_EQ(tables->rows(2), ballast::longest_sample);
  EXPECT_EQ(tables->rows(0) + tables->rows(1), ballast::longest_sample);
  EXPECT_EQ(tables->bag_row(1, tables->rows(1) - 1), ballast::longest_sample - 1);
}

}  // namespace
