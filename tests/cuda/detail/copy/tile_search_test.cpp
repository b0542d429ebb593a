// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/copy/tile_search.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using ballast::detail::first_lane;
using ballast::detail::tile_search;
using ballast::detail::warp_lanes;

struct found {
  std::uint32_t index;
  int rounds;
};

found search_for(std::vector<std::uint64_t> const& numbers, std::uint64_t value)
{
  tile_search search{0, static_cast<std::uint32_t>(numbers.size())};
  int rounds = 1;
  for (; !search.is_done(); ++rounds) {
    search = search.narrowed(first_lane(search.votes(numbers.data(), value, 0)));
  }
  return {search.probe(first_lane(search.votes(numbers.data(), value, 0))), rounds};
}

RC_GTEST_PROP(TileSearch, FindsTheFirstNumberThatIsAbove, ())  // Ensures (1)
{
  auto numbers = *rc::gen::nonEmpty(rc::gen::scale(
      30, rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 500))));
  numbers.push_back(500);
  std::ranges::sort(numbers);
  for (std::uint64_t value = 0; value < 500; ++value) {
    auto const expected = std::ranges::upper_bound(numbers, value) - numbers.begin();
    RC_ASSERT(search_for(numbers, value).index == expected);
  }
}

TEST(TileSearch, TakesAsManyRoundsAsTheLogarithm)  // Ensures (2)
{
  std::size_t size = 1;
  for (int rounds = 1; rounds <= 3; ++rounds) {
    size *= warp_lanes;
    std::vector<std::uint64_t> numbers(size);
    for (std::size_t i = 0; i < size; ++i) { numbers[i] = i; }
    for (std::uint64_t value = 0; value + 1 < size; value += 1 + value / 16) {
      auto const result = search_for(numbers, value);
      ASSERT_EQ(result.index, value + 1);
      ASSERT_EQ(result.rounds, rounds);
    }
  }
}

TEST(TileSearch, DoesNotWrapAtTheGreatestRange)
{
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  tile_search const all{0, most};
  EXPECT_EQ(all.probe(31), most - 1);
  EXPECT_EQ(all.narrowed(31).end, most);
  EXPECT_EQ(all.narrowed(31).begin, 31U << 27);
  tile_search const last{most - 3, most};
  EXPECT_TRUE(last.is_done());
  EXPECT_EQ(last.probe(0), most - 3);
  EXPECT_EQ(last.probe(31), most - 1);
}

}  // namespace
