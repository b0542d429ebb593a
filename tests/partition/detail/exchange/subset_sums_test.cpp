#include <ballast/partition/detail/exchange/subset_sums.hpp>  // first: proves it is self-contained

#include <ballast/core/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::subset_sum;
using subset_words = std::vector<std::uint64_t>;

subset_words list(std::vector<cost_units> const& costs)
{
  subset_words sums(std::size_t{1} << costs.size());
  subset_words half((sums.size() + 1) / 2);
  ballast::detail::subset_sums_into(sums, costs, half);
  return sums;
}

// Oracle: adds up every subset and sorts.
subset_words add_and_sort(std::vector<cost_units> const& costs)
{
  subset_words sums(std::size_t{1} << costs.size());
  for (std::size_t members = 0; members < sums.size(); ++members) {
    cost_units sum = 0;
    for (std::size_t place = 0; place < costs.size(); ++place) {
      sum += (members >> place & 1) != 0 ? costs[place] : 0;
    }
    sums[members] = subset_sum::pack(sum, members);
  }
  std::ranges::sort(sums);
  return sums;
}

TEST(SubsetSums, ListsEverySubsetOnceInOrder)  // Ensures (1)
{
  ballast::random_source random(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<cost_units> costs(random.below(subset_sum::most_members - 2));
    cost_units const heaviest = trial % 3 == 0 ? 2 : 1 << 20;  // ties and zeros, or hardly any
    for (cost_units& cost : costs) { cost = random.between(0, heaviest); }
    SCOPED_TRACE(testing::Message() << "trial " << trial << " of " << costs.size() << " costs");
    ASSERT_EQ(list(costs), add_and_sort(costs));
  }
}

TEST(SubsetSums, TakesTheMostMembersAndTheLargestSums)
{
  std::vector<cost_units> costs(subset_sum::most_members,
                                (subset_sum::sum_limit - 1) / subset_sum::most_members);
  costs.back() += (subset_sum::sum_limit - 1) % subset_sum::most_members;
  subset_words const sums = list(costs);
  EXPECT_EQ(sums, add_and_sort(costs));
  EXPECT_EQ(subset_sum::sum(sums.back()), subset_sum::sum_limit - 1);
  EXPECT_EQ(subset_sum::members(sums.back()), subset_sum::every_member);
  EXPECT_LT(sums.back(), subset_sum::end);
}

TEST(SubsetSums, HasOneSubsetOfNothing)
{
  EXPECT_EQ(list({}), subset_words{0});
}

TEST(SubsetSums, SplitsAMergeAnywhere)
{
  subset_words const first{1, 4, 6, 9, 20};
  subset_words const second{2, 3, 5, 7, 8, 30};
  auto const in_second = [&second](std::size_t place) { return second[place]; };
  std::vector<std::size_t> const from_first{0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 5};
  for (std::size_t taken = 0; taken < from_first.size(); ++taken) {
    EXPECT_EQ(ballast::detail::merged_from_first(first, in_second, second.size(), taken),
              from_first[taken])
        << "of the first " << taken;
  }
}

TEST(SubsetSumsDeathTest, RefusesMoreMembersThanAWordNames)
{
  std::vector<cost_units> const costs(subset_sum::most_members + 1, 1);
  EXPECT_DEATH((void)list(costs), "most_members");
}

TEST(SubsetSums, NameTheirMembersInOrder)
{
  std::vector<char> const candidates{'a', 'b', 'c', 'd'};
  std::vector<char> listed(4, '-');
  EXPECT_EQ(ballast::detail::list_members<char>(0b1010, candidates, listed), 2U);
  EXPECT_EQ(listed, (std::vector{'b', 'd', '-', '-'}));
  EXPECT_EQ(ballast::detail::list_members<char>(0, candidates, listed), 0U);
  EXPECT_EQ(ballast::detail::list_members<char>(0b1111, candidates, listed), 4U);
  EXPECT_EQ(listed, candidates);
}

}  // namespace
