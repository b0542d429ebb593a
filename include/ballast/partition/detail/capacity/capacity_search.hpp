// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITY_SEARCH_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITY_SEARCH_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/capacity/capped_exchanges.hpp>
#include <ballast/partition/detail/capacity/fill_by_density.hpp>
#include <ballast/partition/detail/capacity/place_within_capacity.hpp>
#include <ballast/partition/detail/capacity/relieve_overruns.hpp>
#include <ballast/partition/detail/counts/counted_bags.hpp>
#include <ballast/partition/detail/counts/counted_exchanges.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/detail/exchange/swap_extremes.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Makes a plan from nothing in which bags keep their numbers of samples and their capacities,
/// whatever its makespan: as plans of equal counts are made, with weights for costs and capacities
/// for speeds. Returns whether no bag is overrun.
///
/// Expects     every sample has a bag that it fits.
/// Ensures     (1) every bag holds as many samples as before, which fit it
/// Complexity  O(n (sizes + log n)), and the exchanges until `work` is spent.
inline bool fill_by_count(partition_problem const& problem, bags_with_room const& bags,
                          std::span<cost_units const> starting_loads, work_budget& work,
                          workspace& memory)
{
  auto scratch = memory.open();
  std::size_t const count = bags.loads().size();
  std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(count);
  std::fill(counts.begin(), counts.end(), 0);
  for (bag_id const bag : bags.owner()) { ++counts[to_index(bag)]; }

  // Capacities above what all samples weigh are none; the largest has to fit a speed.
  std::int64_t const all =
      std::reduce(problem.weights.begin(), problem.weights.end(), std::int64_t{0});
  std::int64_t largest = 0;
  for (std::int64_t const capacity : problem.capacities) {
    largest = std::max(largest, std::min(capacity, all));
  }
  auto const bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest)));
  int const lost = std::max(bits - std::numeric_limits<std::uint32_t>::digits, 0);
  std::span<std::uint32_t> const speeds = scratch.take<std::uint32_t>(count);
  for (std::size_t bag = 0; bag < count; ++bag) {
    std::int64_t const speed = std::min(problem.capacities[bag], all) >> lost;
    speeds[bag] = static_cast<std::uint32_t>(std::max<std::int64_t>(speed, 1));
  }
  std::span<priced_sample> const heaviest_first =
      scratch.take<priced_sample>(problem.weights.size());
  descending_order_into(heaviest_first, problem.weights, memory);
  partition_problem weighed = problem;
  weighed.costs = problem.weights;
  weighed.heaviest_first = heaviest_first;
  weighed.speeds = speeds;

  std::span<cost_units> const held = scratch.take<cost_units>(count);
  std::fill(held.begin(), held.end(), 0);
  ratio const full{std::int64_t{1} << lost, 1};
  counted_bags const members(weighed, counts, held, scratch);
  counted_exchanges plan(weighed, members, work, memory);
  swap_extremes(plan, full, memory);
  settle_latest(plan, full, scratch)();

  bags.clear(starting_loads);
  for (std::size_t bag = 0; bag < count; ++bag) {
    for (priced_sample const member : members[bag]) { bags.put(to_index(member.sample), bag); }
  }
  return !bags.any_overrun();
}

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
    if (!found_) {
      bags_.replace(first_loads_, first_owner_);
      if (!fill_by_count(problem_, bags_, starting_loads, left_, memory_)) { return false; }
      keep_best();
    }
    settle(left_.left());
    shake();
    return true;
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
        settle(left_.left());
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
    shake();
    return true;
  }

 private:
  // Settles what a few random swaps make of the best plan, as long as there is work.
  void shake()
  {
    constexpr std::uint64_t seed = 1;
    constexpr int swaps = 2;
    random_source random(seed);
    std::size_t const count = bags_.loads().size();
    while (count > 1 && !is_within(narrow) && !left_.spent()) {
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

  partition_problem problem_;
  bags_with_room bags_;
  ratio bound_;
  exchange_counts counts_;
  work_budget left_;
  workspace& memory_;
  std::span<cost_units> best_loads_;
  std::span<bag_id> best_owner_;
  std::span<cost_units> first_loads_;  // the plan at hand, or what was relieved of it
  std::span<bag_id> first_owner_;
  bool found_ = false;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_CAPACITY_SEARCH_HPP
