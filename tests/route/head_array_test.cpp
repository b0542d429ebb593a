// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/head_array.hpp>

#include "../support/test.hpp"
#include "bag_arrays.hpp"

#include <ballast/route/placement.hpp>

#include <cstring>

namespace {

using ballast::chunk;
using ballast::head_split;
using ballast::heads_of;

template <class T>
concept can_travel_as_heads =
    requires(std::span<T const> from, std::span<T> to) { ballast::heads_of(from, to, 1, 1); };
static_assert(can_travel_as_heads<float>);
static_assert(!can_travel_as_heads<std::string>);  // bytes of a string are not the string

// As trainers have them: 16 bits, and a sum that is rounded back by an explicit conversion.
struct brain_float {
  std::uint16_t bits = 0;

  brain_float() = default;
  explicit brain_float(float value)
  {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    bits = static_cast<std::uint16_t>(word >> 16);
  }
  [[nodiscard]] float value() const
  {
    std::uint32_t const word = std::uint32_t{bits} << 16;
    float result = 0;
    std::memcpy(&result, &word, sizeof(result));
    return result;
  }
  friend float operator+(brain_float a, brain_float b) { return a.value() + b.value(); }
};

TEST(HeadArray, CountsBytesPerHead)
{
  std::vector<std::uint16_t> const from(24);
  std::vector<std::uint16_t> to(12);
  auto const array = heads_of(from, to, 4, 3);
  EXPECT_EQ(array.shape.heads, 4U);
  EXPECT_EQ(array.shape.head_bytes, 6U);
  EXPECT_EQ(array.from.size(), 48U);
  EXPECT_EQ(array.to.size(), 24U);
  EXPECT_EQ(static_cast<void const*>(array.to.data()), to.data());
}

TEST(HeadArray, AddsElementsOfAnyAlignment)
{
  std::vector<double> sums{1, 2, 3};
  std::array const values{10.0, 20.0};
  std::array<std::byte, 1 + sizeof(values)> message{};
  std::memcpy(&message[1], values.data(), sizeof(values));
  auto const array = heads_of(std::span<double const>(), sums, 1, 1);
  array.add(array.to.data(), &message[1], sizeof(values));
  EXPECT_THAT(sums, testing::ElementsAre(11, 22, 3));
}

TEST(HeadArray, AddsInTheTypeOfTheElements)
{
  std::vector<brain_float> halves{brain_float(256)};
  std::vector<brain_float> const one{brain_float(1)};
  auto const coarse = heads_of(one, halves, 1, 1);
  coarse.add(coarse.to.data(), coarse.from.data(), sizeof(brain_float));
  EXPECT_EQ(halves[0].value(), 256.0F);  // eight bits of mantissa
}

TEST(HeadArray, OfElementsWithoutSumCanOnlyBeMoved)
{
  struct label {
    std::array<char, 3> letters;
  };
  std::vector<label> labels(1);
  EXPECT_EQ(heads_of(std::span<label const>(), labels, 1, 1).add, nullptr);
  std::vector<std::byte> bytes(1);
  EXPECT_EQ(heads_of(std::span<std::byte const>(), bytes, 1, 1).add, nullptr);
  std::vector<std::uint16_t> bits(1);  // of unknown meaning
  EXPECT_EQ(heads_of(std::span<std::uint16_t const>(), bits, 1, 1).add, nullptr);
}

TEST(HeadArrayDeathTest, HasAtLeastOneElementAHead)
{
  std::vector<float> data(3);
  EXPECT_DEATH((void)heads_of(data, data, 3, 0), "heads of 0 elements");
}

static_assert(head_split{8, 2}.share(1, 4) == chunk{2, 2});
static_assert(!head_split{8, 2}.replicates(8) && head_split{8, 2}.replicates(1));

RC_GTEST_PROP(HeadSplit, GivesEveryGpuTheHeadsThatItsQueryHeadsUse, ())  // Ensures (1) (2) (3)
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  ballast_test::bag_case const bag = ballast_test::random_bag(random, 8);
  std::uint32_t const heads = ballast_test::random_heads(random, bag);
  head_split const split{bag.query_heads, bag.gpus, bag.kv_heads};
  bool replicates = false;
  chunk before;
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    chunk const share = split.share(gpu, heads);
    std::int64_t shared = 0;
    for (std::uint32_t head = 0; head < heads; ++head) {
      bool const has = share.first <= head && head < share.first + share.count;
      RC_ASSERT(has == bag.uses(gpu, head, heads));
      shared += has && gpu > 0 && bag.uses(gpu - 1, head, heads) ? 1 : 0;
    }
    RC_ASSERT(split.shared(gpu, heads) == shared);
    replicates = replicates || shared > 0;
    if (share.count > 0) {
      RC_ASSERT(gpu == 0 || before.count > 0);
      RC_ASSERT(before.first + before.count <= share.first + share.count);
    }
    before = share;
  }
  RC_ASSERT(split.replicates(heads) == replicates);
}

/// Shares of query and key-value heads, GPU by GPU.
std::vector<std::pair<std::int64_t, std::int64_t>> shares(head_split split)
{
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (std::uint32_t gpu = 0; gpu < split.gpus; ++gpu) {
    all.emplace_back(split.share(gpu, split.query_heads).count,
                     split.share(gpu, split.kv_heads).count);
  }
  return all;
}

TEST(HeadSplit, KeepsGroupsOfAttentionWhole)  // Ensures (1) (4)
{
  using both = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(shares({28, 2, 7}), (both{{16, 4}, {12, 3}}));
  EXPECT_EQ(shares({28, 3, 4}), (both{{14, 2}, {7, 1}, {7, 1}}));
  EXPECT_EQ(shares({28, 8, 4}),
            (both{{4, 1}, {3, 1}, {4, 1}, {3, 1}, {4, 1}, {3, 1}, {4, 1}, {3, 1}}));
  EXPECT_EQ(shares({6, 3, 2}), (both{{2, 1}, {1, 1}, {3, 1}}));
  for (std::uint32_t queries = 1; queries <= 24; ++queries) {
    for (std::uint32_t keys = 1; keys <= queries; ++keys) {
      for (std::uint32_t gpus = 1; gpus <= 26; ++gpus) {
        head_split const split{queries, gpus, keys};
        EXPECT_EQ(split.is_possible(), queries % keys == 0 && gpus <= queries);
        if (!split.is_possible()) { continue; }
        std::uint32_t const group = queries / keys;
        std::vector<std::uint32_t> times(queries, 0);
        for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
          auto const [first, count] = split.share(gpu, queries);
          EXPECT_GE(count, 1);
          for (std::int64_t head = first; head < first + count; ++head) {
            ++times.at(static_cast<std::size_t>(head));
          }
          if (gpus <= keys) {  // whole groups
            EXPECT_TRUE(first % group == 0 && count % group == 0);
          } else {  // heads of one group
            EXPECT_EQ(split.share(gpu, keys).count, 1);
            EXPECT_EQ(first / group, (first + count - 1) / group);
          }
        }
        EXPECT_THAT(times, testing::Each(1U));
      }
    }
  }
}

TEST(HeadSplitDeathTest, RefusesGroupsThatCannotStayWhole)
{
  EXPECT_DEATH((void)(head_split{4, 5, 2}.share(0, 4)), "split over 5 GPUs; take at most one GPU");
  EXPECT_DEATH((void)(head_split{9, 2, 4}.share(0, 9)), "groups of 4 key-value heads and 9 query");
}

TEST(HeadSplitDeathTest, RejectsWhatIsNotThere)
{
  EXPECT_DEATH((void)(head_split{4, 2}.share(2, 4)), "chunk 2 of 2");
  EXPECT_DEATH((void)(head_split{4, 2}.share(0, 5)), "an array has 5 heads");
  EXPECT_DEATH((void)(head_split{4, 2}.used_by(4, 4)), "query head 4 of 4");
}

TEST(HeadBlock, IsInBytes)
{
  // Six query heads on four GPUs: the second has heads 2 and 3, which use 0 and 1 of two.
  head_split::block const block = head_split{6, 4}.block_of(5, 1, {2, 12});
  EXPECT_EQ(block.rows, 5);
  EXPECT_EQ(block.row, 24U);
  EXPECT_EQ(block.first, 0U);
  EXPECT_EQ(block.run, 24U);
  EXPECT_EQ(block.shared, 12U);  // the first GPU's query heads 0 and 1 use head 0
  EXPECT_EQ(block.offset, 0U);
  EXPECT_EQ(block.bytes(), 120U);
  EXPECT_EQ(block.room(), 128U);
  EXPECT_FALSE(block.is_empty());
}

TEST(HeadBlock, IsEmptyWithoutRowsOrHeads)
{
  EXPECT_TRUE((head_split{4, 4}.block_of(0, 1, {4, 8}).is_empty()));
  EXPECT_TRUE((head_split{2, 4}.block_of(7, 3, {2, 8}).is_empty()));
  EXPECT_EQ((head_split{2, 4}.block_of(7, 3, {2, 8}).room()), 0U);
  EXPECT_TRUE(head_split::block{}.is_empty());
}

TEST(HeadBlock, MayBeLongerThanFourGigabytes)
{
  head_split::block const block = head_split{32, 1}.block_of(2'000'000, 0, {32, 256});
  EXPECT_EQ(block.bytes(), std::size_t{2'000'000} * 8192);
}

}  // namespace
