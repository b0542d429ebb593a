#include <ballast/partition/detail/greedy/differenced_groups.hpp>  // first: proves it is self-contained

#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/partition/descending_order.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using cost_list = std::vector<cost_units>;

struct differenced {
  std::vector<bag_id> owner;
  cost_list loads;
};

differenced difference(cost_list const& of, cost_list loads)
{
  ballast::workspace memory;
  std::vector<ballast::priced_sample> order(of.size());
  ballast::descending_order_into(order, of, memory);
  differenced result{std::vector<bag_id>(of.size(), ballast::to_id<bag_id>(loads.size())),
                     std::move(loads)};
  auto scratch = memory.open();
  ballast::detail::differenced_groups groups(order, result.loads, scratch);
  groups.merge_all();
  groups.store(result.loads, result.owner);
  return result;
}

// Oracle for two bags or more: every partial plan as m loads in decreasing order, all of them in a
// list. Which of two groups of equal load goes where does not change loads, so these say it all.
cost_list difference_in_full(cost_list const& of, cost_list loads)
{
  struct partial_plan {
    cost_list groups;
    std::size_t age;  // the lower, the older; samples are the youngest
    [[nodiscard]] cost_units difference() const { return groups.front() - groups.back(); }
  };
  std::size_t const bags = loads.size();
  std::ranges::sort(loads, std::greater{});
  std::vector<partial_plan> plans{{loads, 0}};
  cost_list sorted = of;
  std::ranges::sort(sorted, std::greater{});
  std::size_t age = of.size();
  for (cost_units const cost : sorted) {
    plans.push_back({cost_list(bags, 0), ++age});
    plans.back().groups.front() = cost;
  }
  std::size_t next_age = 1;
  auto const take = [&plans] {
    auto const first = std::ranges::min_element(plans, [](auto const& a, auto const& b) {
      return std::pair(-a.difference(), a.age) < std::pair(-b.difference(), b.age);
    });
    partial_plan taken = *first;
    plans.erase(first);
    return taken;
  };
  while (plans.size() > 1) {
    partial_plan a = take();
    partial_plan const b = take();
    for (std::size_t bag = 0; bag < bags; ++bag) { a.groups[bag] += b.groups[bags - 1 - bag]; }
    std::ranges::sort(a.groups, std::greater{});
    std::size_t const older = std::min(a.age, b.age);
    a.age = older <= of.size() ? older : next_age++;
    plans.push_back(a);
  }
  return plans.front().groups;
}

void expect_differenced(cost_list const& of, cost_list const& loads)
{
  differenced const result = difference(of, loads);
  cost_list recomputed = loads;
  for (std::size_t sample = 0; sample < of.size(); ++sample) {
    ASSERT_LT(to_index(result.owner[sample]), loads.size());
    recomputed[to_index(result.owner[sample])] += of[sample];
  }
  ASSERT_EQ(result.loads, recomputed);
  std::ranges::sort(recomputed, std::greater{});
  ASSERT_EQ(recomputed, difference_in_full(of, loads));
}

TEST(DifferencedGroups, AgreeWithPartialPlansWrittenOutInFull)
{
  ballast::random_source random(13);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    cost_list of(random.below(60));
    cost_list loads(2 + random.below(9));
    cost_units const heaviest = random.below(2) == 0 ? 6 : 10'000;
    cost_units const most_before = random.below(2) == 0 ? 0 : 2 * heaviest;
    for (cost_units& cost : of) { cost = random.between(0, heaviest); }
    for (cost_units& load : loads) { load = random.between(0, most_before); }
    expect_differenced(of, loads);
    if (HasFatalFailure()) { return; }
  }
}

RC_GTEST_PROP(DifferencedGroups, AddUpWhateverTheCosts, ())
{
  cost_list const of = *rc::gen::container<cost_list>(rc::gen::inRange<cost_units>(0, 100));
  cost_list const loads =
      *rc::gen::nonEmpty(rc::gen::container<cost_list>(rc::gen::inRange<cost_units>(0, 100)));
  differenced const result = difference(of, loads);
  cost_list recomputed = loads;
  for (std::size_t sample = 0; sample < of.size(); ++sample) {
    recomputed.at(to_index(result.owner[sample])) += of[sample];
  }
  RC_ASSERT(result.loads == recomputed);
}

TEST(DifferencedGroups, MergeAsTheTextbookDoes)
{
  // 8 7 6 5 4: 8 and 7 apart leave 1, 6 and 5 leave 1, 4 and 1 leave 3, and 3 and 1 leave 2.
  EXPECT_EQ(difference_in_full({8, 7, 6, 5, 4}, {0, 0}), (cost_list{16, 14}));
  expect_differenced({8, 7, 6, 5, 4}, {0, 0});
}

TEST(DifferencedGroups, HaveAnswersAtTheEdges)
{
  EXPECT_EQ(difference({}, {3, 1}).loads, (cost_list{3, 1}));
  EXPECT_EQ(difference({4, 0, 5}, {7}).loads, (cost_list{16}));
  EXPECT_EQ(difference({4}, {0, 0, 0}).loads, (cost_list{4, 0, 0}));
  EXPECT_EQ(difference({4, 1}, {1, 4}).loads, (cost_list{5, 5}));
  EXPECT_EQ(difference({0, 0}, {1, 4}).loads, (cost_list{1, 4}));
}

}  // namespace
