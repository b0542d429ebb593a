// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/span_of.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace {

using ballast::detail::span_of;

TEST(SpanOf, HasTheElementsOfTheVector)
{
  for (std::size_t size = 0; size < 4; ++size) {
    std::vector<int> items(size);
    auto const& constant = items;
    static_assert(std::is_same_v<decltype(span_of(items)), std::span<int>>);
    static_assert(std::is_same_v<decltype(span_of(constant)), std::span<int const>>);
    static_assert(std::is_same_v<decltype(span_of(constant, 0, 0)), std::span<int const>>);
    EXPECT_EQ(span_of(items).data(), items.data());
    EXPECT_EQ(span_of(items).size(), size);
    EXPECT_EQ(span_of(constant).data(), items.data());
    EXPECT_EQ(span_of(constant).size(), size);
    for (std::size_t first = 0; first <= size; ++first) {
      for (std::size_t count = 0; first + count <= size; ++count) {
        EXPECT_EQ(span_of(items, first, count).data(), items.data() + first);
        EXPECT_EQ(span_of(items, first, count).size(), count);
        EXPECT_EQ(span_of(constant, first, count).data(), items.data() + first);
        EXPECT_EQ(span_of(constant, first, count).size(), count);
      }
    }
  }
}

}  // namespace
