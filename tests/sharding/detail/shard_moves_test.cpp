// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/detail/shard_moves.hpp>  // first: proves it is self-contained

#include "../../support/sharding_instances.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::shard_moves;
using ballast::detail::shard_problem;
using ballast::detail::shard_state;
using ballast::detail::work_budget;
using ballast_test::shard_instance;

/// The largest load and how many GPUs have it; nothing under it where a GPU holds too much.
std::pair<cost_units, std::size_t> worth_of(shard_problem const& problem,
                                            std::vector<std::uint32_t> const& owner)
{
  std::vector<cost_units> loads(problem.gpus, 0);
  std::vector<ballast::tokens> held(problem.gpus, 0);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    auto const [first, gpus] = problem.groups[owner[sample]];
    if (problem.time_in(sample, owner[sample]) == ballast::no_cost) {
      return {ballast::no_cost, 0};
    }
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      loads[to_index(first) + gpu] += problem.time_in(sample, owner[sample]);
      held[to_index(first) + gpu] += problem.share_in(sample, owner[sample]);
    }
  }
  if (std::ranges::max(held) > problem.most_tokens) { return {ballast::no_cost, 0}; }
  cost_units const most = std::ranges::max(loads);
  return {most, static_cast<std::size_t>(std::ranges::count(loads, most))};
}

TEST(ShardMoves, EndWhereNoSingleChangeMakesTheLargestLoadSmaller)  // Ensures (1) (2)
{
  ballast::random_source random(6);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const lengths = ballast_test::drawn_lengths(random, 11);
    auto const cost = ballast_test::cost_with_attention(trial % 2 == 0 ? 8 : 6);
    bool const is_tight = random.below(2) == 0;
    shard_instance step(lengths, {3, 5}, cost, is_tight ? 150 : 10'000);
    auto const& problem = step.problem();
    std::vector<std::uint32_t> owner(lengths.size());
    for (auto& each : owner) { each = static_cast<std::uint32_t>(random.below(8)); }
    auto const before = worth_of(problem, owner);
    if (before.first == ballast::no_cost) { continue; }

    shard_state state(problem, step.scratch());
    state.assign(problem, owner);
    shard_moves moves(problem, step.scratch());
    work_budget budget(10'000'000);
    cost_units const most = moves.descend(state, budget);
    owner.assign(state.owner.begin(), state.owner.end());
    auto const after = worth_of(problem, owner);
    EXPECT_EQ(after.first, most);
    EXPECT_LE(after, before);

    for (std::size_t a = 0; a < owner.size(); ++a) {
      for (std::uint32_t group = 0; group < problem.groups.size(); ++group) {
        if (problem.class_of[group] == ballast::detail::no_shard_group) { continue; }
        std::uint32_t const home = std::exchange(owner[a], group);
        EXPECT_GE(worth_of(problem, owner).first, most) << "moving " << a << " to " << group;
        owner[a] = home;
      }
      for (std::size_t b = 0; b < a; ++b) {
        std::swap(owner[a], owner[b]);
        EXPECT_GE(worth_of(problem, owner).first, most) << "exchanging " << a << " and " << b;
        std::swap(owner[a], owner[b]);
      }
    }
  }
}

TEST(ShardMoves, StopWhereTheBudgetIsSpent)
{
  shard_instance step({10, 10, 10, 10}, {4}, ballast_test::cost_per_token(4), 100);
  shard_state state(step.problem(), step.scratch());
  state.assign(step.problem(), std::vector<std::uint32_t>{0, 0, 0, 0});
  shard_moves moves(step.problem(), step.scratch());
  work_budget none(0);
  EXPECT_EQ(moves.descend(state, none), 40);
  work_budget some(1000);
  EXPECT_EQ(moves.descend(state, some), 10);
}

}  // namespace
