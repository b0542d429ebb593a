// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_THROW_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_THROW_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/detail/shard_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// A sequence of the busiest GPU, or any, each half of the time.
[[nodiscard]] inline std::uint32_t draw_shard(shard_problem const& problem,
                                              shard_state const& state, random_source& random)
{
  auto drawn = static_cast<std::uint32_t>(random.below(problem.samples()));
  if (random.below(2) == 0) { return drawn; }
  auto const busiest = std::max_element(state.of_gpu.begin(), state.of_gpu.end(),
                                        [](shard_use a, shard_use b) { return a.load < b.load; });
  std::uint64_t seen = 0;
  for (auto group = static_cast<std::uint32_t>(busiest - state.of_gpu.begin());
       group != no_shard_group; group = problem.parent[group]) {
    for (std::uint32_t sample = state.first[group]; sample != no_shard_group;
         sample = state.next[sample]) {
      if (random.below(++seen) == 0) { drawn = sample; }
    }
  }
  return drawn;
}

/// Puts a sequence into any group, or exchanges two, where there is room.
///
/// Expects     sequences, each in a group; the state is to be refreshed afterwards.
inline void throw_some(shard_problem const& problem, shard_state& state, random_source& random)
{
  auto const put = [&](std::uint32_t sample, std::uint32_t group) {
    state.remove(problem, sample);
    state.insert(problem, sample, group);
  };
  auto const is_overfull = [&](std::uint32_t group) {
    auto const [first, gpus] = problem.groups[group];
    auto const uses = state.of_gpu.subspan(to_index(first), gpus);
    return std::any_of(uses.begin(), uses.end(),
                       [&](shard_use use) { return use.held > problem.most_tokens; });
  };
  std::uint32_t const sample = draw_shard(problem, state, random);
  std::uint32_t const home = state.owner[sample];
  if (random.below(2) == 0) {
    auto const partner = static_cast<std::uint32_t>(random.below(problem.samples()));
    std::uint32_t const other = state.owner[partner];
    if (problem.time_in(sample, other) == no_cost || problem.time_in(partner, home) == no_cost) {
      return;
    }
    put(sample, other);
    put(partner, home);
    if (is_overfull(home) || is_overfull(other)) {
      put(sample, home);
      put(partner, other);
    }
    return;
  }
  auto const at = static_cast<std::size_t>(random.below(problem.classes.size()));
  shard_class const& target = problem.classes[at];
  auto const group = static_cast<std::uint32_t>(
      target.first_group + random.below(target.end_group - target.first_group));
  if (problem.class_of[group] != at || problem.time(sample, at) == no_cost) { return; }
  put(sample, group);
  if (is_overfull(group)) { put(sample, home); }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_THROW_HPP
