// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITY_SEARCH_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITY_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/capacity/capped_branching.hpp>
#include <ballast/partition/detail/capacity/capped_exchanges.hpp>
#include <ballast/partition/detail/capacity/fill_by_count.hpp>
#include <ballast/partition/detail/capacity/fill_by_density.hpp>
#include <ballast/partition/detail/capacity/fill_by_weight.hpp>
#include <ballast/partition/detail/capacity/place_within_capacity.hpp>
#include <ballast/partition/detail/capacity/relieve_overruns.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/detail/exchange/swap_with_earliest.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Searches plans that keep to the capacities for one with a small makespan: from several starts by
/// exchanges, and then from what a few random swaps make of the best one, over and over.
///
/// In, out     `bags` enters with a plan that may overrun and leaves with the best one found.
/// Expects     no plan that keeps to the capacities has a makespan below `bound`; no bag has a load
///             below its starting load.
/// Ensures     (1) no bag of a plan that it found is above its capacity
///             (2) where the plan that it began with keeps to the capacities, the makespan does not
///                 grow
///             (3) with exchange_counts::equal, every bag keeps its number of samples
///             (4) it ends when no bag finishes after `bound`, or when the work is spent
/// Complexity  O(n m + work); 8 n + 8 m bytes of scratch beside that of the exchanges.
class capacity_search {
 public:
  capacity_search(partition_problem const& problem, bags_with_room const& bags, ratio bound,
                  exchange_counts counts, std::uint64_t work, workspace& memory,
                  workspace::frame& scratch)
      : problem_(problem),
        bags_(bags),
        bound_(bound),
        counts_(counts),
        left_(work),
        memory_(memory),
        scratch_(scratch),
        best_loads_(scratch.take<cost_units>(bags.loads().size())),
        best_owner_(scratch.take<bag_id>(bags.owner().size())),
        first_loads_(scratch.take<cost_units>(bags.loads().size())),
        first_owner_(scratch.take<bag_id>(bags.owner().size()))
  {
    std::copy(bags.loads().begin(), bags.loads().end(), first_loads_.begin());
    std::copy(bags.owner().begin(), bags.owner().end(), first_owner_.begin());
  }

  /// Searches plans in which every bag keeps its number of samples. Returns whether it found one.
  bool search_counts(std::span<cost_units const> starting_loads)
  {
    relieve(left_.left() / 4);
    if (found_) { settle(left_.left() / 2); }
    if (!is_within(wide)) {
      bags_.replace(first_loads_, first_owner_);
      std::uint64_t const work = left_.left() / 2;
      work_budget steps(work);
      bool const fits = fill_by_count(problem_, bags_, starting_loads, steps, memory_);
      left_.spend(work - steps.left());
      if (fits) { even_out(left_.left()); }
    }
    std::span<std::uint32_t> const places = scratch_.take<std::uint32_t>(best_loads_.size());
    std::fill(places.begin(), places.end(), 0);
    for (bag_id const bag : first_owner_) { ++places[to_index(bag)]; }
    branch(starting_loads, places);
    if (found_) { shake(); }
    return found_;
  }

  /// Searches all plans, but where samples have homes, first those that are near to the one at
  /// hand. The search of all fillings takes up to `nodes` steps. Returns whether it found a plan.
  bool search(std::span<cost_units const> starting_loads, cheapest_cover const& cover,
              std::uint64_t nodes)
  {
    if (!problem_.home.empty()) {
      relieve(left_.left() / 4);
      settle(left_.left());
      if (found_) { return true; }
    } else if (bags_.any_overrun()) {
      left_.spend(bags_.owner().size());
      if (fill_by_density(problem_, bags_, starting_loads, bound_, cover, memory_)) {
        // Where it is far from even, cost does not follow from weight, and the next start is
        // better.
        ratio const made = makespan_of(bags_.loads(), problem_.speeds);
        ratio const near{bound_.numerator + (bound_.numerator >> 4), bound_.denominator};
        settle(made <= near ? left_.left() : left_.left() / 4);
      }
      if (!is_within(wide)) {
        auto frame = memory_.open();
        auto const by_weight = frame.take<priced_sample>(problem_.weights.size());
        descending_order_into(by_weight, problem_.weights, memory_);
        left_.spend(bags_.owner().size());
        if (fill_by_weight(problem_, bags_, starting_loads, by_weight, memory_)) {
          even_out(left_.left());
        }
      }
      bags_.replace(first_loads_, first_owner_);
    }
    if (problem_.home.empty() && !is_within(wide)) {
      relieve(left_.left() / 4);
      settle(left_.left());
    }
    if (!found_) {
      bags_.replace(first_loads_, first_owner_);
      work_budget steps(nodes);
      if (!place_within_capacity(problem_, bags_, starting_loads, bags_.owner(), steps, memory_)) {
        return false;
      }
      settle(left_.left());
    }
    if (problem_.home.empty()) { branch(starting_loads, {}); }
    shake();
    return true;
  }

  /// Whether no plan has a smaller makespan than the one that search() found.
  [[nodiscard]] bool is_optimal() const noexcept { return is_optimal_; }

 private:
  // Tries all plans of a small step, as long as there is work.
  void branch(std::span<cost_units const> starting_loads, std::span<std::uint32_t const> places)
  {
    if (!capped_branching::is_small(best_owner_.size(), best_loads_.size()) || is_within(narrow)) {
      return;
    }
    auto frame = memory_.open();
    std::uint64_t const work = left_.left() / 2;
    work_budget steps(work);
    capped_branching all(problem_, starting_loads, places, steps, frame);
    ratio const best = found_ ? makespan_of(best_loads_, problem_.speeds) : ratio{no_cost, 1};
    if (all(best)) {
      bags_.clear(starting_loads);
      for (std::size_t sample = 0; sample < best_owner_.size(); ++sample) {
        bags_.put(sample, to_index(all.owner()[sample]));
      }
      keep_best();
    }
    is_optimal_ = found_ && !steps.spent();
    left_.spend(work - steps.left());
  }

  // Settles what a few random swaps make of the best plan, as long as there is work.
  void shake()
  {
    constexpr std::uint64_t seed = 1;
    constexpr int swaps = 2;
    random_source random(seed);
    std::size_t const count = bags_.loads().size();
    while (count > 1 && !is_optimal_ && !is_within(narrow) && !left_.spent()) {
      auto frame = memory_.open();
      bags_.replace(best_loads_, best_owner_);
      left_.spend(bags_.owner().size() + count);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), left_, memory_,
                            frame, counts_);
      std::size_t bag = latest();
      for (int swap = 0; swap < swaps; ++swap) {
        std::size_t const other = (bag + 1 + random.below(count - 1)) % count;
        plan.make(plan.draw_swap(bag, other, random));
        bag = random.below(count);
      }
      settle_latest(plan, bound_, frame)();
      keep_best();
    }
    bags_.replace(best_loads_, best_owner_);
  }

  [[nodiscard]] std::size_t latest() const noexcept
  {
    std::size_t late = 0;
    auto const finish = [this](std::size_t bag) {
      return ratio{bags_.loads()[bag], problem_.speeds[bag]};
    };
    for (std::size_t bag = 1; bag < bags_.loads().size(); ++bag) {
      if (finish(bag) > finish(late)) { late = bag; }
    }
    return late;
  }

  // How near to the bound a plan is good enough, as a power of 2 by which that is divided: for not
  // looking at other starts, and for not looking at all.
  static constexpr int wide = 11;
  static constexpr int narrow = 17;

  [[nodiscard]] bool is_within(int nearness) const
  {
    cost_units const exact = bound_.numerator;
    ratio const near{exact + std::min(exact >> nearness, no_cost - exact), bound_.denominator};
    return found_ && makespan_of(best_loads_, problem_.speeds) <= near;
  }

  void keep_best()
  {
    if (found_ &&
        makespan_of(best_loads_, problem_.speeds) <= makespan_of(bags_.loads(), problem_.speeds)) {
      return;
    }
    found_ = true;
    std::copy(bags_.loads().begin(), bags_.loads().end(), best_loads_.begin());
    std::copy(bags_.owner().begin(), bags_.owner().end(), best_owner_.begin());
  }

  void relieve(std::uint64_t work)
  {
    if (bags_.any_overrun()) {
      auto frame = memory_.open();
      work_budget steps(work);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                            frame, counts_);
      bool const relieved = relieve_overruns(plan, problem_.speeds, bound_, frame);
      left_.spend(work - steps.left());
      if (!relieved) { return; }
    }
    keep_best();
  }

  void settle(std::uint64_t work)
  {
    if (bags_.any_overrun()) { return; }
    auto frame = memory_.open();
    work_budget steps(work);
    capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                          frame, counts_);
    settle_in_stages(plan, bound_, frame);
    left_.spend(work - steps.left());
    keep_best();
    bags_.replace(best_loads_, best_owner_);
  }

  // Settles a plan that was made by weight, and whose work is far from even: first by single swaps
  // of the latest bag with one of the earliest, of which a hundred cost as much as an exchange of
  // many samples.
  void even_out(std::uint64_t work)
  {
    {
      auto frame = memory_.open();
      work_budget steps(work);
      capped_exchanges plan(problem_, bags_.loads(), bags_.owner(), bags_.held(), steps, memory_,
                            frame, counts_);
      swap_with_earliest(plan, bound_, frame);
      left_.spend(work - steps.left());
    }
    settle(left_.left());
  }

  partition_problem problem_;
  bags_with_room bags_;
  ratio bound_;
  exchange_counts counts_;
  work_budget left_;
  workspace& memory_;
  workspace::frame& scratch_;
  std::span<cost_units> best_loads_;
  std::span<bag_id> best_owner_;
  std::span<cost_units> first_loads_;  // the plan at hand, or what was relieved of it
  std::span<bag_id> first_owner_;
  bool found_ = false;
  bool is_optimal_ = false;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITY_SEARCH_HPP
