// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>

#include "../support/test.hpp"

namespace {

using ballast::chunk;
using ballast::chunk_of;

static_assert(chunk_of(10, 4, 0) == chunk{0, 3});
static_assert(chunk_of(10, 4, 1) == chunk{3, 3});
static_assert(chunk_of(10, 4, 2) == chunk{6, 2});
static_assert(chunk_of(10, 4, 3) == chunk{8, 2});
static_assert(chunk_of(2, 4, 1) == chunk{1, 1});
static_assert(chunk_of(2, 4, 2) == chunk{2, 0});

RC_GTEST_PROP(ChunkOf, CoversTheWholeInOrderWithCountsThatDifferByOne,
              ())  // Ensures (1) (2) (3)
{
  auto const length = *rc::gen::inRange<std::int64_t>(0, 5000);
  auto const parts = *rc::gen::inRange<std::uint32_t>(1, 130);
  std::int64_t next = 0;
  for (std::uint32_t index = 0; index < parts; ++index) {
    chunk const part = chunk_of(length, parts, index);
    RC_ASSERT(part.first == next);
    RC_ASSERT(part.count == length / parts || part.count == length / parts + 1);
    RC_ASSERT(part.count > 0 || length < parts);
    next += part.count;
  }
  RC_ASSERT(next == length);
}

TEST(ChunkOf, CountsInSixtyFourBits)
{
  constexpr std::int64_t length = std::numeric_limits<std::int64_t>::max();
  chunk const last = chunk_of(length, 3, 2);
  EXPECT_EQ(last.first + last.count, length);
}

TEST(ChunkOfDeathTest, RefusesAnIndexThatIsNone)
{
  EXPECT_DEATH((void)chunk_of(10, 4, 4), "chunk 4 of 4");
  EXPECT_DEATH((void)chunk_of(10, 0, 0), "chunk 0 of 0");
  EXPECT_DEATH((void)chunk_of(-1, 4, 0), "there are -1 items");
}

}  // namespace
