// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

namespace {

using ballast::digest;
using ballast::rank_id;

constexpr std::uint64_t of(std::initializer_list<std::uint64_t> words)
{
  digest result;
  for (std::uint64_t const word : words) { result.add(word); }
  return result.value();
}

template <class T>
std::uint64_t of_span(std::vector<T> const& words)
{
  return digest{}.add(std::span<T const>(words)).value();
}

// The first value is splitmix64's for seed 0: a word of 0 leaves that generator's first step. The
// others pin the definition: a change would make two releases disagree about equal plans.
static_assert(of({}) == 0);
static_assert(of({0}) == 0xe220a8397b1dcdafU);
static_assert(of({1}) == 0x910a2dec89025cc1U);
static_assert(of({0, 0}) != of({0}));

TEST(Digest, PinsItsValues)  // Ensures (1)
{
  EXPECT_EQ(of({1, 2, 3}), 0xd0734750fde362b3U);
  EXPECT_EQ(of_span<std::uint32_t>({1, 2, 3}), of({3, 1, 2, 3}));
}

TEST(Digest, DependsOnOrderAndNumber)
{
  std::set<std::uint64_t> const values = {of({}),     of({0}),    of({0, 0}), of({1}),
                                          of({1, 2}), of({2, 1}), of({1, 1}), of({2})};
  EXPECT_EQ(values.size(), 8U);
}

TEST(Digest, ReadsValuesNotMemory)
{
  std::vector<std::uint32_t> const narrow = {5, 6};
  std::vector<std::int64_t> const wide = {5, 6};
  std::vector<rank_id> const named = {rank_id{5}, rank_id{6}};
  EXPECT_EQ(of_span(narrow), of_span(wide));
  EXPECT_EQ(of_span(narrow), of_span(named));
}

TEST(Digest, SeparatesSpansBySize)  // Ensures (2)
{
  std::vector<std::uint64_t> const words = {1, 2, 3};
  auto const split_at = [&](std::size_t first) {
    std::span<std::uint64_t const> const all = words;
    return digest{}.add(all.first(first)).add(all.subspan(first)).value();
  };
  std::set<std::uint64_t> const values = {split_at(0), split_at(1), split_at(2), split_at(3)};
  EXPECT_EQ(values.size(), 4U);
}

TEST(Digest, FlipsHalfOfTheBitsWhenOneBitChanges)
{
  // Were each of the 64 bits to flip with probability 1/2, the mean over the 64 inputs would have a
  // standard deviation of sqrt(64 / 4) / sqrt(64) = 0.5: the bound is six of them.
  for (std::uint64_t const word : {std::uint64_t{0}, std::uint64_t{12'345}, ~std::uint64_t{0}}) {
    int flipped = 0;
    for (int bit = 0; bit < 64; ++bit) {
      flipped += std::popcount(of({word, 7}) ^ of({word ^ (std::uint64_t{1} << bit), 7}));
    }
    EXPECT_NEAR(flipped / 64.0, 32.0, 3.0) << word;
  }
}

}  // namespace
