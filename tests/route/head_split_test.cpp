// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/head_array.hpp>

#include <ballast/route/placement.hpp>

#include "../support/test.hpp"
#include "bag_arrays.hpp"

namespace {

using ballast::chunk;
using ballast::head_split;
using ballast_test::bag_case;

static_assert(head_split{8, 2}.share(1, 4) == chunk{2, 2});
static_assert(!head_split{8, 2}.replicates(8) && head_split{8, 2}.replicates(1));

RC_GTEST_PROP(HeadSplit, GivesEveryGpuTheHeadsThatItsQueryHeadsUse, ())  // Ensures (1) (2) (3)
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
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

}  // namespace
