#include "../support/test.hpp"

namespace {

using ballast::certified;
using ballast::ratio;

TEST(Certified, SaysHowFarAPlanCanBeFromTheBest)
{
  constexpr certified<ratio> plan{{5, 2}, {2, 1}};
  EXPECT_EQ(plan.gap(), 0.25);
  EXPECT_FALSE(plan.proven_optimal());
  EXPECT_TRUE(plan.proven_within(0.25));
  EXPECT_FALSE(plan.proven_within(0.2));
  constexpr certified<std::int64_t> best{7, 7};
  EXPECT_EQ(best.gap(), 0);
  EXPECT_TRUE(best.proven_optimal());
  EXPECT_EQ(certified<std::int64_t>{}.gap(), 0);
}

}  // namespace
