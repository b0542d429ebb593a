// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_PROBLEM_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_PROBLEM_HPP

#include <ballast/core/detail/radix_sort.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/device_groups.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

inline constexpr std::uint32_t no_shard_group = std::numeric_limits<std::uint32_t>::max();

/// Groups of one shape, for which a sequence takes one time.
struct shard_class {
  group_shape shape;
  std::uint32_t groups = 0;
  std::uint32_t first_group =
      0;                        ///< the first and the one after the last; among them may be groups
  std::uint32_t end_group = 0;  ///< of the same degree and of other shapes
};

/// What a step's planning looks up, in arrays of the caller's frame: groups by index, the tree that
/// they form, and what every sequence takes in them.
///
/// Ensures     (1) parent[g] is the smallest group that contains group g, or no_shard_group; it has
///                 a larger index
///             (2) time(i, c) is no_cost where sequence i may not go to groups of class c: they
///                 have more GPUs than heads or than the sequence has tokens, or a sequence without
///                 tokens more than one, or each of them would hold more tokens than the limit
///             (3) level_of[c] is the number of the power of two that the degree does not exceed;
///                 level_groups of a level are its groups that lie in no other group of it
///             (4) by_length has the sequences from the longest to the shortest, ties by index
struct shard_problem {
  std::span<tokens const> lengths;
  tokens most_tokens = 0;  ///< of a GPU
  std::size_t gpus = 0;
  std::span<device_group> groups;
  std::span<std::uint32_t> parent;
  std::span<std::uint32_t> class_of;  ///< of a group
  std::span<shard_class> classes;     ///< by ascending degree
  std::span<cost_units> times;        ///< class after class
  std::span<std::uint32_t> by_length;
  std::span<std::uint32_t> level_groups;  ///< level after level
  std::span<std::size_t> level_offsets;

  [[nodiscard]] std::size_t samples() const noexcept { return lengths.size(); }
  [[nodiscard]] std::size_t levels() const noexcept { return level_offsets.size() - 1; }

  [[nodiscard]] cost_units time(std::size_t sample, std::size_t class_index) const
  {
    return times[class_index * samples() + sample];
  }

  [[nodiscard]] cost_units time_in(std::size_t sample, std::size_t group) const
  {
    return time(sample, class_of[group]);
  }

  /// The most tokens of the sequence that a GPU of the group holds.
  [[nodiscard]] tokens share_in(std::size_t sample, std::size_t group) const
  {
    tokens const k = groups[group].gpus;
    return k == 1 ? lengths[sample] : (lengths[sample] + k - 1) / k;
  }

  [[nodiscard]] std::size_t level_of(std::size_t group) const
  {
    return static_cast<std::size_t>(std::bit_width(groups[group].gpus - 1));
  }

  [[nodiscard]] std::span<std::uint32_t const> groups_of_level(std::size_t level) const
  {
    return level_groups.subspan(level_offsets[level],
                                level_offsets[level + 1] - level_offsets[level]);
  }
};

/// Numbers the shapes of groups that the heads admit; others get no class.
inline void find_shard_classes(shard_problem& problem, device_groups const& groups,
                               std::uint32_t heads, workspace::frame& scratch)
{
  std::span<shard_class> const classes = scratch.take<shard_class>(groups.size());
  std::size_t found = 0;
  for (std::size_t group = 0; group < problem.groups.size(); ++group) {
    group_shape const shape = shape_of(problem.groups[group], groups.nodes());
    problem.class_of[group] = no_shard_group;
    if (shape.gpus > heads) { continue; }
    // Groups ascend by degree, so those of one shape are among the last few classes.
    std::size_t at = found;
    while (at > 0 && classes[at - 1].shape.gpus == shape.gpus &&
           !(classes[at - 1].shape == shape)) {
      --at;
    }
    bool const is_known = at > 0 && classes[at - 1].shape == shape;
    if (!is_known) {
      at = ++found;
      classes[at - 1] = {shape, 0, static_cast<std::uint32_t>(group), 0};
    }
    problem.class_of[group] = static_cast<std::uint32_t>(at - 1);
    ++classes[at - 1].groups;
    classes[at - 1].end_group = static_cast<std::uint32_t>(group + 1);
  }
  problem.classes = classes.first(found);
}

/// Finds the levels, and which of their groups lie in no other of the same level.
inline void find_shard_levels(shard_problem& problem, workspace::frame& scratch)
{
  std::size_t const count = problem.groups.size();
  std::size_t levels = 0;
  for (std::size_t group = 0; group < count; ++group) {
    if (problem.class_of[group] != no_shard_group) {
      levels = std::max(levels, problem.level_of(group) + 1);
    }
  }
  problem.level_groups = scratch.take<std::uint32_t>(count);
  problem.level_offsets = scratch.take<std::size_t>(levels + 1);
  std::size_t next = 0;
  std::size_t level = 0;
  problem.level_offsets[0] = 0;
  for (std::size_t group = 0; group < count; ++group) {  // by ascending degree, so by level too
    if (problem.class_of[group] == no_shard_group) { continue; }
    for (; level < problem.level_of(group); ++level) { problem.level_offsets[level + 1] = next; }
    std::uint32_t const above = problem.parent[group];
    bool const lies_in_another = above != no_shard_group &&
                                 problem.class_of[above] != no_shard_group &&
                                 problem.level_of(above) == level;
    if (!lies_in_another) { problem.level_groups[next++] = static_cast<std::uint32_t>(group); }
  }
  for (; level < levels; ++level) { problem.level_offsets[level + 1] = next; }
}

/// Fills the times of all sequences in all classes.
inline void find_shard_times(shard_problem& problem, sharding_cost const& cost,
                             workspace::frame& scratch)
{
  std::size_t const count = problem.samples();
  problem.times = scratch.take<cost_units>(count * problem.classes.size());
  for (std::size_t at = 0; at < problem.classes.size(); ++at) {
    degree_cost const price = cost.at(problem.classes[at].shape);
    tokens const k = problem.classes[at].shape.gpus;
    // Compared without k x limit, which may not fit.
    tokens const longest =
        problem.most_tokens > longest_sample / k ? longest_sample : problem.most_tokens * k;
    std::span<cost_units> const times = problem.times.subspan(at * count, count);
    for (std::size_t sample = 0; sample < count; ++sample) {
      tokens const length = problem.lengths[sample];
      bool const is_allowed = k == 1 ? length <= longest : length >= k && length <= longest;
      times[sample] = is_allowed ? price(length) : no_cost;
    }
  }
}

/// Expects     lengths from 0 to longest_sample; groups with at least one GPU; most_tokens >= 0.
/// Complexity  O(n classes + groups + n log n).
[[nodiscard]] inline shard_problem make_shard_problem(std::span<tokens const> lengths,
                                                      device_groups const& groups,
                                                      sharding_cost const& cost, tokens most_tokens,
                                                      workspace::frame& scratch)
{
  shard_problem problem;
  problem.lengths = lengths;
  problem.most_tokens = most_tokens;
  problem.gpus = groups.gpus();
  problem.groups = scratch.take<device_group>(groups.size());
  problem.parent = scratch.take<std::uint32_t>(groups.size());
  problem.class_of = scratch.take<std::uint32_t>(groups.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    problem.groups[group] = groups[to_id<group_id>(group)];
    auto const chain = groups.groups_of(problem.groups[group].first);
    auto const own = std::find(chain.begin(), chain.end(), to_id<group_id>(group));
    problem.parent[group] =
        own + 1 == chain.end() ? no_shard_group : static_cast<std::uint32_t>(to_index(own[1]));
  }
  find_shard_classes(problem, groups, cost.heads, scratch);
  find_shard_levels(problem, scratch);
  find_shard_times(problem, cost, scratch);

  std::span<std::uint64_t> const words = scratch.take<std::uint64_t>(lengths.size());
  std::span<std::uint64_t> const spare = scratch.take<std::uint64_t>(lengths.size());
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    words[sample] = static_cast<std::uint64_t>(longest_sample - lengths[sample]) << 32 | sample;
  }
  radix_sort(words, spare);
  problem.by_length = scratch.take<std::uint32_t>(lengths.size());
  std::transform(words.begin(), words.end(), problem.by_length.begin(),
                 [](std::uint64_t word) { return static_cast<std::uint32_t>(word); });
  return problem;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_PROBLEM_HPP
