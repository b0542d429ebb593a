// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/detail/shard_state.hpp>  // first: proves it is self-contained

#include "../../support/sharding_instances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::detail::no_shard_group;
using ballast::detail::shard_state;
using ballast::detail::shard_use;
using ballast_test::cost_per_token;
using ballast_test::shard_instance;

TEST(ShardState, KeepsLoadsPeaksAndMembersThroughChanges)  // Ensures (1) (2) (3)
{
  ballast::random_source random(8);
  std::vector<ballast::tokens> lengths(20);
  for (auto& length : lengths) { length = random.between(16, 99); }
  shard_instance step(lengths, {6, 8}, cost_per_token(32), 1000);
  auto const& problem = step.problem();
  shard_state state(problem, step.scratch());
  std::vector<std::uint32_t> owner(lengths.size(), 0);
  state.assign(problem, owner);
  for (int change = 0; change < 200; ++change) {
    auto const sample = static_cast<std::uint32_t>(random.below(lengths.size()));
    owner[sample] = static_cast<std::uint32_t>(random.below(problem.groups.size()));
    state.remove(problem, sample);
    state.insert(problem, sample, owner[sample]);
  }
  state.refresh(problem);

  std::vector<shard_use> uses(problem.gpus);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    auto const [first, gpus] = problem.groups[owner[sample]];
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      uses[to_index(first) + gpu].load += problem.time_in(sample, owner[sample]);
      uses[to_index(first) + gpu].held += problem.share_in(sample, owner[sample]);
    }
  }
  EXPECT_THAT(state.of_gpu, testing::ElementsAreArray(uses));
  EXPECT_THAT(state.owner, testing::ElementsAreArray(owner));
  for (std::size_t group = 0; group < problem.groups.size(); ++group) {
    auto const [first, gpus] = problem.groups[group];
    shard_use most;
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      most.load = std::max(most.load, uses[to_index(first) + gpu].load);
      most.held = std::max(most.held, uses[to_index(first) + gpu].held);
    }
    EXPECT_EQ(state.peak[group], most);
    std::vector<std::uint32_t> members;
    for (auto at = state.first[group]; at != no_shard_group; at = state.next[at]) {
      members.push_back(at);
    }
    std::vector<std::uint32_t> expected;
    for (std::uint32_t sample = 0; sample < owner.size(); ++sample) {
      if (owner[sample] == group) { expected.push_back(sample); }
    }
    EXPECT_THAT(members, testing::UnorderedElementsAreArray(expected));
  }
  // The node of six GPUs without its second pair.
  auto const node =
      static_cast<std::size_t>(std::find_if(problem.groups.begin(), problem.groups.end(),
                                            [](auto each) { return each.gpus == 6; }) -
                               problem.groups.begin());
  std::size_t const pair = problem.gpus + 1;
  ASSERT_EQ(problem.groups[pair], (ballast::device_group{ballast::rank_id{2}, 2}));
  shard_use most;
  for (std::size_t const rank : {0U, 1U, 4U, 5U}) {
    most.load = std::max(most.load, uses[rank].load);
    most.held = std::max(most.held, uses[rank].held);
  }
  EXPECT_EQ(state.peak_outside(problem, node, pair), most);
}

}  // namespace
