#include <ballast/partition/detail/search/bag_completion.hpp>  // first: proves it is self-contained

#include "../../../support/samples_that_cost.hpp"

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::priced_sample;
using ballast::tokens;
using ballast::detail::bag_completion;
using ballast::detail::completion;
using ballast::detail::open_bag;
using ballast::detail::work_budget;

struct task {
  std::vector<cost_units> costs;  // descending
  std::vector<tokens> lengths;
  std::vector<open_bag> bags;

  [[nodiscard]] bool has_place(std::size_t sample, std::size_t bag) const
  {
    return ballast::partition_problem::splits(lengths[sample], bags[bag].gpus) &&
           costs[sample] <= bags[bag].room;
  }
  [[nodiscard]] bool possible(std::size_t sample = 0)
  {
    if (sample == costs.size()) { return true; }
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      if (!has_place(sample, bag)) { continue; }
      bags[bag].room -= costs[sample];
      bool const rest = possible(sample + 1);
      bags[bag].room += costs[sample];
      if (rest) { return true; }
    }
    return false;
  }
};

/// What the search says, and a check of the placement that it found.
completion search(task const& step, work_budget& nodes)
{
  auto const samples = ballast_test::samples_that_cost(step.costs);
  ballast::workspace memory;
  auto scratch = memory.open();
  bag_completion fill(samples.size(), step.lengths, step.bags.size(), scratch);
  work_budget const given = nodes;
  completion const first = fill(samples, step.bags, nodes);
  if (first == completion::found) {
    std::vector<open_bag> bags = step.bags;
    for (std::size_t sample = 0; sample < samples.size(); ++sample) {
      std::size_t const bag = fill.owners()[sample];
      EXPECT_LT(bag, bags.size());
      if (testing::Test::HasFailure()) { return first; }
      EXPECT_TRUE(ballast::partition_problem::splits(step.lengths[sample], bags[bag].gpus));
      bags[bag].room -= step.costs[sample];
    }
    for (open_bag const bag : bags) { EXPECT_GE(bag.room, 0); }
  }
  work_budget again = given;  // nothing of a search is left over to the next
  EXPECT_EQ(fill(samples, step.bags, again), first);
  EXPECT_EQ(again.left(), nodes.left());
  return first;
}

task random_task(ballast::random_source& random, bool alike)
{
  task step;
  step.costs.resize(random.below(9));
  cost_units total = 0;
  for (auto& cost : step.costs) {
    cost = random.between(1, random.below(2) == 0 ? 6 : 90);
    total += cost;
  }
  std::ranges::sort(step.costs, std::greater{});
  std::size_t const bags = 1 + random.below(4);
  cost_units const mean = total / static_cast<cost_units>(bags) + 1;
  cost_units const more = random.between(-1, 4);
  std::uint32_t const most_gpus = alike || random.below(2) == 0 ? 1 : 3;
  for (std::size_t bag = 0; bag < bags; ++bag) {
    cost_units const room = mean + (alike ? more : random.between(-9, 10));
    auto const gpus = static_cast<std::uint32_t>(1 + random.below(most_gpus));
    step.bags.push_back({std::max<cost_units>(room, 0), gpus, 0});
  }
  std::ranges::sort(step.bags, [](open_bag a, open_bag b) {
    return std::pair(b.gpus, a.room) < std::pair(a.gpus, b.room);
  });
  auto const last = static_cast<tokens>(step.bags.back().gpus);
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    step.lengths.push_back(random.below(6) == 0 ? 0 : last + random.between(0, 2));
  }
  return step;
}

void expect_right_results(bool alike, std::uint64_t seed)
{
  ballast::random_source random(seed);
  int possible = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    task step = random_task(random, alike);
    work_budget nodes(1'000'000);
    bool const solvable = step.possible();
    ASSERT_EQ(search(step, nodes), solvable ? completion::found : completion::impossible);
    ASSERT_FALSE(nodes.spent());
    if (testing::Test::HasFailure()) { return; }
    possible += solvable ? 1 : 0;
  }
  EXPECT_GT(possible, trials / 5);
  EXPECT_LT(possible, trials - trials / 5);
}

TEST(BagCompletion, DecidesRightlyForBagsThatAreAlike)  // Ensures (1) (2)
{
  expect_right_results(true, 71);
}

TEST(BagCompletion, DecidesRightlyForBagsThatDiffer)  // Ensures (1) (2)
{
  expect_right_results(false, 72);
}

TEST(BagCompletion, EndsWhenNodesDo)  // Ensures (3)
{
  ballast::random_source random(73);
  task step;
  cost_units total = 0;
  for (int sample = 0; sample < 100; ++sample) {
    step.costs.push_back(random.between(1, 1'000'000'000));
    total += step.costs.back();
  }
  std::ranges::sort(step.costs, std::greater{});
  step.lengths.assign(step.costs.size(), 1);
  step.bags.assign(25, {total / 25 + 1, 1, 0});
  for (std::uint64_t const given : {0U, 1U, 99U, 1000U, 100'000U}) {
    work_budget nodes(given);
    EXPECT_EQ(search(step, nodes), completion::out_of_nodes);
    EXPECT_TRUE(nodes.spent());
  }
}

TEST(BagCompletion, SaysAtOnceWhatCannotBe)
{
  work_budget nodes(1000);
  EXPECT_EQ(search({{5, 5}, {1, 1}, {{4, 1, 0}, {5, 1, 0}}}, nodes), completion::impossible);
  EXPECT_EQ(nodes.left(), 1000U);  // the rooms add up to less than the costs
  EXPECT_EQ(search({{5, 5, 5}, {1, 1, 1}, {{8, 1, 0}, {8, 1, 0}}}, nodes), completion::impossible);
  EXPECT_EQ(nodes.left(), 997U);  // the bound refuted it with the samples of the first bag
  EXPECT_EQ(search({{}, {}, {{0, 1, 0}, {0, 1, 0}}}, nodes), completion::found);
  EXPECT_EQ(search({{7}, {1}, {{7, 1, 0}}}, nodes), completion::found);
}

TEST(BagCompletion, StopsWhereTheFirstBagsAreFilled)
{
  auto const samples = ballast_test::samples_that_cost({7, 6, 6, 5, 5});
  std::vector<tokens> const lengths(samples.size(), 1);
  std::vector<open_bag> const bags{{10, 1, 0}, {10, 1, 1}, {10, 1, 2}};
  ballast::workspace memory;
  auto scratch = memory.open();
  bag_completion fill(samples.size(), lengths, bags.size(), scratch);
  work_budget nodes(1000);
  EXPECT_EQ(fill(samples, bags, nodes), completion::impossible);
  std::vector<priced_sample> const fewer(samples.begin() + 1, samples.end());
  for (std::size_t filled = 0; filled < bags.size(); ++filled) {
    ASSERT_EQ(fill(fewer, bags, nodes, filled), completion::found);
    std::vector<cost_units> left(filled, 10);
    for (std::size_t place = 0; place < fewer.size(); ++place) {
      if (fill.owners()[place] < filled) { left[fill.owners()[place]] -= fewer[place].cost; }
    }
    for (cost_units const room : left) {
      EXPECT_GE(room, 0);
      EXPECT_LT(room, 10);
    }
  }
}

}  // namespace
