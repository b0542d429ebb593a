// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_SEARCH_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_enumeration.hpp>
#include <ballast/sharding/detail/shard_greedy.hpp>
#include <ballast/sharding/detail/shard_moves.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/detail/shard_queues.hpp>
#include <ballast/sharding/detail/shard_state.hpp>
#include <ballast/sharding/detail/shard_throw.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ballast::inline v0::detail {

/// Searches for the plan of a step: greedy plans for several limits on the time of one sequence and
/// for uniform degrees, each improved by changes of one or two sequences; then the best of them,
/// again and again with a few sequences thrown elsewhere and improved anew. A small step starts
/// with plain local search from the best uniform degree, so that it ends no worse than that. Of a
/// step of few sequences all plans are tried, as far as half of the budget goes.
class shard_search {
 public:
  shard_search(shard_problem const& problem, cost_units bound, workspace::frame& scratch)
      : problem_(problem),
        bound_(bound),
        best_owner_(scratch.take<std::uint32_t>(problem.samples())),
        from_owner_(scratch.take<std::uint32_t>(problem.samples())),
        state_(problem, scratch),
        greedy_(problem, scratch),
        moves_(problem, scratch),
        both_(shard_fullness::of_both(problem, bound)),
        random_(0x5eed)
  {
    if (shard_enumeration::takes(problem)) { enumeration_.emplace(problem, scratch); }
  }

  /// Ensures     (1) owner() has a group for every sequence, and no GPU more tokens than it may;
  ///                 otherwise it returns a sequence for which it found none
  ///             (2) where all_tried(), no other plan is better, or there is none
  [[nodiscard]] std::optional<std::uint32_t> run(work_budget budget)
  {
    std::optional<std::uint32_t> stranded;
    std::uint64_t const all = budget.left();
    start_plainly(budget);
    try_all(budget);
    if (all_tried_) { return has_plan_ ? std::nullopt : std::optional(problem_.by_length.front()); }
    // Returns whether `plan` found one.
    auto const start = [&](auto plan) {
      state_.clear();
      if (auto const without = plan()) {
        stranded = without;
        return false;
      }
      work_budget slice(budget.left() < all / 4 ? 0 : all / 32);
      std::uint64_t const given = slice.left();
      cost_units const most = moves_.descend(state_, slice);
      budget.spend(given - slice.left());
      keep(most);
      return true;
    };
    work_budget packing(packing_steps + 4 * all);
    auto const start_greedy = [&](shard_rule const& rule) {
      return start([&] { return greedy_.plan(state_, rule, packing); });
    };
    bool const is_cheap = problem_.samples() <= 4096;
    for (int const share : std::span(shares).first(is_cheap ? shares.size() : few_shares)) {
      if (has_plan_ && most_ == bound_) { break; }
      // By load alone; where memory is short or it costs little, by tokens too.
      bool const is_planned = start_greedy({scaled(share), {}});
      bool const may_help = is_cheap && both_.weight > 0;
      if (may_help || !is_planned) { (void)start_greedy({scaled(share), both_}); }
    }
    for (int const share : {0, 50, 250, 1000}) {
      if (!has_plan_) { (void)start_greedy({scaled(share), {.by_tokens = true}}); }
    }
    for_each_degree([&](std::uint32_t degree) {
      work_budget& payer = has_plan_ ? budget : packing;
      bool const is_too_much = payer.left() < (has_plan_ ? all / 4 : 0) + uniform_steps();
      if (has_plan_ && most_ == bound_) { return; }
      if (is_too_much) {  // nearly the same plan by heaps, unless the best is near the bound anyway
        if (!has_plan_ || most_ - bound_ > bound_ / 256) {
          (void)start_greedy({.fullness = both_, .degree = degree});
        }
        return;
      }
      payer.spend(uniform_steps());
      (void)start([&] { return greedy_.plan_uniform(state_, degree, both_); });
    });
    if (!has_plan_) { return stranded; }
    perturb(budget);
    return std::nullopt;
  }

  [[nodiscard]] std::span<std::uint32_t const> owner() const noexcept { return best_owner_; }
  [[nodiscard]] bool all_tried() const noexcept { return all_tried_; }

 private:
  static constexpr std::uint64_t greedy_steps = 24;          ///< for a sequence
  static constexpr std::uint64_t packing_steps = 1'000'000;  ///< for steps that hardly fit
  /// Limits on the time of one sequence, in thousandths of the bound, for greedy plans.
  static constexpr std::array shares = {500, 1000, 250, 750, 350, 150, 100, 50,
                                        25,  8,    667, 333, 125, 167, 62};
  static constexpr std::size_t few_shares = 10;       ///< of large steps
  static constexpr std::uint64_t in_turn_every = 16;  ///< improvements of a small step

  /// So many thousandths of the bound.
  [[nodiscard]] cost_units scaled(int share) const
  {
    return bound_ / 1000 * share + bound_ % 1000 * share / 1000;
  }

  [[nodiscard]] std::uint64_t uniform_steps() const
  {
    return 2 * static_cast<std::uint64_t>(problem_.samples()) * problem_.groups.size();
  }

  template <class Visit>
  void for_each_degree(Visit visit) const
  {
    std::uint32_t degree = 0;
    for (shard_class const& each : problem_.classes) {
      if (each.shape.gpus != degree) { visit(degree = each.shape.gpus); }
    }
  }

  /// Plain local search from the best uniform degree, where that is cheap: what anybody would write
  /// first, so that no plan is worse.
  void start_plainly(work_budget& budget)
  {
    std::uint64_t const all = budget.left();
    std::uint64_t degrees = 0;
    for_each_degree([&](std::uint32_t) { ++degrees; });
    is_small_ = degrees * uniform_steps() <= all / 4;
    if (!is_small_) { return; }
    cost_units least = no_cost;
    for_each_degree([&](std::uint32_t degree) {
      state_.clear();
      budget.spend(uniform_steps());
      if (greedy_.plan_uniform(state_, degree, {})) { return; }
      cost_units most = 0;
      for (shard_use const use : state_.of_gpu) { most = std::max(most, use.load); }
      if (most >= least) { return; }
      least = most;
      std::copy(state_.owner.begin(), state_.owner.end(), from_owner_.begin());
    });
    if (least == no_cost) { return; }
    for (bool const in_turn : {true, false}) {
      state_.assign(problem_, from_owner_);
      work_budget slice(all / 4);
      std::uint64_t const given = slice.left();
      cost_units const most =
          in_turn ? moves_.descend_in_turn(state_, slice) : moves_.descend(state_, slice);
      budget.spend(given - slice.left());
      keep(most);
    }
  }

  void try_all(work_budget& budget)
  {
    if (!enumeration_ || (has_plan_ && most_ == bound_)) { return; }
    state_.clear();
    work_budget slice(budget.left() / 2);
    std::uint64_t const given = slice.left();
    all_tried_ =
        enumeration_->run(state_, most_, bound_, slice, [this](cost_units most) { keep(most); });
    budget.spend(given - slice.left());
  }

  void keep(cost_units most)
  {
    if (has_plan_ && most >= most_) { return; }
    has_plan_ = true;
    most_ = most;
    std::copy(state_.owner.begin(), state_.owner.end(), best_owner_.begin());
  }

  /// Iterated local search from the best plan: throws a few sequences elsewhere and improves anew,
  /// from plans that are little worse too, so that it wanders. Where that finds nothing for long,
  /// it goes on from another greedy plan.
  void perturb(work_budget& budget)
  {
    if (most_ == bound_ || problem_.samples() == 0) { return; }
    state_.assign(problem_, best_owner_);
    begin_from(most_);
    std::uint64_t const patience = 50 + 2 * problem_.samples();
    for (std::uint64_t idle = 0; !budget.spent() && most_ > bound_; ++idle) {
      if (idle > patience) {
        idle = 0;
        restart(budget);
      }
      for (std::uint64_t thrown = 1 + random_.below(3); thrown > 0; --thrown) {
        throw_some(problem_, state_, random_);
      }
      budget.spend(problem_.gpus + problem_.groups.size());
      state_.refresh(problem_);
      cost_units const most = improve(budget);
      keep(most);
      bool const is_much_worse = most > from_most_ && most - from_most_ > from_most_ / 64;
      if (most < from_most_) {
        begin_from(most);
        idle = 0;
      } else if (most == from_most_) {
        begin_from(most);
      } else if (is_much_worse || random_.below(8) == 0) {
        budget.spend(problem_.samples());
        state_.assign(problem_, from_owner_);
      }
    }
  }

  /// Improves the state by one of the two descents, which end at different plans.
  [[nodiscard]] cost_units improve(work_budget& budget)
  {
    bool const is_in_turn = is_small_ && random_.below(in_turn_every) == 0;
    return is_in_turn ? moves_.descend_in_turn(state_, budget) : moves_.descend(state_, budget);
  }

  void restart(work_budget& budget)
  {
    state_.clear();
    budget.spend(greedy_steps * problem_.samples() + problem_.groups.size());
    auto const part = static_cast<std::int64_t>(2 + random_.below(30));
    cost_units const share = bound_ / part * 4 + bound_ % part * 4 / part;
    auto const at = static_cast<std::size_t>(random_.below(problem_.classes.size()));
    bool const is_uniform = random_.below(2) == 0 && uniform_steps() < budget.left() / 16;
    if (is_uniform) { budget.spend(uniform_steps()); }
    auto const stranded = is_uniform
                              ? greedy_.plan_uniform(state_, problem_.classes[at].shape.gpus, both_)
                              : greedy_.plan(state_, {share, both_}, budget);
    if (stranded) {
      state_.assign(problem_, best_owner_);
      begin_from(most_);
      return;
    }
    cost_units const most = improve(budget);
    keep(most);
    begin_from(most);
  }

  /// The state is the plan that perturb() comes back to.
  void begin_from(cost_units most)
  {
    from_most_ = most;
    std::copy(state_.owner.begin(), state_.owner.end(), from_owner_.begin());
  }

  shard_problem const& problem_;
  cost_units bound_;
  std::span<std::uint32_t> best_owner_;
  std::span<std::uint32_t> from_owner_;
  shard_state state_;
  shard_greedy greedy_;
  shard_moves moves_;
  shard_fullness both_;
  random_source random_;
  cost_units most_ = no_cost;       ///< of best_owner_
  cost_units from_most_ = no_cost;  ///< of from_owner_
  bool has_plan_ = false;
  std::optional<shard_enumeration> enumeration_;
  bool all_tried_ = false;
  bool is_small_ = false;  ///< so that plain local search is cheap
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_SEARCH_HPP
