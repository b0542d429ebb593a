// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/scratch_array.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using ballast::detail::scratch_array;
using ballast::detail::take_records;
using testing::ElementsAre;

struct record {
  std::int64_t key = 0;
  std::uint32_t number = 0;
};

static_assert(std::is_convertible_v<scratch_array<record>, scratch_array<record const>>);
static_assert(!std::is_convertible_v<scratch_array<record const>, scratch_array<record>>);
static_assert(!std::is_convertible_v<scratch_array<int>, scratch_array<unsigned const>>);
static_assert(!std::is_convertible_v<std::vector<record>, scratch_array<record>>);
static_assert(std::is_trivially_copyable_v<scratch_array<record>>);

template <class T>
concept is_record = requires(ballast::workspace::frame& frame) { take_records<T>(frame, 1); };
static_assert(is_record<record> && !is_record<std::string>);

// Oracle: std::span over the same elements.
TEST(ScratchArray, HasWhatASpanHas)
{
  ballast::workspace memory;
  auto frame = memory.open();
  for (std::size_t size = 0; size < 5; ++size) {
    auto const numbers = take_records<int>(frame, size);
    std::span<int> const span(numbers.data(), numbers.size());
    for (std::size_t at = 0; at < size; ++at) { numbers[at] = static_cast<int>(7 * at); }
    EXPECT_EQ(numbers.empty(), size == 0);
    EXPECT_TRUE(std::ranges::equal(numbers, span));
    if (size > 0) {
      EXPECT_EQ(&numbers.front(), &span.front());
      EXPECT_EQ(&numbers.back(), &span.back());
    }
    for (std::size_t count = 0; count <= size; ++count) {
      EXPECT_TRUE(std::ranges::equal(numbers.first(count), span.first(count)));
      EXPECT_TRUE(std::ranges::equal(numbers.last(count), span.last(count)));
      EXPECT_TRUE(std::ranges::equal(numbers.subspan(count), span.subspan(count)));
      for (std::size_t from = 0; from + count <= size; ++from) {
        EXPECT_TRUE(std::ranges::equal(numbers.subspan(from, count), span.subspan(from, count)));
      }
    }
    scratch_array<int const> const constant = numbers;
    EXPECT_EQ(constant.data(), numbers.data());
    EXPECT_EQ(constant.size(), size);
  }
}

TEST(ScratchArray, ReadsAVector)
{
  std::vector<record> const records(3);
  scratch_array<record const> const read = records;
  EXPECT_EQ(read.data(), records.data());
  EXPECT_EQ(read.size(), 3U);
}

TEST(ScratchArray, IsEmptyAtFirst)
{
  scratch_array<record> const none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.begin(), none.end());
}

TEST(TakeRecords, DoNotOverlapAndLieAligned)
{
  ballast::workspace memory;
  auto frame = memory.open();
  auto const first = take_records<std::uint8_t>(frame, 3);
  auto const second = take_records<record>(frame, 2);
  std::fill(first.begin(), first.end(), std::uint8_t{9});
  second[0] = {1, 2};
  second[1] = {3, 4};
  EXPECT_THAT(std::span(first.data(), first.size()), ElementsAre(9, 9, 9));
  EXPECT_EQ(second[1].key, 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second.data()) % alignof(record), 0U);
}

}  // namespace
