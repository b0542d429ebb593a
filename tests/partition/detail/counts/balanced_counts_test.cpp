#include <ballast/partition/detail/counts/balanced_counts.hpp>  // first: proves it is self-contained

#include "../../../support/instances.hpp"
#include "../../../support/trials.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::tokens;
using testing::ElementsAre;
using count_list = std::vector<std::uint32_t>;

struct bags {
  std::vector<std::uint32_t> gpus;
  std::vector<std::uint32_t> speeds = {};
  std::vector<cost_units> loads = {};
};

count_list counts_of(std::vector<tokens> const& lengths, bags const& given,
                     std::uint32_t multiple = 1)
{
  std::vector<cost_units> loads = given.loads;
  loads.resize(given.gpus.size(), 0);
  ballast::partition_problem const problem{
      {}, lengths, {}, given.gpus, given.speeds.empty() ? given.gpus : given.speeds};
  count_list result(given.gpus.size(), 77);
  ballast::workspace memory;
  ballast::detail::balanced_counts_into(result, problem, loads, multiple, memory);
  return result;
}

std::vector<tokens> const ten(10, 100);

TEST(BalancedCounts, DifferByAtMostOne)  // Ensures (3)
{
  EXPECT_THAT(counts_of(ten, {{1, 1}}), ElementsAre(5, 5));
  EXPECT_THAT(counts_of(ten, {{1, 1, 1, 1}}), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(counts_of({1, 1}, {{1, 1, 1}}), ElementsAre(1, 1, 0));
  EXPECT_THAT(counts_of({}, {{1, 1}}), ElementsAre(0, 0));
  EXPECT_THAT(counts_of(ten, {{1}}), ElementsAre(10));
}

TEST(BalancedCounts, AreLargerForFasterThenForLessLoadedBags)
{
  EXPECT_THAT(counts_of(ten, {{1, 1, 1}, {1, 1, 2}}), ElementsAre(3, 3, 4));
  EXPECT_THAT(counts_of(ten, {{1, 1, 1}, {}, {5, 0, 5}}), ElementsAre(3, 4, 3));
}

TEST(BalancedCounts, AreLargerForFasterBagsOfAnySize)
{
  EXPECT_THAT(counts_of({99, 98, 99, 98}, {{8, 1, 4}}), ElementsAre(2, 1, 1));
  EXPECT_THAT(counts_of(ten, {{2, 8, 4, 1}}), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(counts_of(ten, {{8, 1, 1}, {8, 9, 1}}), ElementsAre(3, 4, 3));
  EXPECT_THAT(counts_of(ten, {{4, 1, 1}}, 3), ElementsAre(4, 3, 3));
  // The fastest may have two, of which too few are long enough for the next.
  EXPECT_THAT(counts_of({9, 9, 9, 2, 2, 1, 1, 1}, {{8, 4, 1}}), ElementsAre(2, 1, 5));
  ballast::random_source random(8);
  for (int trial = 0; trial < 200; ++trial) {
    bags given{std::vector<std::uint32_t>(1 + random.below(6))};
    for (auto& gpus : given.gpus) { gpus = std::uint32_t{1} << random.below(4); }
    std::vector<tokens> const lengths(random.below(40), 100);
    auto const counts = counts_of(lengths, given, static_cast<std::uint32_t>(1 + random.below(4)));
    for (std::size_t a = 0; a < counts.size(); ++a) {
      for (std::size_t b = 0; b < counts.size(); ++b) {
        if (given.gpus[a] > given.gpus[b]) { EXPECT_GE(counts[a], counts[b]); }
      }
    }
  }
}

TEST(BalancedCounts, AreMultiplesButOneThatHasTheRest)  // Ensures (2)
{
  EXPECT_THAT(counts_of(ten, {{1, 1}}, 2), ElementsAre(6, 4));
  EXPECT_THAT(counts_of(ten, {{1, 1}}, 4), ElementsAre(6, 4));
  EXPECT_THAT(counts_of(ten, {{1, 1, 1}}, 4), ElementsAre(4, 4, 2));
  EXPECT_THAT(counts_of(ten, {{1, 1}}, 20), ElementsAre(10, 0));
  EXPECT_THAT(counts_of(ten, {{1, 1}}, std::numeric_limits<std::uint32_t>::max()),
              ElementsAre(10, 0));
}

TEST(BalancedCounts, GiveLargeBagsWhatFitsThem)
{
  // Only two samples have the four tokens that the first bag needs.
  EXPECT_THAT(counts_of({1, 1, 9, 1, 9, 1, 1, 1}, {{4, 1}}), ElementsAre(2, 6));
  // Eight GPUs: one sample; of the other eleven the rest share evenly.
  EXPECT_THAT(counts_of({8, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1, 1}, {{8, 4, 1}}), ElementsAre(1, 5, 6));
  EXPECT_THAT(counts_of({8, 4, 4, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {{8, 4, 1}}), ElementsAre(2, 2, 8));
  // A sample without tokens fits the largest bag.
  EXPECT_THAT(counts_of({0, 0, 1, 1}, {{8, 1}}), ElementsAre(2, 2));
}

TEST(BalancedCounts, PutTheRestWhereCountsAreSmallerWhenItFits)  // Ensures (3)
{
  // Three pairs and one: the larger bag gets two pairs, the other one a pair and the rest.
  EXPECT_THAT(counts_of(std::vector<tokens>(7, 9), {{4, 1}}, 2), ElementsAre(4, 3));
  EXPECT_THAT(counts_of({9, 9, 1, 1, 1, 1, 1}, {{4, 1}}, 2), ElementsAre(2, 5));
}

// Whether some assignment has these counts: what a bag takes, a smaller one takes too, so it is
// enough that for every size the bags of that size and larger ones find samples.
bool possible(std::vector<tokens> const& lengths, std::vector<std::uint32_t> const& gpus,
              count_list const& asked)
{
  return std::ranges::all_of(gpus, [&](std::uint32_t size) {
    std::uint64_t places = 0;
    for (std::size_t bag = 0; bag < gpus.size(); ++bag) {
      places += gpus[bag] >= size ? asked[bag] : 0;
    }
    return places <=
           static_cast<std::uint64_t>(std::ranges::count_if(lengths, [size](tokens length) {
             return ballast::partition_problem::splits(length, size);
           }));
  });
}

std::uint64_t sum_of_squares(count_list const& of)
{
  return std::transform_reduce(of.begin(), of.end(), std::uint64_t{0}, std::plus{},
                               [](std::uint32_t count) { return std::uint64_t{count} * count; });
}

// Oracle: tries all counts that add up to `left`.
std::uint64_t most_even(std::vector<tokens> const& lengths, std::vector<std::uint32_t> const& gpus,
                        count_list& tried, std::size_t bag, std::uint32_t left)
{
  if (bag + 1 == gpus.size()) {
    tried[bag] = left;
    return possible(lengths, gpus, tried) ? sum_of_squares(tried)
                                          : std::numeric_limits<std::uint64_t>::max();
  }
  auto best = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t count = 0; count <= left; ++count) {
    tried[bag] = count;
    best = std::min(best, most_even(lengths, gpus, tried, bag + 1, left - count));
  }
  return best;
}

TEST(BalancedCounts, AreTheMostEvenThatAPlanCanHave)
{
  ballast::random_source random(31);
  for (int trial = 0; trial < ballast_test::trials_of(1000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 12, 4, 6);
    count_list const found = counts_of(step.lengths, {step.gpus});
    ASSERT_TRUE(possible(step.lengths, step.gpus, found));
    count_list tried(step.gpus.size());
    EXPECT_EQ(sum_of_squares(found), most_even(step.lengths, step.gpus, tried, 0,
                                               static_cast<std::uint32_t>(step.lengths.size())));
  }
}

TEST(BalancedCounts, KeepTheirPromisesForEveryMultiple)  // Ensures (1) (2) (3)
{
  ballast::random_source random(32);
  for (int trial = 0; trial < ballast_test::trials_of(3000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 60, 9, 8);
    auto const multiple = static_cast<std::uint32_t>(1 + random.below(9));
    count_list const found = counts_of(step.lengths, {step.gpus}, multiple);
    ASSERT_EQ(std::reduce(found.begin(), found.end()), step.lengths.size());
    ASSERT_TRUE(possible(step.lengths, step.gpus, found));
    EXPECT_LE(std::ranges::count_if(found, [&](auto count) { return count % multiple != 0; }), 1);
    bool const all_fit = possible(step.lengths, {std::ranges::max(step.gpus)},
                                  {static_cast<std::uint32_t>(step.lengths.size())});
    for (std::size_t a = 0; a < found.size(); ++a) {
      for (std::size_t b = 0; b < found.size(); ++b) {
        if (all_fit || step.gpus[a] == step.gpus[b]) {
          EXPECT_LE(found[a], found[b] + multiple) << "bags " << a << " and " << b;
        }
      }
    }
  }
}

}  // namespace
