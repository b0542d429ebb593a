// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/detail/shard_change.hpp>  // first: proves it is self-contained

#include "../../support/sharding_instances.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::shard_change;
using ballast::detail::shard_changes;
using ballast::detail::shard_problem;
using ballast::detail::shard_state;
using ballast::detail::shard_use;

/// What each GPU has, added up anew.
std::vector<shard_use> uses_of(shard_problem const& problem,
                               std::vector<std::uint32_t> const& owner)
{
  std::vector<shard_use> uses(problem.gpus, shard_use{0, 0});
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    auto const [first, gpus] = problem.groups[owner[sample]];
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      uses[to_index(first) + gpu].load += problem.time_in(sample, owner[sample]);
      uses[to_index(first) + gpu].held += problem.share_in(sample, owner[sample]);
    }
  }
  return uses;
}

/// The largest load of the GPUs of two groups; none where one of them holds too much.
std::optional<cost_units> largest_touched(shard_problem const& problem,
                                          std::vector<std::uint32_t> const& owner, std::uint32_t a,
                                          std::uint32_t b)
{
  auto const uses = uses_of(problem, owner);
  cost_units most = 0;
  for (std::uint32_t const group : {a, b}) {
    auto const [first, gpus] = problem.groups[group];
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      shard_use const use = uses[to_index(first) + gpu];
      if (use.held > problem.most_tokens) { return std::nullopt; }
      most = std::max(most, use.load);
    }
  }
  return most;
}

class ShardChanges : public testing::TestWithParam<ballast::tokens> {
 protected:
  template <class Check>
  static void for_random_states(Check const& check)
  {
    ballast::random_source random(8);
    int tried = 0;
    for (int trial = 0; trial < 200 && tried < 20; ++trial) {
      auto const lengths = ballast_test::drawn_lengths(random, 9);
      auto const cost = ballast_test::cost_with_attention(trial % 2 == 0 ? 8 : 6);
      ballast_test::shard_instance step(lengths, {3, 5}, cost, GetParam());
      auto const& problem = step.problem();
      std::vector<std::uint32_t> owner(lengths.size());
      for (std::size_t sample = 0; sample < owner.size(); ++sample) {
        do {
          owner[sample] = static_cast<std::uint32_t>(random.below(problem.groups.size()));
        } while (problem.class_of[owner[sample]] == ballast::detail::no_shard_group ||
                 problem.time_in(sample, owner[sample]) == ballast::no_cost);
      }
      auto const uses = uses_of(problem, owner);
      bool const fits = std::all_of(uses.begin(), uses.end(),
                                    [&](shard_use use) { return use.held <= problem.most_tokens; });
      if (!fits) { continue; }
      ++tried;
      shard_state state(problem, step.scratch());
      state.assign(problem, owner);
      check(problem, state, owner);
    }
    EXPECT_EQ(tried, 20);
  }
};

/// Whether a change of `owner` to `changed` was found, with its load, exactly if it is possible.
void expect_found(shard_problem const& problem, shard_change const& found,
                  std::vector<std::uint32_t> const& changed, std::uint32_t home,
                  std::uint32_t other)
{
  auto const load = largest_touched(problem, changed, home, other);
  EXPECT_EQ(found.group != ballast::detail::no_shard_group, load.has_value());
  if (load) { EXPECT_EQ(found.load, *load); }
}

TEST_P(ShardChanges, KnowTheLargestLoadThatAMoveLeaves)
{
  for_random_states([](shard_problem const& problem, shard_state& state,
                       std::vector<std::uint32_t> const& owner) {
    shard_changes const changes(problem);
    for (std::uint32_t sample = 0; sample < owner.size(); ++sample) {
      for (std::uint32_t group = 0; group < problem.groups.size(); ++group) {
        bool const possible = problem.class_of[group] != ballast::detail::no_shard_group &&
                              problem.time_in(sample, group) != ballast::no_cost;
        if (!possible || group == owner[sample]) { continue; }
        shard_change found;
        changes.try_move(state, sample, group, found);
        auto changed = owner;
        changed[sample] = group;
        expect_found(problem, found, changed, owner[sample], group);
      }
    }
  });
}

TEST_P(ShardChanges, KnowTheLargestLoadThatASwapLeaves)
{
  for_random_states([](shard_problem const& problem, shard_state& state,
                       std::vector<std::uint32_t> const& owner) {
    shard_changes const changes(problem);
    for (std::uint32_t a = 0; a < owner.size(); ++a) {
      for (std::uint32_t b = 0; b < owner.size(); ++b) {
        bool const possible = problem.time_in(a, owner[b]) != ballast::no_cost &&
                              problem.time_in(b, owner[a]) != ballast::no_cost;
        if (!possible || owner[a] == owner[b]) { continue; }
        shard_change found;
        changes.try_swap(state, a, b, found);
        auto changed = owner;
        std::swap(changed[a], changed[b]);
        expect_found(problem, found, changed, owner[a], owner[b]);
      }
    }
  });
}

TEST_P(ShardChanges, AreDone)
{
  for_random_states([](shard_problem const& problem, shard_state& state,
                       std::vector<std::uint32_t> const& owner) {
    shard_changes const changes(problem);
    auto changed = owner;
    std::swap(changed[0], changed[1]);
    changes.apply(state, {0, 0, owner[1], 1});
    EXPECT_TRUE(std::equal(changed.begin(), changed.end(), state.owner.begin()));
    auto const uses = uses_of(problem, changed);
    for (std::size_t rank = 0; rank < uses.size(); ++rank) {
      EXPECT_EQ(state.of_gpu[rank].load, uses[rank].load);
      EXPECT_EQ(state.of_gpu[rank].held, uses[rank].held);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(TokensPerGpu, ShardChanges, testing::Values(150, 10'000));

}  // namespace
