// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_STATE_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_STATE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Load and tokens, of a GPU or of what is most in a group.
struct shard_use {
  cost_units load = 0;
  tokens held = 0;

  friend constexpr bool operator==(shard_use, shard_use) = default;
};

/// Which sequence is in which group, and what every GPU has of it.
///
/// Ensures     (1) of_gpu[r] is the sum over the sequences of all groups that contain GPU r
///             (2) after refresh(), peak[g] has the largest load and the most tokens of a GPU of
///                 group g
///             (3) the sequences of group g are first[g], next[first[g]], ... up to no_shard_group
struct shard_state {
  std::span<std::uint32_t> owner;
  std::span<shard_use> of_gpu;
  std::span<shard_use> peak;
  std::span<std::uint32_t> first;
  std::span<std::uint32_t> next;
  std::span<std::uint32_t> before;

  shard_state(shard_problem const& problem, workspace::frame& scratch)
      : owner(scratch.take<std::uint32_t>(problem.samples())),
        of_gpu(scratch.take<shard_use>(problem.gpus)),
        peak(scratch.take<shard_use>(problem.groups.size())),
        first(scratch.take<std::uint32_t>(problem.groups.size())),
        next(scratch.take<std::uint32_t>(problem.samples())),
        before(scratch.take<std::uint32_t>(problem.samples()))
  {
    clear();
  }

  /// No sequence is in a group.
  void clear()
  {
    std::fill(owner.begin(), owner.end(), no_shard_group);
    std::fill(of_gpu.begin(), of_gpu.end(), shard_use{});
    std::fill(peak.begin(), peak.end(), shard_use{});
    std::fill(first.begin(), first.end(), no_shard_group);
  }

  void insert(shard_problem const& problem, std::uint32_t sample, std::uint32_t group)
  {
    owner[sample] = group;
    before[sample] = no_shard_group;
    next[sample] = first[group];
    if (first[group] != no_shard_group) { before[first[group]] = sample; }
    first[group] = sample;
    add(problem, group, problem.time_in(sample, group), problem.share_in(sample, group));
  }

  void remove(shard_problem const& problem, std::uint32_t sample)
  {
    std::uint32_t const group = owner[sample];
    owner[sample] = no_shard_group;
    (before[sample] == no_shard_group ? first[group] : next[before[sample]]) = next[sample];
    if (next[sample] != no_shard_group) { before[next[sample]] = before[sample]; }
    add(problem, group, -problem.time_in(sample, group), -problem.share_in(sample, group));
  }

  /// Makes these the owners.
  void assign(shard_problem const& problem, std::span<std::uint32_t const> owners)
  {
    clear();
    for (std::size_t sample = owners.size(); sample > 0; --sample) {
      insert(problem, static_cast<std::uint32_t>(sample - 1), owners[sample - 1]);
    }
    refresh(problem);
  }

  void refresh(shard_problem const& problem)
  {
    std::fill(peak.begin(), peak.end(), shard_use{});
    std::copy(of_gpu.begin(), of_gpu.end(), peak.begin());  // group r of one GPU is GPU r
    for (std::size_t group = 0; group < peak.size(); ++group) {
      std::uint32_t const above = problem.parent[group];
      if (above == no_shard_group) { continue; }
      peak[above].load = std::max(peak[above].load, peak[group].load);
      peak[above].held = std::max(peak[above].held, peak[group].held);
    }
  }

  /// What is most in the GPUs of group `outer` that are not in `inner`, which lies in it.
  [[nodiscard]] shard_use peak_outside(shard_problem const& problem, std::size_t outer,
                                       std::size_t inner) const
  {
    auto const [first_rank, gpus] = problem.groups[outer];
    std::size_t const skip = to_index(problem.groups[inner].first);
    shard_use most;
    for (std::size_t rank = to_index(first_rank); rank < to_index(first_rank) + gpus; ++rank) {
      if (rank == skip) { rank += problem.groups[inner].gpus; }
      if (rank >= to_index(first_rank) + gpus) { break; }
      most.load = std::max(most.load, of_gpu[rank].load);
      most.held = std::max(most.held, of_gpu[rank].held);
    }
    return most;
  }

 private:
  void add(shard_problem const& problem, std::uint32_t group, cost_units time, tokens share)
  {
    auto const [first_rank, gpus] = problem.groups[group];
    for (shard_use& each : of_gpu.subspan(to_index(first_rank), gpus)) {
      each.load += time;
      each.held += share;
    }
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_STATE_HPP
