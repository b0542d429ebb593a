// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_SHARDING_SHARD_SEARCH_HPP
#define BALLAST_PARALLELISM_DETAIL_SHARDING_SHARD_SEARCH_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/parallelism/detail/sharding/shard_greedy.hpp>
#include <ballast/parallelism/detail/sharding/shard_moves.hpp>
#include <ballast/parallelism/detail/sharding/shard_problem.hpp>
#include <ballast/parallelism/detail/sharding/shard_state.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ballast::inline v0::detail {

/// Searches for the plan of a step: greedy plans for several limits on the time of one sequence and
/// for uniform degrees, each improved by changes of one or two sequences; then the best of them,
/// again and again with a few sequences thrown elsewhere and improved anew.
class shard_search {
 public:
  shard_search(shard_problem const& problem, cost_units bound, workspace::frame& scratch)
      : problem_(problem),
        bound_(bound),
        best_owner_(scratch.take<std::uint32_t>(problem.samples())),
        state_(problem, scratch),
        greedy_(problem, scratch),
        moves_(problem, scratch),
        random_(0x5eed)
  {}

  /// Ensures     (1) owner() has a group for every sequence, and no GPU more tokens than it may;
  ///                 otherwise it returns a sequence for which it found none
  [[nodiscard]] std::optional<std::uint32_t> run(work_budget budget)
  {
    std::optional<std::uint32_t> stranded;
    std::uint64_t const all = budget.left();
    auto const start = [&](shard_rule const& rule) {
      if (has_plan_ && (most_ == bound_ || budget.left() < all / 4)) { return; }
      state_.clear();
      budget.spend(greedy_steps * problem_.samples() + problem_.groups.size());
      auto const without = greedy_.plan(state_, rule, bound_);
      if (without) {
        stranded = without;
        return;
      }
      work_budget slice(all / 32);
      std::uint64_t const given = slice.left();
      cost_units const most = moves_.descend(state_, slice);
      budget.spend(given - slice.left());
      keep(most);
    };
    // A limit of 4 / share of the bound.
    for (std::int64_t const share : std::array{8, 4, 16, 6, 32, 12, 64, 24, 128, 512}) {
      start({.longest_time = scaled(share)});
    }
    for (std::size_t level = 0; level < problem_.levels(); ++level) { start({.level = level}); }
    if (!has_plan_) { start({.longest_time = 0, .by_tokens = true}); }
    if (!has_plan_) { start({.level = problem_.levels() - 1, .by_tokens = true}); }
    if (!has_plan_) { return stranded; }
    perturb(budget);
    return std::nullopt;
  }

  [[nodiscard]] std::span<std::uint32_t const> owner() const noexcept { return best_owner_; }

 private:
  static constexpr std::uint64_t greedy_steps = 24;  ///< for a sequence

  [[nodiscard]] cost_units scaled(std::int64_t share) const
  {
    return bound_ / share * 4 + bound_ % share * 4 / share;
  }

  void keep(cost_units most)
  {
    if (has_plan_ && most >= most_) { return; }
    has_plan_ = true;
    most_ = most;
    std::copy(state_.owner.begin(), state_.owner.end(), best_owner_.begin());
  }

  /// Iterated local search from the best plan. Equal plans are taken too, so that it wanders.
  void perturb(work_budget& budget)
  {
    if (most_ == bound_ || problem_.samples() == 0) { return; }
    state_.assign(problem_, best_owner_);
    cost_units current = most_;
    while (!budget.spent() && most_ > bound_) {
      for (std::uint64_t thrown = 1 + random_.below(3); thrown > 0; --thrown) { throw_one(); }
      budget.spend(problem_.samples() + problem_.gpus);
      state_.refresh(problem_);
      cost_units const most = moves_.descend(state_, budget);
      if (most < most_) { keep(most); }
      bool const is_much_worse = most > current && most - most_ > most_ / 64;
      if (is_much_worse || random_.below(8) == 0) {
        budget.spend(2 * problem_.samples());
        state_.assign(problem_, best_owner_);
        current = most_;
      } else {
        current = most;
      }
    }
  }

  /// Puts a sequence into any group that has room.
  void throw_one()
  {
    auto const sample = static_cast<std::uint32_t>(random_.below(problem_.samples()));
    auto const at = static_cast<std::size_t>(random_.below(problem_.classes.size()));
    shard_class const& target = problem_.classes[at];
    auto const group = static_cast<std::uint32_t>(
        target.first_group + random_.below(target.end_group - target.first_group));
    if (problem_.class_of[group] != at || problem_.time(sample, at) == no_cost) { return; }
    std::uint32_t const home = state_.owner[sample];
    state_.remove(problem_, sample);
    state_.insert(problem_, sample, group);
    auto const [first, gpus] = problem_.groups[group];
    for (shard_use const& use : state_.of_gpu.subspan(to_index(first), gpus)) {
      if (use.held > problem_.most_tokens) {
        state_.remove(problem_, sample);
        state_.insert(problem_, sample, home);
        return;
      }
    }
  }

  shard_problem const& problem_;
  cost_units bound_;
  std::span<std::uint32_t> best_owner_;
  shard_state state_;
  shard_greedy greedy_;
  shard_moves moves_;
  random_source random_;
  cost_units most_ = no_cost;
  bool has_plan_ = false;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_SHARDING_SHARD_SEARCH_HPP
