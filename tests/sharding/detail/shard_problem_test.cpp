// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/detail/shard_problem.hpp>  // first: proves it is self-contained

#include "../../support/sharding_instances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::no_cost;
using ballast::detail::no_shard_group;
using ballast_test::cost_per_token;
using ballast_test::shard_instance;
using testing::ElementsAre;

TEST(ShardProblem, KnowsTheTreeOfGroups)  // Ensures (1)
{
  shard_instance step({}, {6, 8, 5}, cost_per_token(32), 100);
  auto const& problem = step.problem();
  for (std::size_t group = 0; group < problem.groups.size(); ++group) {
    auto const [first, gpus] = problem.groups[group];
    std::uint32_t smallest = no_shard_group;
    for (std::size_t other = 0; other < problem.groups.size(); ++other) {
      auto const [start, size] = problem.groups[other];
      bool const contains =
          size > gpus && start <= first && to_index(start) + size >= to_index(first) + gpus;
      if (contains && smallest == no_shard_group) { smallest = static_cast<std::uint32_t>(other); }
    }
    EXPECT_EQ(problem.parent[group], smallest) << "group " << group;
  }
}

TEST(ShardProblem, AllowsWhatHeadsTokensAndMemoryAllow)  // Ensures (2)
{
  shard_instance step({0, 1, 3, 8, 40, 100}, {8}, cost_per_token(4), 10);
  auto const& problem = step.problem();
  ASSERT_EQ(problem.classes.size(), 3U);  // degrees 1, 2 and 4: 8 GPUs are more than the heads
  auto const times = [&](std::size_t sample) {
    return std::vector{problem.time(sample, 0), problem.time(sample, 1), problem.time(sample, 2)};
  };
  EXPECT_THAT(times(0), ElementsAre(0, no_cost, no_cost));
  EXPECT_THAT(times(1), ElementsAre(1, no_cost, no_cost));
  EXPECT_THAT(times(2), ElementsAre(3, 2, no_cost));
  EXPECT_THAT(times(3), ElementsAre(8, 4, 2));
  EXPECT_THAT(times(4), ElementsAre(no_cost, no_cost, 10));
  EXPECT_THAT(times(5), ElementsAre(no_cost, no_cost, no_cost));
  EXPECT_EQ(problem.share_in(2, 8), 2);  // group 8 is the first pair: 3 tokens on 2 GPUs
  EXPECT_EQ(problem.class_of[problem.groups.size() - 1], no_shard_group);
}

TEST(ShardProblem, TellsGroupsApartThatLieOtherwiseOnNodes)
{
  // Nodes of 3 and 5 together are a group of 8 GPUs, and so is the third node.
  shard_instance step({}, {3, 5, 8, 8}, cost_per_token(8), 100);
  auto const& problem = step.problem();
  std::vector<std::uint32_t> found;
  for (auto const& each : problem.classes) {
    if (each.shape.gpus == 8) {
      found.push_back(each.shape.fewest_in_node);
      found.push_back(each.groups);
    }
  }
  EXPECT_THAT(found, ElementsAre(3, 1, 8, 2));
}

TEST(ShardProblem, HasLevelsOfGroupsThatAreDisjoint)  // Ensures (3)
{
  shard_instance step({}, {6, 8, 5, 1}, cost_per_token(32), 100);
  auto const& problem = step.problem();
  ASSERT_EQ(problem.levels(), 6U);  // up to 20 GPUs
  for (std::size_t level = 0; level < problem.levels(); ++level) {
    std::vector<int> covered(problem.gpus, 0);
    for (std::uint32_t const group : problem.groups_of_level(level)) {
      EXPECT_EQ(problem.level_of(group), level);
      auto const [first, gpus] = problem.groups[group];
      for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) { ++covered[to_index(first) + gpu]; }
    }
    EXPECT_THAT(covered, testing::Each(testing::Le(1)));
  }
  EXPECT_THAT(problem.groups_of_level(3),
              testing::SizeIs(3));  // 6 (5 + 1, and not the 5 in it), 6, 8
}

TEST(ShardProblem, SortsByLength)  // Ensures (4)
{
  shard_instance step({5, 9, 0, 9, ballast::longest_sample}, {2}, cost_per_token(2), 100);
  EXPECT_THAT(step.problem().by_length, ElementsAre(4, 1, 3, 0, 2));
}

}  // namespace
