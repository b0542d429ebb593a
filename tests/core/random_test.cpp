// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

namespace {

using ballast::random_source;

static_assert(std::uniform_random_bit_generator<random_source>);
static_assert(random_source(7).below(1) == 0, "usable in constant expressions");

constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
constexpr auto highest = std::numeric_limits<std::int64_t>::max();

// Pearson's statistic for equally likely outcomes. With k outcomes it has mean k - 1 and standard
// deviation sqrt(2 (k - 1)); the seeds are fixed, so the bound of six of them never fails by
// chance.
template <class Counts>
void expect_uniform(Counts const& counts, double draws)
{
  auto const expected = draws / static_cast<double>(counts.size());
  double statistic = 0;
  for (auto const count : counts) {
    auto const off = static_cast<double>(count) - expected;
    statistic += off * off / expected;
  }
  auto const freedom = static_cast<double>(counts.size() - 1);
  EXPECT_LT(std::abs(statistic - freedom), 6 * std::sqrt(2 * freedom));
}

TEST(RandomSource, IsSplitmix64)
{
  random_source random(0);
  EXPECT_EQ(random(), 0xe220a8397b1dcdafU);
  EXPECT_EQ(random(), 0x6e789e6aa1b965f4U);
  EXPECT_EQ(random(), 0x06c45d188009454fU);
}

TEST(RandomSource, StaysBelowTheBoundForEveryMagnitude)
{
  random_source random(20240607);
  for (int bits = 0; bits < 64; ++bits) {
    std::uint64_t const power = std::uint64_t{1} << bits;
    for (std::uint64_t const bound : {power, power + 1, 2 * power - 1}) {
      for (int draw = 0; draw < 20; ++draw) { ASSERT_LT(random.below(bound), bound); }
    }
  }
}

TEST(RandomSource, DrawsBelowASmallBoundUniformly)
{
  random_source random(20240607);
  std::array<int, 7> counts{};
  for (int draw = 0; draw < 70'000; ++draw) { ++counts[random.below(counts.size())]; }
  expect_uniform(counts, 70'000);
}

// With 3 * 2^62 as the bound, taking a number modulo it, or multiplying without rejection, makes
// one third of the outcomes twice as likely as the rest.
TEST(RandomSource, DrawsBelowALargeBoundWithoutBias)
{
  random_source random(20240607);
  std::uint64_t const third = std::uint64_t{1} << 62;
  std::array<int, 3> by_third{};
  std::array<int, 3> by_remainder{};
  for (int draw = 0; draw < 30'000; ++draw) {
    std::uint64_t const value = random.below(3 * third);
    ++by_third[value / third];
    ++by_remainder[value % 3];
  }
  expect_uniform(by_third, 30'000);
  expect_uniform(by_remainder, 30'000);
}

TEST(RandomSource, DrawsBetweenBothEndsIncluded)
{
  random_source random(20240607);
  std::map<std::int64_t, int> counts;
  for (int draw = 0; draw < 50'000; ++draw) { ++counts[random.between(-2, 2)]; }
  EXPECT_EQ(counts.size(), 5U);
  EXPECT_EQ(counts.begin()->first, -2);
  expect_uniform(std::views::values(counts), 50'000);
}

TEST(RandomSource, DrawsBetweenTheExtremesOfTheType)
{
  EXPECT_EQ(random_source(1).between(lowest, lowest), lowest);
  EXPECT_EQ(random_source(1).between(highest, highest), highest);
  EXPECT_EQ(random_source(1).between(5, 5), 5);

  random_source random(20240607);
  std::array<int, 4> quarters{};
  for (int draw = 0; draw < 40'000; ++draw) {
    std::int64_t const value = random.between(lowest, highest);
    ++quarters[(static_cast<std::uint64_t>(value) ^ (std::uint64_t{1} << 63)) >> 62];
    ASSERT_LE(random.between(lowest, highest - 1), highest - 1);
    ASSERT_GE(random.between(lowest + 1, highest), lowest + 1);
  }
  expect_uniform(quarters, 40'000);
}

TEST(RandomSource, ShufflesToEveryOrderEquallyOften)
{
  random_source random(20240607);
  std::map<std::array<int, 4>, int> orders;
  for (int round = 0; round < 24'000; ++round) {
    std::array<int, 4> items = {1, 2, 3, 4};
    random.shuffle(std::span<int>(items));
    ++orders[items];
  }
  ASSERT_EQ(orders.size(), 24U);
  expect_uniform(std::views::values(orders), 24'000);
}

TEST(RandomSource, ShufflesToAPermutation)
{
  random_source random(20240607);
  for (std::size_t const size : {0U, 1U, 2U, 1000U}) {
    std::vector<int> items(size);
    std::iota(items.begin(), items.end(), 0);
    auto shuffled = items;
    random.shuffle(std::span<int>(shuffled));
    EXPECT_THAT(shuffled, testing::UnorderedElementsAreArray(items));
  }
}

TEST(RandomSource, RepeatsItselfForTheSameSeedOnly)
{
  random_source one(3);
  random_source same(3);
  random_source other(4);
  EXPECT_EQ(one.between(0, 1'000'000), same.between(0, 1'000'000));
  EXPECT_EQ(one(), same());
  EXPECT_NE(one(), other());
}

TEST(RandomSourceDeathTest, RejectsAnEmptyRange)
{
  EXPECT_DEATH((void)random_source(1).below(0), "a random number below 0");
  EXPECT_DEATH((void)random_source(1).between(1, 0), "a random number from 1 to 0");
}

}  // namespace
