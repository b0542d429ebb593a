#include <ballast/partition/detail/patterns/pattern_search.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::tokens;
using ballast::detail::bag_completion;
using ballast::detail::completion;
using ballast::detail::open_bag;
using ballast::detail::pattern_search;
using ballast::detail::work_budget;

constexpr std::uint64_t pattern_nodes = std::uint64_t{1} << 24;

/// The search on these costs and bags of this room, and a check of what it found.
completion search_patterns(std::vector<cost_units> costs, std::size_t m, cost_units room,
                           std::uint64_t most_nodes = pattern_nodes)
{
  std::ranges::sort(costs, std::greater{});
  std::vector<ballast::priced_sample> samples;
  for (cost_units const cost : costs) {
    samples.push_back({cost, ballast::to_id<ballast::sample_id>(samples.size())});
  }
  std::vector<open_bag> bags;
  for (std::uint32_t bag = 0; bag < m; ++bag) { bags.push_back({room, 1, bag}); }
  std::vector<tokens> const lengths(samples.size(), 1);
  ballast::workspace memory;
  auto scratch = memory.open();
  bag_completion complete(samples.size(), lengths, m, scratch);
  pattern_search search(samples, room, complete, scratch);
  work_budget nodes(most_nodes);
  completion const end = search(bags, nodes);
  if (end == completion::found) {
    std::vector<cost_units> left(m, room);
    for (std::size_t place = 0; place < samples.size(); ++place) {
      left.at(search.owners()[place]) -= samples[place].cost;
    }
    EXPECT_GE(*std::min_element(left.begin(), left.end()), 0);
  }
  return end;
}

/// The costs of three samples each that fill bags of 1,000.
std::vector<cost_units> full_bags(ballast::random_source& random, std::size_t m)
{
  std::vector<cost_units> costs;
  for (std::size_t bag = 0; bag < m; ++bag) {
    cost_units const first = random.between(200, 600);
    cost_units const second = random.between(100, 999 - first);
    costs.insert(costs.end(), {first, second, 1000 - first - second});
  }
  return costs;
}

TEST(PatternSearch, FindsPlansThatFillAllBagsExactly)
{
  ballast::random_source random(20261108);
  int found = 0;
  for (int trial = 0; trial < 6; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    completion const end = search_patterns(full_bags(random, 20), 20, 1000);
    EXPECT_NE(end, completion::impossible);
    found += end == completion::found;
  }
  EXPECT_GE(found, 4);
}

TEST(PatternSearch, IsRightHoweverFewNodesItHas)
{
  ballast::random_source random(20261110);
  std::vector<cost_units> const costs = full_bags(random, 20);
  for (std::uint64_t nodes = 1; nodes < 100'000; nodes += 1 + nodes / 16) {
    SCOPED_TRACE(testing::Message() << nodes << " nodes");
    EXPECT_NE(search_patterns(costs, 20, 1000, nodes), completion::impossible);
  }
}

TEST(PatternSearch, RefutesWhatSimpleBoundsAllow)
{
  // Thirds and a little more: two to a bag, though all together would fill 14.02 bags of 15.
  std::vector<cost_units> costs(31, 340);
  costs.insert(costs.end(), 31, 112);
  EXPECT_EQ(search_patterns(costs, 15, 1000), completion::impossible);
  EXPECT_EQ(search_patterns(costs, 16, 1000), completion::found);
}

TEST(PatternSearch, LooksAtSmallTablesOnly)
{
  EXPECT_TRUE(pattern_search::may_fit(100, 40, 2000));
  EXPECT_TRUE(pattern_search::may_fit(100, 25, 20'000)) << "48 samples of the last 12 bags";
  EXPECT_FALSE(pattern_search::may_fit(100, 25, 25'000));
  EXPECT_FALSE(pattern_search::may_fit(2048, 64, 100)) << "384 samples";
  EXPECT_FALSE(pattern_search::may_fit(100, 25, ballast::cost_units{1} << 60));
  EXPECT_TRUE(pattern_search::may_fit(9, 3, 1000));
}

}  // namespace
