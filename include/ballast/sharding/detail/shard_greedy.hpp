// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_GREEDY_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_GREEDY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/detail/shard_queues.hpp>
#include <ballast/sharding/detail/shard_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ballast::inline v0::detail {

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
      if (after.held > problem_.most_tokens || fullness_(after) >= least) { continue; }
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

#endif  // BALLAST_SHARDING_DETAIL_SHARD_GREEDY_HPP
