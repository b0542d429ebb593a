// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/detail/shard_greedy.hpp>  // first: proves it is self-contained

#include "../../support/sharding_instances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::detail::no_shard_group;
using ballast::detail::shard_greedy;
using ballast::detail::shard_rule;
using ballast::detail::shard_state;
using ballast_test::cost_per_token;
using ballast_test::shard_instance;
using testing::ElementsAre;

std::vector<std::uint32_t> degrees_of(ballast::detail::shard_problem const& problem,
                                      shard_state const& state)
{
  std::vector<std::uint32_t> degrees;
  for (std::uint32_t const owner : state.owner) { degrees.push_back(problem.groups[owner].gpus); }
  return degrees;
}

TEST(ShardGreedy, SplitsWhatTakesLongerThanTheRuleAllows)
{
  shard_instance step({100, 40, 30, 10, 0}, {4}, cost_per_token(4), 1000);
  auto const& problem = step.problem();
  shard_state state(problem, step.scratch());
  shard_greedy greedy(problem, step.scratch());
  EXPECT_FALSE(greedy.plan(state, {.longest_time = 30}, 45));
  EXPECT_THAT(degrees_of(problem, state), ElementsAre(4, 2, 1, 1, 1));
  for (auto const& use : state.of_gpu) { EXPECT_LE(use.load, 25 + 30); }
  state.clear();
  EXPECT_FALSE(greedy.plan(state, {.longest_time = 100}, 45));
  EXPECT_THAT(degrees_of(problem, state), ElementsAre(1, 1, 1, 1, 1));
  state.clear();
  EXPECT_FALSE(greedy.plan_uniform(state, 2, 45));
  EXPECT_THAT(degrees_of(problem, state), ElementsAre(2, 2, 2, 2, 1));
}

TEST(ShardGreedy, KeepsTheLimitOfTokensOrNamesTheSequenceWithoutRoom)  // Ensures (1)
{
  ballast::random_source random(4);
  int stranded = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<ballast::tokens> lengths(1 + random.below(20));
    for (auto& length : lengths) { length = random.between(0, 100); }
    ballast::tokens const limit = random.between(60, 160);
    shard_instance step(lengths, {6, 5, 8}, cost_per_token(8), limit);
    auto const& problem = step.problem();
    shard_state state(problem, step.scratch());
    shard_greedy greedy(problem, step.scratch());
    shard_rule const rule{.longest_time = random.between(0, 100), .by_tokens = trial % 2 == 0};
    bool const uniform = random.below(4) == 0;
    auto const without =
        uniform ? greedy.plan_uniform(state, 4, 100) : greedy.plan(state, rule, 100);
    if (without) {
      EXPECT_EQ(state.owner[*without], no_shard_group);
      ++stranded;
      continue;
    }
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      ASSERT_NE(state.owner[sample], no_shard_group);
      ASSERT_NE(problem.time_in(sample, state.owner[sample]), ballast::no_cost);
    }
    for (auto const& use : state.of_gpu) { ASSERT_LE(use.held, limit); }
  }
  EXPECT_LT(stranded, 100);
}

}  // namespace
