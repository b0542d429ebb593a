#include <ballast/partition/detail/capacity/within_capacities.hpp>

#include "../../../support/direct_problem.hpp"
#include "../../../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;
using ballast::detail::bags_with_room;
using ballast::detail::exchange_counts;

// A plan that deals the samples out in turn, without a look at costs or weights.
struct search_case {
  direct_problem given;
  std::vector<cost_units> loads;
  std::vector<bag_id> owner = {};
  workspace memory = {};

  explicit search_case(direct_problem problem)
      : given(std::move(problem)), loads(given.step.gpus.size(), 0)
  {
    for (std::size_t sample = 0; sample < given.step.costs.size(); ++sample) {
      std::size_t const bag = sample % loads.size();
      owner.push_back(to_id<bag_id>(bag));
      loads[bag] += given.step.costs[sample];
    }
  }

  bool search(exchange_counts counts, std::uint64_t work)
  {
    std::vector<cost_units> const starts(loads.size(), 0);
    auto frame = memory.open();
    bags_with_room const bags(given.view(), loads, owner, frame);
    ballast::detail::cheapest_cover const cover(given.view(), frame);
    ballast::detail::capacity_search find(given.view(), bags, ratio{0, 1}, counts, work, memory,
                                          frame);
    return counts == exchange_counts::free ? find.search(starts, cover, work)
                                           : find.search_counts(starts);
  }
};

search_case drawn_search(std::uint64_t seed, std::int64_t slack)
{
  random_source random(seed);
  instance step{std::vector<tokens>(40, 9), {}, std::vector<std::uint32_t>(5, 1)};
  std::vector<std::int64_t> weights;
  for (std::size_t sample = 0; sample < 40; ++sample) {
    step.costs.push_back(random.between(1, 40'000));
    weights.push_back(random.between(1, 4'000));
  }
  std::int64_t const total = std::reduce(weights.begin(), weights.end(), std::int64_t{0});
  return search_case{
      direct_problem(step, weights, std::vector<std::int64_t>(5, total * slack / 500))};
}

TEST(CapacitySearch, KeepsToCapacitiesAndToNumbersOfSamples)  // Ensures (1) (3)
{
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (auto const counts : {exchange_counts::free, exchange_counts::equal}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      search_case step = drawn_search(seed, 103);
      ASSERT_TRUE(step.search(counts, 50'000));
      std::vector<std::int64_t> held(5, 0);
      std::vector<cost_units> costs(5, 0);
      std::vector<int> samples(5, 0);
      for (std::size_t sample = 0; sample < step.owner.size(); ++sample) {
        std::size_t const bag = to_index(step.owner[sample]);
        held[bag] += step.given.weights[sample];
        costs[bag] += step.given.step.costs[sample];
        ++samples[bag];
      }
      EXPECT_LE(std::ranges::max(held), step.given.capacities[0]);
      EXPECT_EQ(costs, step.loads);
      if (counts == exchange_counts::equal) { EXPECT_EQ(samples, std::vector<int>(5, 8)); }
    }
  }
}

TEST(CapacitySearch, NeverMakesAPlanLaterThatKeepsToCapacities)  // Ensures (2)
{
  int earlier = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    search_case idle = drawn_search(seed, 300);
    ASSERT_TRUE(idle.search(exchange_counts::free, 0));
    search_case busy = drawn_search(seed, 300);
    ASSERT_TRUE(busy.search(exchange_counts::free, 50'000));
    EXPECT_LE(std::ranges::max(busy.loads), std::ranges::max(idle.loads));
    earlier += std::ranges::max(busy.loads) < std::ranges::max(idle.loads) ? 1 : 0;
  }
  EXPECT_GT(earlier, 35);
}

TEST(CapacitySearch, SaysWhereNoPlanKeepsToCapacities)
{
  for (auto const counts : {exchange_counts::free, exchange_counts::equal}) {
    search_case step = drawn_search(1, 99);
    EXPECT_FALSE(step.search(counts, 10'000));
  }
}

}  // namespace
