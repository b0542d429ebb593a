// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/row_array.hpp>

#include "../support/test.hpp"

#include <cstring>

namespace {

using ballast::rank_id;
using ballast::route_table;
using ballast::rows_of;
using testing::ElementsAre;

template <class T>
concept can_travel_as_rows =
    requires(std::span<T const> from, std::span<T> to) { ballast::rows_of(from, to); };
static_assert(can_travel_as_rows<float>);
static_assert(!can_travel_as_rows<std::string>);  // bytes of a string are not the string

TEST(RowArray, CountsBytesPerToken)
{
  std::vector<std::uint16_t> const from(12);
  std::vector<std::uint16_t> to(6);
  auto const array = ballast::rows_of(from, to, 3);
  EXPECT_EQ(array.row_bytes, 6U);
  EXPECT_EQ(array.from.size(), 24U);
  EXPECT_EQ(array.to.size(), 12U);
  EXPECT_EQ(static_cast<void const*>(array.to.data()), to.data());
}

TEST(RowArrayDeathTest, HasAtLeastOneElementAToken)
{
  std::vector<float> data(3);
  EXPECT_DEATH((void)ballast::rows_of(data, data, 0), "rows of 0 elements");
}

static_assert(ballast::block_bytes(0, 3) == 0);
static_assert(ballast::block_bytes(1, 3) == 16);
static_assert(ballast::block_bytes(16, 3) == 48);
static_assert(ballast::block_bytes(1, 6144) == 6144);

// Rank 1 gets rows 4 and 0 to 1 in this order, rank 2 row 2, rank 0 nothing.
route_table three_ranks()
{
  route_table table;
  table.start(3);
  table.add(rank_id{1}, {4, 1});
  table.add(rank_id{2}, {2, 1});
  table.add(rank_id{1}, {0, 2});
  table.finish();
  return table;
}

TEST(PackRows, LaysArrayAfterArrayOnMultiplesOfSixteenBytes)
{
  std::vector<std::int32_t> const tags{10, 11, 12, 13, 14};
  std::vector<char> const letters{'a', 'A', 'b', 'B', 'c', 'C', 'd', 'D', 'e', 'E'};
  std::vector<std::int32_t> tags_back(5, -1);
  std::vector<char> letters_back(10, '-');
  std::array const arrays{rows_of(tags, tags_back), rows_of(letters, letters_back, 2)};
  auto const table = three_ranks();

  std::array<std::size_t, 3> bytes{};
  ballast::message_bytes(table.rows(), arrays, bytes);
  EXPECT_THAT(bytes, ElementsAre(0, 32, 32));

  std::vector<std::byte> messages(64, std::byte{0xee});
  ballast::pack_rows(table, arrays, messages);
  std::vector<std::byte> expected(64, std::byte{0});
  std::memcpy(&expected[0], std::array{14, 10, 11}.data(), 12);
  std::memcpy(&expected[16], "eEaAbB", 6);
  std::memcpy(&expected[32], &tags[2], 4);
  std::memcpy(&expected[48], "cC", 2);
  EXPECT_EQ(messages, expected);

  ballast::unpack_rows(table, arrays, messages);
  EXPECT_THAT(tags_back, ElementsAre(10, 11, 12, -1, 14));  // row 3 did not travel
  EXPECT_THAT(letters_back, ElementsAre('a', 'A', 'b', 'B', 'c', 'C', '-', '-', 'e', 'E'));
}

TEST(PackRows, OfNothingIsNothing)
{
  route_table table;
  table.start(2);
  table.finish();
  std::array<std::size_t, 2> bytes{7, 7};
  ballast::message_bytes(table.rows(), {}, bytes);
  EXPECT_THAT(bytes, ElementsAre(0, 0));
  ballast::pack_rows(table, {}, {});
  ballast::unpack_rows(table, {}, {});
}

}  // namespace
