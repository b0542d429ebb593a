#include <ballast/partition/detail/padding/attention_items.hpp>  // first: proves it is self-contained

#include "../../../support/attention_checks.hpp"

#include <gtest/gtest.h>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <vector>

namespace {

TEST(AttentionItems, AreInDescendingOrderOfAttention)
{
  ballast::random_source random(2);
  for (int trial = 0; trial < 200; ++trial) {
    ballast_test::attention_problem const problem(
        ballast_test::attention_instance(random, 20, 4, 1));
    ballast::workspace memory;
    auto scratch = memory.open();
    auto const items = ballast::detail::sorted_attention_items(problem.view(), scratch);
    ASSERT_EQ(items.size(), problem.of.attention.size());
    std::vector<bool> seen(items.size());
    std::vector<std::size_t> all;
    for (std::size_t place = 0; place < items.size(); ++place) {
      std::uint32_t const sample = items[place].sample;
      all.push_back(sample);
      ASSERT_FALSE(seen[sample]);
      seen[sample] = true;
      EXPECT_EQ(items[place].padded, problem.of.attention[sample]);
      EXPECT_EQ(items[place].packed + items[place].padded, problem.of.step.costs[sample]);
      if (place > 0) { EXPECT_GE(items[place - 1].padded, items[place].padded); }
    }
    EXPECT_EQ(ballast::detail::cost_of_one_batch(items), problem.of.load_of(all));
  }
}

}  // namespace
