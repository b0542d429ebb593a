#include <ballast/partition/detail/counts/counted_bags.hpp>  // first: proves it is self-contained

#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/partition/detail/counts/balanced_counts.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::priced_sample;
using ballast::ratio;
using ballast::detail::counted_bags;

bool heaviest_first(std::span<priced_sample const> members)
{
  return std::ranges::is_sorted(members, [](auto a, auto b) { return a.cost > b.cost; });
}

TEST(CountedBags, HoldWhatWasAskedOfSamplesThatFit)  // Ensures (1)
{
  ballast::random_source random(51);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::direct_problem const given(ballast_test::random_instance(random, 40, 9, 8));
    std::size_t const bags = given.step.gpus.size();
    std::vector<cost_units> loads(bags);
    for (auto& load : loads) { load = trial % 4 == 0 ? random.between(0, 3000) : 0; }
    std::vector<cost_units> const starting = loads;
    std::vector<std::uint32_t> counts(bags);
    ballast::workspace memory;
    ballast::detail::balanced_counts_into(counts, given.view(), loads,
                                          static_cast<std::uint32_t>(1 + random.below(4)), memory);
    auto frame = memory.open();
    counted_bags const filled(given.view(), counts, loads, frame);

    std::vector<bag_id> owner(given.step.costs.size(), bag_id{77});
    filled.store(owner);
    for (std::size_t bag = 0; bag < bags; ++bag) {
      ASSERT_EQ(filled[bag].size(), counts[bag]);
      EXPECT_TRUE(heaviest_first(filled[bag]));
      cost_units load = starting[bag];
      for (auto const [cost, sample] : filled[bag]) {
        EXPECT_TRUE(ballast::partition_problem::splits(given.step.lengths[to_index(sample)],
                                                       given.step.gpus[bag]));
        EXPECT_EQ(cost, given.step.costs[to_index(sample)]);
        EXPECT_EQ(to_index(owner[to_index(sample)]), bag);
        load += cost;
      }
      EXPECT_EQ(loads[bag], load);
    }
  }
}

// Oracle: scans all bags with a free place for every sample, and fills up each in thought with the
// lightest samples of all. Bags of one size, which every sample fits.
std::vector<bag_id> scan_open_bags(ballast_test::direct_problem const& given,
                                   std::vector<std::uint32_t> free_places)
{
  std::vector<cost_units> loads(free_places.size(), 0);
  auto const at_best = [&](std::size_t bag, std::uint32_t places) {
    cost_units load = loads[bag];
    for (std::uint32_t place = 0; place < places; ++place) {
      load += given.heaviest_first[given.heaviest_first.size() - 1 - place].cost;
    }
    return load;
  };
  std::vector<bag_id> owner(given.step.costs.size());
  for (auto const [cost, sample] : given.heaviest_first) {
    // Of bags of one speed the one that ends with least before the sample, then over speeds.
    std::map<std::uint32_t, std::size_t> of_speed;
    for (std::size_t bag = 0; bag < free_places.size(); ++bag) {
      if (free_places[bag] == 0) { continue; }
      auto const [best, is_first] = of_speed.emplace(given.speeds[bag], bag);
      if (!is_first &&
          at_best(bag, free_places[bag]) < at_best(best->second, free_places[best->second])) {
        best->second = bag;
      }
    }
    std::size_t chosen = free_places.size();
    ratio earliest;
    for (auto const& [speed, bag] : of_speed) {
      ratio const finish{at_best(bag, free_places[bag] - 1) + cost, speed};
      if (chosen == free_places.size() || finish < earliest) {
        chosen = bag;
        earliest = finish;
      }
    }
    loads[chosen] += cost;
    --free_places[chosen];
    owner[to_index(sample)] = ballast::to_id<bag_id>(chosen);
  }
  return owner;
}

TEST(CountedBags, LeaveTheLightestSamplesToAGiant)
{
  // The giant is lighter than the other bag once that has 40 + 30, and longest processing time
  // would give it the 20; with a 1 in its free place it can end with less.
  ballast_test::direct_problem const given({{1, 1, 1, 1, 1, 1}, {69, 40, 30, 20, 1, 1}, {1, 1}});
  std::vector<cost_units> loads(2, 0);
  ballast::workspace memory;
  auto frame = memory.open();
  counted_bags const bags(given.view(), std::vector<std::uint32_t>{3, 3}, loads, frame);
  EXPECT_EQ(bags[0].size(), 3U);
  std::ranges::sort(loads);
  EXPECT_EQ(loads, (std::vector<cost_units>{71, 90}));
}

TEST(CountedBags, AgreeWithAScanOfAllBags)  // Ensures (2)
{
  ballast::random_source random(52);
  for (int trial = 0; trial < ballast_test::trials_of(2000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast_test::direct_problem const given(ballast_test::random_instance(random, 30, 8, 1));
    std::vector<std::uint32_t> counts(given.step.gpus.size(), 0);
    for (std::size_t sample = 0; sample < given.step.costs.size(); ++sample) {
      ++counts[random.below(counts.size())];
    }
    std::vector<cost_units> loads(counts.size(), 0);
    ballast::workspace memory;
    auto frame = memory.open();
    std::vector<bag_id> owner(given.step.costs.size());
    counted_bags(given.view(), counts, loads, frame).store(owner);
    ASSERT_EQ(owner, scan_open_bags(given, counts));
  }
}

TEST(CountedBags, KeepOrderAndLoadsThroughSwaps)
{
  ballast::random_source random(53);
  ballast_test::instance step{{}, {}, {1, 1, 1}};
  for (int sample = 0; sample < 30; ++sample) {
    step.lengths.push_back(1);
    step.costs.push_back(random.between(0, 12));
  }
  ballast_test::direct_problem const given(step);
  std::vector<std::uint32_t> const counts{9, 10, 11};
  std::vector<cost_units> loads(3, 0);
  ballast::workspace memory;
  auto frame = memory.open();
  counted_bags const bags(given.view(), counts, loads, frame);
  for (int trial = 0; trial < 500; ++trial) {
    std::size_t const bag = random.below(3);
    std::size_t const other = (bag + 1 + random.below(2)) % 3;
    auto const place = static_cast<std::uint32_t>(random.below(counts[bag] - 1));
    auto const other_place = static_cast<std::uint32_t>(random.below(counts[other] - 1));
    bags.swap(bag, std::array{place, place + 1}, other, std::array{other_place, other_place + 1});
    for (std::size_t each = 0; each < 3; ++each) {
      ASSERT_TRUE(heaviest_first(bags[each]));
      cost_units load = 0;
      for (auto const member : bags[each]) { load += member.cost; }
      ASSERT_EQ(loads[each], load);
    }
  }
  std::vector<bag_id> owner(30, bag_id{3});
  bags.store(owner);
  EXPECT_EQ(std::ranges::count(owner, bag_id{2}), 11);
}

TEST(CountedBagsDeathTest, RefuseCountsOfAnotherStep)
{
  ballast_test::direct_problem const given({{1, 1}, {2, 3}, {1, 1}});
  std::vector<cost_units> loads(2, 0);
  ballast::workspace memory;
  auto frame = memory.open();
  EXPECT_DEATH(counted_bags(given.view(), std::vector<std::uint32_t>{1, 2}, loads, frame),
               "first_.back");
}

}  // namespace
