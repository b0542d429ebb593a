// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/detail/shard_search.hpp>  // first: proves it is self-contained

#include "../../support/sharding_instances.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::shard_search;
using ballast::detail::work_budget;
using ballast_test::cost_per_token;
using ballast_test::shard_instance;

cost_units largest_load(ballast::detail::shard_problem const& problem,
                        std::span<std::uint32_t const> owner)
{
  std::vector<cost_units> loads(problem.gpus, 0);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    auto const [first, gpus] = problem.groups[owner[sample]];
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      loads[to_index(first) + gpu] += problem.time_in(sample, owner[sample]);
    }
  }
  return *std::max_element(loads.begin(), loads.end());
}

TEST(ShardSearch, FindsABetterPlanWithMoreSteps)
{
  ballast::random_source random(21);
  std::vector<ballast::tokens> lengths(40);
  for (auto& length : lengths) { length = random.between(100, 9999); }
  ballast::sharding_cost cost = cost_per_token(8);
  cost.latency = 300;
  shard_instance step(lengths, {6, 5}, cost, 1'000'000);
  cost_units before = ballast::no_cost;
  for (std::uint64_t const steps : {1U, 100'000U, 3'000'000U}) {
    shard_search search(step.problem(), 1000, step.scratch());
    ASSERT_FALSE(search.run(work_budget(steps)));
    cost_units const most = largest_load(step.problem(), search.owner());
    EXPECT_LE(most, before);
    before = most;
  }
}

TEST(ShardSearch, NamesASequenceWhereNothingFits)
{
  shard_instance step({100, 100, 100}, {2}, cost_per_token(1), 100);
  shard_search search(step.problem(), 150, step.scratch());
  auto const stranded = search.run(work_budget(100'000));
  ASSERT_TRUE(stranded);
  EXPECT_EQ(*stranded, 2U);
}

}  // namespace
