// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/radix_sort.hpp>

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace {

using ballast::detail::radix_sort;
using ballast::detail::radix_sort_by_key;
using word_list = std::vector<std::uint64_t>;

constexpr auto greatest_word = std::numeric_limits<std::uint64_t>::max();

word_list sorted_by_radix(word_list of)
{
  word_list spare(of.size());
  radix_sort(of, spare);
  return of;
}

word_list sorted(word_list of)
{
  std::ranges::sort(of);
  return of;
}

TEST(RadixSort, SortsAtEverySizeAndMagnitude)
{
  ballast::random_source random(20240607);
  for (std::size_t const size : {0U, 1U, 2U, 31U, 32U, 33U, 500U, 5000U, 70'000U}) {
    for (int const bits : {0, 1, 2, 7, 21, 22, 23, 40, 63, 64}) {
      SCOPED_TRACE(testing::Message() << size << " words of " << bits << " bits");
      word_list of(size);
      for (std::uint64_t& word : of) { word = bits == 0 ? 9 : random() >> (64 - bits); }
      ASSERT_EQ(sorted_by_radix(of), sorted(of));
    }
  }
}

// Two words at the ends of the range leave one key for all others.
TEST(RadixSort, ComparesWhatTheHighestBitsDoNotTellApart)
{
  ballast::random_source random(7);
  word_list of{0, greatest_word};
  for (int word = 0; word < 5000; ++word) { of.push_back(greatest_word / 2 + random.below(1000)); }
  EXPECT_EQ(sorted_by_radix(of), sorted(of));
}

// Oracle: a multimap keeps equal keys in the order in which they came.
template <int Digits>
void expect_stable(int key_bits)
{
  SCOPED_TRACE(testing::Message() << Digits << " digits, keys of " << key_bits << " bits");
  ballast::random_source random(11);
  auto const key_of = [](std::uint64_t word) { return word >> 32; };
  std::multimap<std::uint64_t, std::uint64_t> oracle;
  word_list of;
  for (std::uint64_t number = 0; number < 3000; ++number) {
    std::uint64_t const key = random.below(std::uint64_t{1} << key_bits) & ~std::uint64_t{1};
    of.push_back(key << 32 | number);
    oracle.emplace(key, of.back());
  }
  word_list expected;
  for (auto const& [key, word] : oracle) { expected.push_back(word); }
  word_list spare(of.size());
  auto const result = radix_sort_by_key<Digits>(of, spare, key_bits, key_of);
  EXPECT_TRUE(result.data() == of.data() || result.data() == spare.data());
  EXPECT_EQ(word_list(result.begin(), result.end()), expected);
}

TEST(RadixSortByKey, KeepsTheOrderOfEqualKeys)  // Ensures (1)
{
  for (int const key_bits : {1, 2, 3, 5, 11}) { expect_stable<1>(key_bits); }
  for (int const key_bits : {1, 2, 3, 5, 11, 22}) { expect_stable<2>(key_bits); }
  for (int const key_bits : {1, 2, 3, 5, 11, 22, 30}) { expect_stable<3>(key_bits); }
}

TEST(RadixSortByKey, LeavesWordsAsTheyAreWhereAllKeysAreEqual)
{
  word_list of{3, 1, 2};
  word_list spare(of.size());
  auto const result = radix_sort_by_key<2>(of, spare, 0, [](std::uint64_t) { return 0U; });
  EXPECT_EQ(word_list(result.begin(), result.end()), (word_list{3, 1, 2}));
}

TEST(RadixSortDeathTest, RefusesTooLittleRoomAndTooLongKeys)
{
  word_list of{3, 1, 2};
  word_list spare(2);
  auto const key_of = [](std::uint64_t word) { return word; };
  EXPECT_DEATH((void)radix_sort_by_key<2>(of, spare, 2, key_of), "spare.size");
  word_list room(3);
  EXPECT_DEATH((void)radix_sort_by_key<2>(of, room, 23, key_of), "most_digit_bits");
}

}  // namespace
