// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/head_split.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/route/chunking.hpp>

#include <cstdint>

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
  head_split const split{bag.query_heads, bag.gpus};
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

TEST(HeadSplitDeathTest, RejectsWhatIsNotThere)
{
  EXPECT_DEATH((void)(head_split{4, 2}.share(2, 4)), "chunk 2 of 2");
  EXPECT_DEATH((void)(head_split{4, 2}.share(0, 5)), "an array has 5 heads");
  EXPECT_DEATH((void)(head_split{4, 2}.used_by(4, 4)), "query head 4 of 4");
}

}  // namespace
