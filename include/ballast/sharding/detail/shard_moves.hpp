// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_MOVES_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_MOVES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_change.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/detail/shard_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Improves a plan by changes of one or two sequences, as long as a GPU with the largest load gets
/// less and no other as much.
class shard_moves {
 public:
  shard_moves(shard_problem const& problem, workspace::frame& scratch)
      : problem_(problem),
        changes_(problem),
        least_(scratch.take<std::uint32_t>(problem.classes.size()))
  {}

  /// Takes the best change of the first busiest GPU that has one.
  ///
  /// Expects     a state that is refreshed.
  /// Ensures     (1) the largest load has not grown, and no GPU has more tokens than it may
  ///             (2) where budget is left, no change of a sequence of any busiest GPU leaves all
  ///                 GPUs that it touches below the largest load
  /// Returns     the largest load.
  [[nodiscard]] cost_units descend(shard_state& state, work_budget& budget)
  {
    for (;;) {
      cost_units const most = largest_load(state);
      budget.spend(problem_.gpus + problem_.groups.size());
      if (budget.spent() || most == 0) { return most; }
      shard_change best{most};
      find_least(state);
      std::uint32_t tried = no_shard_group;
      for (std::size_t rank = 0; rank < problem_.gpus && best.load == most; ++rank) {
        if (state.of_gpu[rank].load != most || budget.spent()) { continue; }
        std::uint32_t const lowest = lowest_occupied(state, rank);
        if (lowest != tried) { find_change(state, rank, best, budget); }
        tried = lowest;
      }
      if (best.load == most) { return most; }
      changes_.apply(state, best);
    }
  }

  /// Plain local search, for small steps: sequences by index, each to every group and in exchange
  /// for every one before it, and whatever makes the largest load smaller, or as large on fewer
  /// GPUs, is done at once. It ends elsewhere than descend(), better or worse.
  ///
  /// Expects     a state that is refreshed.
  /// Ensures     (1) the largest load has not grown, and no GPU has more tokens than it may
  ///             (2) where budget is left, no change makes it smaller, or as large on fewer GPUs
  /// Returns     the largest load.
  [[nodiscard]] cost_units descend_in_turn(shard_state& state, work_budget& budget)
  {
    cost_units most = largest_load(state);
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (std::uint32_t sample = 0; sample < problem_.samples(); ++sample) {
        budget.spend(4 + sample / 4);
        if (budget.spent()) { return most; }
        for (std::uint32_t group = 0; group < problem_.groups.size(); ++group) {
          if (state.peak[state.owner[sample]].load < most) { break; }
          if (problem_.class_of[group] == no_shard_group) { continue; }
          if (problem_.time_in(sample, group) == no_cost) { continue; }
          budget.spend(1);
          shard_change change{most + 1};
          changes_.try_move(state, sample, group, change);
          is_better = apply_if_better(state, change, most, budget) || is_better;
        }
        for (std::uint32_t partner = 0; partner < sample; ++partner) {
          bool const may_help = state.peak[state.owner[sample]].load == most ||
                                state.peak[state.owner[partner]].load == most;
          if (!may_help) { continue; }
          budget.spend(1);
          shard_change change{most + 1};
          changes_.try_swap(state, sample, partner, change);
          is_better = apply_if_better(state, change, most, budget) || is_better;
        }
      }
    }
    return most;
  }

 private:
  template <class Visit>
  void for_each_of(shard_state const& state, std::size_t rank, Visit visit) const
  {
    for (auto group = static_cast<std::uint32_t>(rank); group != no_shard_group;
         group = problem_.parent[group]) {
      for (std::uint32_t sample = state.first[group]; sample != no_shard_group;
           sample = state.next[sample]) {
        visit(sample);
      }
    }
  }

  /// The best change of a sequence of this GPU, if it is better.
  void find_change(shard_state const& state, std::size_t rank, shard_change& best,
                   work_budget& budget) const
  {
    cost_units const most = best.load;
    for_each_of(state, rank,
                [&](std::uint32_t sample) { try_groups(state, sample, best, budget); });
    if (best.load < most) { return; }
    std::size_t const idle = least_loaded(state);
    for_each_of(state, rank, [&](std::uint32_t sample) {
      for_each_of(state, idle, [&](std::uint32_t partner) {
        changes_.try_swap(state, sample, partner, best);
        budget.spend(1);
      });
    });
    if (best.load < most) { return; }
    for_each_of(state, rank, [&](std::uint32_t sample) {
      if (best.load < most || budget.spent()) { return; }
      budget.spend(problem_.samples());
      for (std::uint32_t partner = 0; partner < problem_.samples(); ++partner) {
        changes_.try_swap(state, sample, partner, best);
      }
    });
  }

  /// Does a change after which no GPU that it touches has more than `most`, the largest load, if
  /// that is better, and makes `most` the new one.
  bool apply_if_better(shard_state& state, shard_change const& change, cost_units& most,
                       work_budget& budget) const
  {
    if (change.group == no_shard_group) { return false; }
    auto const busiest = [&] {
      return std::count_if(state.of_gpu.begin(), state.of_gpu.end(),
                           [most](shard_use use) { return use.load == most; });
    };
    budget.spend(problem_.gpus + problem_.groups.size());
    auto const before = busiest();
    std::uint32_t const home = state.owner[change.sample];
    changes_.apply(state, change);
    auto const after = busiest();
    if (after >= before) {
      changes_.apply(state, {0, change.sample, home, change.partner});
      return false;
    }
    if (after == 0) { most = largest_load(state); }
    return true;
  }

  /// The smallest group of the GPU that has a sequence: GPUs with the same one have the same
  /// sequences.
  [[nodiscard]] std::uint32_t lowest_occupied(shard_state const& state, std::size_t rank) const
  {
    auto group = static_cast<std::uint32_t>(rank);
    while (group != no_shard_group && state.first[group] == no_shard_group) {
      group = problem_.parent[group];
    }
    return group;
  }

  [[nodiscard]] static cost_units largest_load(shard_state const& state)
  {
    cost_units most = 0;
    for (shard_use const use : state.of_gpu) { most = std::max(most, use.load); }
    return most;
  }

  [[nodiscard]] static std::size_t least_loaded(shard_state const& state)
  {
    auto const least = std::min_element(state.of_gpu.begin(), state.of_gpu.end(),
                                        [](shard_use a, shard_use b) { return a.load < b.load; });
    return static_cast<std::size_t>(least - state.of_gpu.begin());
  }

  /// The group of each class whose peak is least.
  void find_least(shard_state const& state)
  {
    std::fill(least_.begin(), least_.end(), no_shard_group);
    for (std::uint32_t group = 0; group < problem_.groups.size(); ++group) {
      std::uint32_t const at = problem_.class_of[group];
      if (at == no_shard_group) { continue; }
      bool const is_less =
          least_[at] == no_shard_group || state.peak[group].load < state.peak[least_[at]].load;
      if (is_less) { least_[at] = group; }
    }
  }

  void try_groups(shard_state const& state, std::uint32_t sample, shard_change& best,
                  work_budget& budget) const
  {
    std::uint32_t const home = state.owner[sample];
    cost_units const leaves = problem_.time_in(sample, home);
    cost_units const rest = state.peak[home].load - leaves;
    for (std::size_t at = 0; at < problem_.classes.size(); ++at) {
      cost_units const time = problem_.time(sample, at);
      if (time == no_cost || rest >= best.load) { continue; }
      shard_class const& candidates = problem_.classes[at];
      std::uint32_t const least = least_[at];
      if (state.peak[least].load + time - leaves >= best.load) { continue; }
      if (changes_.are_disjoint(least, home) && state.peak[least].load + time < best.load) {
        // No other group that is disjoint from the home is better, if this one has room.
        cost_units const before = best.load;
        changes_.try_move(state, sample, least, best);
        budget.spend(1);
        if (best.load < before && candidates.shape.gpus >= problem_.groups[home].gpus) { continue; }
      }
      // With a group inside the home, the home's load counts but for this sequence.
      budget.spend(candidates.end_group - candidates.first_group);
      for (std::uint32_t group = candidates.first_group; group < candidates.end_group; ++group) {
        if (problem_.class_of[group] == at) { changes_.try_move(state, sample, group, best); }
      }
    }
  }

  shard_problem const& problem_;
  shard_changes changes_;
  std::span<std::uint32_t> least_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_MOVES_HPP
