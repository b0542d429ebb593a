#include <ballast/partition/detail/capacity/capped_branching.hpp>  // first: proves it is self-contained

#include "../../../support/constrained_optimum.hpp"
#include "../../../support/direct_problem.hpp"
#include "../../../support/instances.hpp"
#include "../../../support/trials.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::ratio;
using ballast::detail::capped_branching;
using ballast::detail::work_budget;

TEST(CappedBranching, FindsTheOptimum)  // Ensures (1)
{
  ballast::random_source random(97);
  int found = 0;
  int without = 0;
  for (int trial = 0; trial < ballast_test::trials_of(600); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_instance(random, 7, 3, trial % 2 == 0 ? 1 : 4);
    std::size_t const bags = step.gpus.size();
    std::vector<std::int64_t> weights(step.costs.size());
    for (auto& weight : weights) { weight = random.between(0, 20); }
    std::int64_t const total = std::reduce(weights.begin(), weights.end(), std::int64_t{0});
    std::vector<std::int64_t> capacities(bags);
    for (auto& capacity : capacities) {
      capacity = std::max<std::int64_t>(
          total / static_cast<std::int64_t>(bags) + random.between(-3, 12), 0);
    }
    std::vector<std::uint32_t> places(trial % 3 == 0 ? bags : 0);
    for (std::size_t sample = 0; sample < step.costs.size() && !places.empty(); ++sample) {
      ++places[random.below(bags)];
    }
    auto const best = ballast_test::optimum_where(step, [&](std::vector<std::size_t> const& owner) {
      std::vector<std::int64_t> room = capacities;
      std::vector<std::uint32_t> left = places;
      for (std::size_t sample = 0; sample < owner.size(); ++sample) {
        room[owner[sample]] -= weights[sample];
        if (!left.empty() && left[owner[sample]]-- == 0) { return false; }
      }
      return std::ranges::all_of(room, [](std::int64_t each) { return each >= 0; });
    });

    ballast_test::direct_problem const problem(step);
    ballast::partition_problem view = problem.view();
    view.weights = weights;
    view.capacities = capacities;
    ballast::workspace memory;
    auto frame = memory.open();
    work_budget work(1'000'000);
    std::vector<cost_units> const starts(bags, 0);
    capped_branching all(view, starts, places, work, frame);
    bool const has_plan = all({ballast::no_cost, 1});
    ASSERT_FALSE(work.spent());
    ASSERT_EQ(has_plan, best.has_value());
    if (!best) {
      ++without;
      continue;
    }
    ++found;
    std::vector<cost_units> loads(bags, 0);
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
      std::size_t const bag = to_index(all.owner()[sample]);
      loads[bag] += step.costs[sample];
      capacities[bag] -= weights[sample];
    }
    ratio latest;
    for (std::size_t bag = 0; bag < bags; ++bag) {
      EXPECT_GE(capacities[bag], 0);
      latest = std::max(latest, ratio{loads[bag], step.speed_of(bag)});
    }
    EXPECT_EQ(latest, *best);
    EXPECT_FALSE(all(*best));  // none is below it
  }
  EXPECT_GT(found, ballast_test::trials_of(600) / 6);
  EXPECT_GT(without, 0);
}

TEST(CappedBranching, EndsWithItsWork)
{
  ballast_test::instance step;
  for (int sample = 0; sample < 24; ++sample) {
    step.lengths.push_back(1);
    step.costs.push_back(1000 + sample * sample);
  }
  step.gpus.assign(8, 1);
  ballast_test::direct_problem const problem(step);
  ballast::partition_problem view = problem.view();
  std::vector<std::int64_t> const weights(24, 1);
  std::vector<std::int64_t> const capacities(8, 3);
  view.weights = weights;
  view.capacities = capacities;
  ballast::workspace memory;
  auto frame = memory.open();
  work_budget work(4000);
  std::vector<cost_units> const starts(8, 0);
  capped_branching all(view, starts, {}, work, frame);
  EXPECT_TRUE(all({ballast::no_cost, 1}));  // the first branch
  EXPECT_TRUE(work.spent());
}

}  // namespace
