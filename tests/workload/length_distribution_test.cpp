// SPDX-License-Identifier: Apache-2.0
#include <ballast/workload/length_distribution.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace {

using ballast::draw_lengths;
using ballast::length_distribution;
using ballast::random_source;
using ballast::tokens;
using testing::IsEmpty;

// What a distribution must be, and nothing more.
struct archetype {
  archetype() = delete;
  explicit archetype(tokens first_bound) : bound(first_bound) {}
  tokens operator()(random_source& random) const { return random.between(0, bound); }
  tokens bound;
};

struct changes_itself {
  tokens operator()(random_source&) { return 1; }
};

struct draws_reals {
  double operator()(random_source&) const { return 1; }
};

static_assert(length_distribution<archetype>);
static_assert(!length_distribution<changes_itself>);
static_assert(!length_distribution<draws_reals>);
static_assert(!length_distribution<tokens>);

TEST(DrawLengths, DrawsOneAfterTheOther)
{
  random_source random(5);
  random_source again(5);
  archetype const draw(1000);
  std::vector<tokens> const lengths = draw_lengths(draw, 3, random);
  EXPECT_EQ(lengths, (std::vector<tokens>{again.between(0, 1000), again.between(0, 1000),
                                          again.between(0, 1000)}));
  EXPECT_EQ(random(), again());
  EXPECT_THAT(draw_lengths(draw, 0, random), IsEmpty());
}

}  // namespace
