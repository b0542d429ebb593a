#include <ballast/partition/detail/exchange/exchange_search.hpp>  // first: proves it is self-contained

#include "../../../support/dealt_plan.hpp"
#include "../../../support/near_equal_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::bag_id;
using ballast::cost_units;
using ballast::ratio;

struct exchanged {
  std::vector<cost_units> loads;
  std::vector<bag_id> owner;
  std::uint64_t left;
};

exchanged search_exchanges(ballast_test::instance const& step, ratio target, std::uint64_t steps)
{
  ballast_test::dealt_plan plan{ballast_test::direct_problem(step)};
  auto scratch = plan.memory.open();
  ballast::detail::work_budget work(steps);
  ballast::partition_problem const view = plan.given.view();
  ballast::detail::exchange_search(view, target, plan.loads, plan.owner, work, plan.memory,
                                   scratch)();
  return {plan.loads, plan.owner, work.left()};
}

TEST(ExchangeSearch, KeepsLoadsAndOwnersTogetherAndImprovesWithWork)  // Ensures (1)
{
  ballast::random_source random(81);
  for (int trial = 0; trial < 60; ++trial) {
    std::size_t const bags = 2 + random.below(8);
    auto const step =
        ballast_test::near_equal_step(random, bags * 4 + random.below(bags * 8), bags);
    cost_units before = std::ranges::max(search_exchanges(step, {0, 1}, 1).loads);
    for (std::uint64_t work = 10; work <= 1'000'000; work *= 10) {
      auto const found = search_exchanges(step, {0, 1}, work);
      std::vector<cost_units> recomputed(bags, 0);
      for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
        recomputed[to_index(found.owner[sample])] += step.costs[sample];
      }
      ASSERT_EQ(found.loads, recomputed) << "trial " << trial;
      ASSERT_LE(std::ranges::max(found.loads), before) << "trial " << trial << " work " << work;
      before = std::ranges::max(found.loads);
    }
  }
}

TEST(ExchangeSearch, StopsAtTheTarget)
{
  ballast_test::instance const step{{1, 1, 1, 1}, {4, 1, 3, 2}, {1, 1}};
  auto const found = search_exchanges(step, {5, 1}, 1'000'000);
  EXPECT_EQ(found.loads, (std::vector<cost_units>{5, 5}));
  EXPECT_GT(found.left, 900'000U);
}

}  // namespace
