// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>

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
        if (state.peak[home].held - share_leaves + share_comes > problem_.most_per_gpu) { return; }
      }
    }
    if (there.held + share_comes > problem_.most_per_gpu) { return; }
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
    return held_at_home + came <= problem_.most_per_gpu &&
           held_at_other + moved <= problem_.most_per_gpu;
  }

  shard_problem const& problem_;
};

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
      cost_units const most = state.largest_load();
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
    cost_units most = state.largest_load();
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
  /// The best change of a sequence of this GPU, if it is better.
  void find_change(shard_state const& state, std::size_t rank, shard_change& best,
                   work_budget& budget) const
  {
    cost_units const most = best.load;
    state.for_each_of(problem_, rank,
                      [&](std::uint32_t sample) { try_groups(state, sample, best, budget); });
    if (best.load < most) { return; }
    std::size_t const idle = least_loaded(state);
    state.for_each_of(problem_, rank, [&](std::uint32_t sample) {
      state.for_each_of(problem_, idle, [&](std::uint32_t partner) {
        changes_.try_swap(state, sample, partner, best);
        budget.spend(1);
      });
    });
    if (best.load < most) { return; }
    state.for_each_of(problem_, rank, [&](std::uint32_t sample) {
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
    if (after == 0) { most = state.largest_load(); }
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

/// A sequence of the busiest GPU, or any, each half of the time.
[[nodiscard]] inline std::uint32_t draw_shard(shard_problem const& problem,
                                              shard_state const& state, random_source& random)
{
  auto drawn = static_cast<std::uint32_t>(random.below(problem.samples()));
  if (random.below(2) == 0) { return drawn; }
  auto const busiest = std::max_element(state.of_gpu.begin(), state.of_gpu.end(),
                                        [](shard_use a, shard_use b) { return a.load < b.load; });
  std::uint64_t seen = 0;
  state.for_each_of(problem, static_cast<std::size_t>(busiest - state.of_gpu.begin()),
                    [&](std::uint32_t sample) {
                      if (random.below(++seen) == 0) { drawn = sample; }
                    });
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
                       [&](shard_use use) { return use.held > problem.most_per_gpu; });
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

/// How a greedy plan chooses the level of every sequence.
struct shard_rule {
  /// A sequence goes to the level where it takes the least GPU time of those in which it takes each
  /// GPU at most so long; where there is none, to that in which it takes least.
  cost_units longest_time = 0;
  shard_fullness fullness;  ///< by tokens for steps that hardly fit the memory
  std::uint32_t degree =
      0;  ///< not 0: the largest level up to this degree that a sequence may have
};

/// Plans a step level by level, from the largest groups down, so that the GPUs of a group are
/// equally loaded when it is looked at: sequences from the longest on, each to the least full group.
class shard_greedy {
 public:
  shard_greedy(shard_problem const& problem, workspace::frame& scratch)
      : problem_(problem),
        usual_class_(scratch.take<std::uint32_t>(problem.levels())),
        level_of_(scratch.take<std::uint32_t>(problem.samples())),
        offsets_(scratch.take<std::size_t>(problem.levels() + 2)),
        order_(scratch.take<std::uint32_t>(problem.samples())),
        queues_(problem, scratch),
        left_over_(scratch.take<std::uint32_t>(problem.samples()))
  {
    for (std::size_t level = 0; level < problem.levels(); ++level) {
      usual_class_[level] = most_common_class(level);
    }
  }

  /// Expects     a state without sequences.
  /// Ensures     (1) every sequence has a group, and no GPU more tokens than it may; otherwise it
  ///                 returns the first sequence for which it found none
  /// Complexity  O(n (levels + log groups)), and O(groups) of the budget for each sequence that
  ///             finds no room on its level; it gives up where that is spent.
  [[nodiscard]] std::optional<std::uint32_t> plan(shard_state& state, shard_rule const& rule,
                                                  work_budget& budget)
  {
    fullness_ = rule.fullness;
    choose_levels(rule);
    left_over_count_ = 0;
    for (std::size_t level = problem_.levels(); level > 0; --level) {
      auto const samples = of_level(level - 1);
      if (samples.empty()) { continue; }
      queues_.start(state, fullness_, level - 1);
      for (std::uint32_t const sample : samples) {
        if (!queues_.put(state, sample)) { left_over_[left_over_count_++] = sample; }
      }
    }
    for (std::uint32_t const sample : of_level(problem_.levels())) {
      left_over_[left_over_count_++] = sample;
    }
    state.refresh(problem_);
    for (std::uint32_t const sample : left_over_.first(left_over_count_)) {
      budget.spend(2 * problem_.groups.size());
      if (budget.spent()) { return sample; }
      auto const group = least_full_group(state, sample, 0, problem_.groups.size());
      if (!group) { return sample; }
      state.insert(problem_, sample, *group);
      state.refresh(problem_);
    }
    return std::nullopt;
  }

  /// The same with one degree for all: each sequence goes to groups of the largest degree up to
  /// `degree` that has room for it, or else to any.
  ///
  /// Complexity  O(n groups).
  [[nodiscard]] std::optional<std::uint32_t> plan_uniform(shard_state& state, std::uint32_t degree,
                                                          shard_fullness const& fullness)
  {
    fullness_ = fullness;
    for (std::uint32_t const sample : problem_.by_length) {
      std::optional<std::uint32_t> group;
      std::size_t end = problem_.classes.size();
      while (end > 0 && !group) {
        std::uint32_t const gpus = problem_.classes[end - 1].shape.gpus;
        std::uint32_t first_group = no_shard_group;
        std::uint32_t end_group = 0;
        for (; end > 0 && problem_.classes[end - 1].shape.gpus == gpus; --end) {
          first_group = std::min(first_group, problem_.classes[end - 1].first_group);
          end_group = std::max(end_group, problem_.classes[end - 1].end_group);
        }
        if (gpus <= degree) { group = least_full_group(state, sample, first_group, end_group); }
      }
      if (!group) { group = least_full_group(state, sample, 0, problem_.groups.size()); }
      if (!group) { return sample; }
      state.insert(problem_, sample, *group);
      state.refresh(problem_);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::uint32_t most_common_class(std::size_t level) const
  {
    std::uint32_t best = 0;
    std::uint64_t best_gpus = 0;
    for (std::uint32_t const group : problem_.groups_of_level(level)) {
      auto const& candidate = problem_.classes[problem_.class_of[group]];
      std::uint64_t const gpus = std::uint64_t{candidate.groups} * candidate.shape.gpus;
      if (gpus > best_gpus) {
        best_gpus = gpus;
        best = problem_.class_of[group];
      }
    }
    return best;
  }

  /// The number of levels where a sequence may go to none.
  [[nodiscard]] std::size_t chosen_level(std::size_t sample, shard_rule const& rule) const
  {
    if (rule.degree > 0) {
      for (std::size_t level = problem_.levels(); level-- > 0;) {
        std::uint32_t const usual = usual_class_[level];
        if (problem_.classes[usual].shape.gpus <= rule.degree &&
            problem_.time(sample, usual) != no_cost) {
          return level;
        }
      }
      return problem_.levels();
    }
    if (problem_.time(sample, 0) <= rule.longest_time) { return 0; }  // exchanges only add to it
    std::size_t best = problem_.levels();
    bool best_is_short = false;
    uint128 least = 0;
    for (std::size_t level = 0; level < problem_.levels(); ++level) {
      cost_units const time = problem_.time(sample, usual_class_[level]);
      if (time == no_cost) { continue; }
      bool const is_short = time <= rule.longest_time;
      uint128 const gpus = is_short ? problem_.classes[usual_class_[level]].shape.gpus : 1;
      uint128 const measure = gpus * static_cast<std::uint64_t>(time);
      bool const is_better = best == problem_.levels() || (is_short && !best_is_short) ||
                             (is_short == best_is_short && measure < least);
      if (is_better) {
        best = level;
        best_is_short = is_short;
        least = measure;
      }
    }
    return best;
  }

  // The sequences of a level, from the longest on; of one past the last, those without a level.
  [[nodiscard]] std::span<std::uint32_t const> of_level(std::size_t level) const
  {
    return jagged_view<std::size_t, std::uint32_t const>(offsets_, order_)[level];
  }

  void choose_levels(shard_rule const& rule)
  {
    for (std::size_t sample = 0; sample < problem_.samples(); ++sample) {
      level_of_[sample] = static_cast<std::uint32_t>(chosen_level(sample, rule));
    }
    fill_rows(
        offsets_,
        [this](auto const& visit) {
          for (std::uint32_t const sample : problem_.by_length) {
            visit(std::size_t{level_of_[sample]}, sample);
          }
        },
        [this](std::size_t) { return order_; });
  }

  /// Of the groups from `first` to before `end` that have room, the one whose fullest GPU is least
  /// full with the sequence.
  [[nodiscard]] std::optional<std::uint32_t> least_full_group(shard_state const& state,
                                                              std::uint32_t sample,
                                                              std::size_t first,
                                                              std::size_t end) const
  {
    std::optional<std::uint32_t> best;
    cost_units least = no_cost;
    for (std::size_t group = first; group < end; ++group) {
      if (problem_.class_of[group] == no_shard_group) { continue; }
      cost_units const time = problem_.time_in(sample, group);
      if (time == no_cost) { continue; }
      shard_use const after{state.peak[group].load + time,
                            state.peak[group].held + problem_.share_in(sample, group)};
      if (after.held > problem_.most_per_gpu || fullness_(after) >= least) { continue; }
      least = fullness_(after);
      best = static_cast<std::uint32_t>(group);
    }
    return best;
  }

  shard_problem const& problem_;
  std::span<std::uint32_t> usual_class_;  ///< of each level: that of most GPUs
  std::span<std::uint32_t> level_of_;
  std::span<std::size_t> offsets_;
  std::span<std::uint32_t> order_;
  shard_queues queues_;
  shard_fullness fullness_;
  std::span<std::uint32_t> left_over_;
  std::size_t left_over_count_ = 0;
};

}  // namespace ballast::inline v0::detail
