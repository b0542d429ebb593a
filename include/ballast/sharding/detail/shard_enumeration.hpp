// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_ENUMERATION_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_ENUMERATION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/detail/shard_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Tries all plans of a step of few sequences, longest first, and leaves out what cannot end below
/// the best plan so far: a load that is not below it, less GPU time left than the rest takes, less
/// memory left than the rest needs. Of groups that are alike and hold the same it tries the first.
class shard_enumeration {
 public:
  [[nodiscard]] static bool takes(shard_problem const& problem) noexcept
  {
    return problem.samples() > 0 && problem.samples() <= 12 && problem.groups.size() <= 64;
  }

  shard_enumeration(shard_problem const& problem, workspace::frame& scratch)
      : problem_(problem),
        tried_(scratch.take<std::uint32_t>(problem.samples() + 1)),
        area_from_(scratch.take<uint128>(problem.samples() + 1)),
        tokens_from_(scratch.take<tokens>(problem.samples() + 1)),
        kind_(scratch.take<std::uint32_t>(problem.groups.size()))
  {
    find_kinds();
    area_from_[problem.samples()] = 0;
    tokens_from_[problem.samples()] = 0;
    for (std::size_t at = problem.samples(); at-- > 0;) {
      std::uint32_t const sample = problem.by_length[at];
      uint128 least = ~uint128{0};
      for (std::size_t own = 0; own < problem.classes.size(); ++own) {
        cost_units const time = problem.time(sample, own);
        if (time == no_cost) { continue; }
        least = std::min(
            least, uint128{static_cast<std::uint64_t>(time)} * problem.classes[own].shape.gpus);
      }
      area_from_[at] = area_from_[at + 1] + least;
      tokens_from_[at] = tokens_from_[at + 1] + problem.lengths[sample];
    }
  }

  /// Calls `keep` with the makespan of each plan whose makespan is below `most`, which it makes the
  /// new `most`; the state is then that plan.
  ///
  /// Returns     whether all plans were tried, so that no other is below `most`
  /// Expects     a state without sequences; it is left in some state.
  template <class Keep>
  [[nodiscard]] bool run(shard_state& state, cost_units most, cost_units bound, work_budget& budget,
                         Keep const& keep)
  {
    std::size_t const samples = problem_.samples();
    std::size_t next = 0;
    tried_[0] = 0;
    for (;;) {
      if (next == samples) {
        most = 0;
        for (shard_use const use : state.of_gpu) { most = std::max(most, use.load); }
        keep(most);
        if (most <= bound) { return true; }
      } else {
        std::uint32_t const sample = problem_.by_length[next];
        std::uint32_t group = tried_[next];
        for (; group < problem_.groups.size(); ++group) {
          if (may_go(state, sample, group, most)) { break; }
        }
        budget.spend(problem_.gpus + group - tried_[next]);
        if (budget.spent()) { return false; }
        tried_[next] = group + 1;
        if (group < problem_.groups.size()) {
          state.insert(problem_, sample, group);
          if (may_be_better(state, next + 1, most)) {
            tried_[++next] = 0;
            continue;
          }
          state.remove(problem_, sample);
          continue;
        }
      }
      if (next == 0) { return true; }
      state.remove(problem_, problem_.by_length[--next]);
    }
  }

 private:
  [[nodiscard]] bool may_go(shard_state const& state, std::uint32_t sample, std::uint32_t group,
                            cost_units most) const
  {
    if (problem_.class_of[group] == no_shard_group) { return false; }
    cost_units const time = problem_.time_in(sample, group);
    if (time == no_cost) { return false; }
    tokens const share = problem_.share_in(sample, group);
    auto const uses = uses_of(state, group);
    for (shard_use const use : uses) {
      if (use.load >= most - time || use.held > problem_.most_tokens - share) { return false; }
    }
    for (std::uint32_t like = kind_[group]; like < group; ++like) {
      if (kind_[like] != kind_[group]) { continue; }
      auto const others = uses_of(state, like);
      if (std::equal(uses.begin(), uses.end(), others.begin(), [](shard_use a, shard_use b) {
            return a.load == b.load && a.held == b.held;
          })) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool may_be_better(shard_state const& state, std::size_t next,
                                   cost_units most) const
  {
    uint128 area = area_from_[next];
    uint128 room = 0;
    for (shard_use const use : state.of_gpu) {
      area += static_cast<std::uint64_t>(use.load);
      room += static_cast<std::uint64_t>(problem_.most_tokens - use.held);
    }
    return area <= uint128{static_cast<std::uint64_t>(most - 1)} * problem_.gpus &&
           room >= static_cast<std::uint64_t>(tokens_from_[next]);
  }

  [[nodiscard]] std::span<shard_use const> uses_of(shard_state const& state,
                                                   std::size_t group) const
  {
    auto const [first, gpus] = problem_.groups[group];
    return state.of_gpu.subspan(to_index(first), gpus);
  }

  /// Numbers groups that lie in one group and have the same groups in them by the first of these.
  void find_kinds()
  {
    for (std::uint32_t group = 0; group < kind_.size(); ++group) {
      kind_[group] = group;
      for (std::uint32_t like = 0; like < group; ++like) {
        if (kind_[like] == like && are_alike(like, group)) {
          kind_[group] = like;
          break;
        }
      }
    }
  }

  [[nodiscard]] bool are_alike(std::uint32_t a, std::uint32_t b) const
  {
    if (problem_.parent[a] != problem_.parent[b] || problem_.class_of[a] != problem_.class_of[b] ||
        problem_.groups[a].gpus != problem_.groups[b].gpus) {
      return false;
    }
    // The groups in both, by the places of their GPUs.
    std::uint32_t const gpus = problem_.groups[a].gpus;
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      auto left = static_cast<std::uint32_t>(to_index(problem_.groups[a].first)) + gpu;
      auto right = static_cast<std::uint32_t>(to_index(problem_.groups[b].first)) + gpu;
      while (left != a && right != b) {
        bool const same = problem_.class_of[left] == problem_.class_of[right] &&
                          problem_.groups[left].gpus == problem_.groups[right].gpus;
        if (!same) { return false; }
        left = problem_.parent[left];
        right = problem_.parent[right];
        if (left == no_shard_group || right == no_shard_group) { return false; }
      }
      if (left != a || right != b) { return false; }
    }
    return true;
  }

  shard_problem const& problem_;
  std::span<std::uint32_t> tried_;  ///< of each sequence, the group after the last one tried
  std::span<uint128> area_from_;    ///< least GPU time of the sequences from each on
  std::span<tokens> tokens_from_;
  std::span<std::uint32_t> kind_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_ENUMERATION_HPP
