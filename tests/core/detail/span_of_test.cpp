// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/span_of.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace {

using ballast::detail::mutable_span_of;
using ballast::detail::span_of;

template <class Items>
void expect_all_parts(Items& items)
{
  EXPECT_EQ(span_of(items).data(), items.data());
  EXPECT_EQ(span_of(items).size(), items.size());
  EXPECT_EQ(mutable_span_of(items).data(), items.data());
  EXPECT_EQ(mutable_span_of(items).size(), items.size());
  for (std::size_t first = 0; first <= items.size(); ++first) {
    for (std::size_t count = 0; first + count <= items.size(); ++count) {
      EXPECT_EQ(span_of(items, first, count).data(), items.data() + first);
      EXPECT_EQ(span_of(items, first, count).size(), count);
      EXPECT_EQ(mutable_span_of(items, first, count).data(), items.data() + first);
      EXPECT_EQ(mutable_span_of(items, first, count).size(), count);
    }
  }
}

TEST(SpanOf, HasTheElementsOfAVectorOrAnArray)
{
  std::vector<int> items(3);
  static_assert(std::is_same_v<decltype(span_of(items)), std::span<int const>>);
  static_assert(std::is_same_v<decltype(span_of(items, 0, 0)), std::span<int const>>);
  static_assert(std::is_same_v<decltype(mutable_span_of(items)), std::span<int>>);
  static_assert(std::is_same_v<decltype(mutable_span_of(items, 0, 0)), std::span<int>>);
  expect_all_parts(items);
  std::vector<int> none;
  expect_all_parts(none);
  std::array<int, 4> array{};
  expect_all_parts(array);
}

}  // namespace
