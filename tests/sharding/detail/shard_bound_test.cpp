// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/detail/shard_bound.hpp>  // first: proves it is self-contained

#include "../../support/sharding_instances.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::tokens;
using ballast::detail::shard_lower_bound;
using ballast_test::cost_per_token;
using ballast_test::shard_instance;

cost_units bound_of(std::vector<tokens> const& lengths, std::vector<std::uint32_t> const& nodes,
                    ballast::sharding_cost const& cost, tokens limit = 1'000'000)
{
  shard_instance step(lengths, nodes, cost, limit);
  return shard_lower_bound(step.problem(), step.scratch());
}

TEST(ShardBound, IsTheMeanOrTheLongestAtItsBestDegree)
{
  EXPECT_EQ(bound_of({}, {4}, cost_per_token(4)), 0);
  EXPECT_EQ(bound_of({0, 0}, {4}, cost_per_token(4)), 0);
  EXPECT_EQ(bound_of({10, 10, 10, 11}, {4}, cost_per_token(4)), 11);  // 41 / 4, rounded up
  EXPECT_EQ(bound_of({100}, {4}, cost_per_token(2)), 50);
}

TEST(ShardBound, CountsWhatItCostsToSplit)
{
  // On two GPUs a sequence takes 10 units more. Of three of 100 on four GPUs each has to be split, or
  // the step takes 100; split, they take 3 x 2 x 60 / 4.
  ballast::sharding_cost cost = cost_per_token(2);
  cost.latency = 10;
  EXPECT_EQ(bound_of({100, 100, 100}, {4}, cost), 90);
  EXPECT_EQ(bound_of({100}, {4}, cost), 60);
  cost.latency = 60;
  EXPECT_EQ(bound_of({100, 100, 100}, {4}, cost), 100);
}

TEST(ShardBound, CountsTheGpusThatLargeGroupsHave)
{
  // Memory forces three sequences to four GPUs, and of the five GPUs of the node four are in such a
  // group, or all five.
  ballast::sharding_cost const cost = cost_per_token(4);
  EXPECT_EQ(bound_of({400, 400, 400}, {5}, cost, 300), 300);
  EXPECT_EQ(bound_of({400, 400, 400}, {5}, cost_per_token(5), 300), 240);
}

}  // namespace
