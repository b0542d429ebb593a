#include <ballast/partition/detail/patterns/pattern_list.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <array>

namespace {

using ballast::detail::pattern_entry;
using ballast::detail::pattern_list;

TEST(PatternList, KeepsPatternsUntilItIsFull)
{
  ballast::workspace memory;
  auto scratch = memory.open();
  pattern_list patterns(3, 4, scratch);
  std::array const pair{pattern_entry{0, 2}, pattern_entry{5, 1}};
  std::array const single{pattern_entry{3, 1}};

  EXPECT_TRUE(patterns.add(pair));
  EXPECT_TRUE(patterns.add(single));
  EXPECT_FALSE(patterns.add(pair)) << "one entry too many";
  EXPECT_TRUE(patterns.add(single));
  EXPECT_FALSE(patterns.add(single)) << "one pattern too many";

  ASSERT_EQ(patterns.size(), 3U);
  EXPECT_EQ(patterns.entries(), 4U);
  ASSERT_EQ(patterns[0].size(), 2U);
  EXPECT_EQ(patterns[0][1].kind, 5U);
  EXPECT_EQ(patterns[0][1].times, 1U);
  ASSERT_EQ(patterns[2].size(), 1U);
  EXPECT_EQ(patterns[2][0].kind, 3U);

  patterns.clear();
  EXPECT_EQ(patterns.size(), 0U);
  EXPECT_TRUE(patterns.add(pair));
  EXPECT_EQ(patterns[0][0].times, 2U);
}

}  // namespace
