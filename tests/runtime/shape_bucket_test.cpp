#include <ballast/runtime/scheduled_step.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using ballast::shape_bucket;
using ballast::tokens;

static_assert(shape_bucket(0) == 0 && shape_bucket(63) == 63);
static_assert(shape_bucket(64) == 64 && shape_bucket(65) == 64 && shape_bucket(66) == 65);
static_assert(shape_bucket(127) == 95 && shape_bucket(128) == 96);

TEST(ShapeBucket, GrowsWithTheSize)  // Ensures (1)
{
  for (tokens size = 1; size < 100'000; ++size) {
    std::uint32_t const before = shape_bucket(size - 1);
    EXPECT_GE(shape_bucket(size), before);
    EXPECT_LE(shape_bucket(size), before + 1);
  }
}

TEST(ShapeBucket, IsBelowTheirNumber)  // Ensures (2)
{
  EXPECT_EQ(shape_bucket(ballast::longest_sample), ballast::shape_buckets - 1);
}

TEST(ShapeBucketDeathTest, RefusesSizesThatNoSampleHas)  // Expects
{
  EXPECT_DEATH((void)shape_bucket(-1), "a sample of size -1 has no shape");
}

}  // namespace
