// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_CHANGE_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_CHANGE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/detail/shard_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// A sequence that goes to another group, alone or in exchange for one of that group.
struct shard_change {
  cost_units load = no_cost;  ///< the largest of a GPU that it touches, afterwards
  std::uint32_t sample = 0;
  std::uint32_t group = no_shard_group;
  std::uint32_t partner = no_shard_group;
};

/// What changes of one or two sequences would do to a plan, and doing one.
///
/// Expects     states that are refreshed.
class shard_changes {
 public:
  explicit shard_changes(shard_problem const& problem) : problem_(problem) {}

  [[nodiscard]] bool are_disjoint(std::size_t a, std::size_t b) const
  {
    auto const [first_a, gpus_a] = problem_.groups[a];
    auto const [first_b, gpus_b] = problem_.groups[b];
    return to_index(first_a) + gpus_a <= to_index(first_b) ||
           to_index(first_b) + gpus_b <= to_index(first_a);
  }

  /// Puts the move of a sequence to a group into `best`, if it leaves less and no GPU holds too
  /// much.
  void try_move(shard_state const& state, std::uint32_t sample, std::uint32_t group,
                shard_change& best) const
  {
    std::uint32_t const home = state.owner[sample];
    if (group == home) { return; }
    cost_units const leaves = problem_.time_in(sample, home);
    cost_units const comes = problem_.time_in(sample, group);
    if (state.peak[group].load + comes - leaves >= best.load) { return; }
    shard_use there = state.peak[group];  // where the sequence is afterwards and was not before
    cost_units load = state.peak[home].load - leaves;
    bool const is_disjoint = are_disjoint(home, group);
    if (is_disjoint && std::max(load, there.load + comes) >= best.load) { return; }
    tokens const share_leaves = problem_.share_in(sample, home);
    tokens const share_comes = problem_.share_in(sample, group);
    if (!is_disjoint) {
      if (problem_.groups[group].gpus < problem_.groups[home].gpus) {
        there = {there.load - leaves, there.held - share_leaves};
      } else {
        there = state.peak_outside(problem_, group, home);
        load += comes;
        if (state.peak[home].held - share_leaves + share_comes > problem_.most_tokens) { return; }
      }
    }
    if (there.held + share_comes > problem_.most_tokens) { return; }
    load = std::max(load, there.load + comes);
    if (load < best.load) { best = {load, sample, group, no_shard_group}; }
  }

  /// The same for two sequences that exchange their groups.
  void try_swap(shard_state const& state, std::uint32_t sample, std::uint32_t partner,
                shard_change& best) const
  {
    std::uint32_t const home = state.owner[sample];
    std::uint32_t const other = state.owner[partner];
    if (home == other) { return; }
    cost_units const in_home = problem_.time_in(partner, home);
    cost_units const in_other = problem_.time_in(sample, other);
    if (in_home == no_cost || in_other == no_cost) { return; }
    cost_units const at_home = in_home - problem_.time_in(sample, home);
    cost_units const at_other = in_other - problem_.time_in(partner, other);
    shard_use a = state.peak[home];
    shard_use b = state.peak[other];
    if (are_disjoint(home, other)) {
      cost_units const load = std::max(a.load + at_home, b.load + at_other);
      if (load >= best.load || !has_room(state, sample, partner, a.held, b.held)) { return; }
      best = {load, sample, other, partner};
      return;
    }
    // The GPUs of the smaller group have both changes.
    bool const home_is_inside = problem_.groups[home].gpus < problem_.groups[other].gpus;
    if ((home_is_inside ? a : b).load + at_home + at_other >= best.load) { return; }
    tokens const moved = problem_.share_in(sample, other) - problem_.share_in(partner, other);
    tokens const came = problem_.share_in(partner, home) - problem_.share_in(sample, home);
    if (home_is_inside) {
      b = state.peak_outside(problem_, other, home);
      a = {a.load + at_other, a.held + moved};
    } else {
      a = state.peak_outside(problem_, home, other);
      b = {b.load + at_home, b.held + came};
    }
    cost_units const load = std::max(a.load + at_home, b.load + at_other);
    if (load >= best.load || !has_room(state, sample, partner, a.held, b.held)) { return; }
    best = {load, sample, other, partner};
  }

  /// Does a change, and refreshes the state.
  void apply(shard_state& state, shard_change const& change) const
  {
    std::uint32_t const home = state.owner[change.sample];
    state.remove(problem_, change.sample);
    if (change.partner != no_shard_group) {
      state.remove(problem_, change.partner);
      state.insert(problem_, change.partner, home);
    }
    state.insert(problem_, change.sample, change.group);
    state.refresh(problem_);
  }

 private:
  /// Whether two sequences may exchange their groups, in which GPUs hold so many tokens.
  [[nodiscard]] bool has_room(shard_state const& state, std::uint32_t sample, std::uint32_t partner,
                              tokens held_at_home, tokens held_at_other) const
  {
    std::uint32_t const home = state.owner[sample];
    std::uint32_t const other = state.owner[partner];
    tokens const came = problem_.share_in(partner, home) - problem_.share_in(sample, home);
    tokens const moved = problem_.share_in(sample, other) - problem_.share_in(partner, other);
    return held_at_home + came <= problem_.most_tokens &&
           held_at_other + moved <= problem_.most_tokens;
  }

  shard_problem const& problem_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_CHANGE_HPP
