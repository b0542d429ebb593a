// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_BATCHES_HPP
#define BALLAST_PARTITION_PADDED_BATCHES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/cheapest_chain.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/detail/padding/least_padding.hpp>
#include <ballast/partition/detail/padding/padded_filling.hpp>
#include <ballast/partition/detail/padding/padded_orders.hpp>
#include <ballast/partition/detail/padding/padded_sum.hpp>
#include <ballast/partition/detail/policy_arrays.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace ballast::inline v0 {

/// Batches that are padded to their longest sample, with the least makespan: each sample of a bag
/// costs as much as the heaviest of them.
///
/// The cost model says what one padded sample costs, so `quadratic_cost{1}` balances count x
/// longest and `quadratic_cost{1, lambda}` count x longest x (1 + lambda longest). Samples go in
/// descending order, bag after bag, each as full as a finishing time allows; bisection finds the
/// least time by which all of them have a bag.
///
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by the number of samples that each bag now owns times the
///                 largest of their costs
///             (3) where every sample fits every bag and bags have one speed and one load to start
///                 with, the plan is an optimum, and the makespan is returned as proven
///             (4) the same holds with several kinds of bags, as long as the product of (bags of a
///                 kind + 1) is at most `orders` and the least common multiple of speeds below 2^32
///             (5) other bags are filled from those with the most GPUs to those with the fewest,
///                 the fastest of a size first, or in the best order that random swaps of two bags
///                 find where every sample fits every bag; `detail::cheapest_chain` is the bound
///             (6) a plan above the capacities, in padded weight, is made anew within them, where a
///                 sample that weighs more costs more; where all bags are alike, none is shorter,
///                 and where that finds no plan, none exists
///             (7) where all bags are alike, samples times bags at most 2^14 and weights within
///                 capacities as in (6), no plan of that makespan costs less in all; what is proven
///                 is the makespan
/// Complexity  O(n + m log m) after the sort that the problem brings, and for every time tried O(m)
///             with bags of one kind, O(kinds x product) in (4), and in (5) O(m + sizes x n); times
///             are bisected until no two that differ are left. In (5) swaps fill up to 2^18 bags, and
///             the bound takes up to 2^21 steps; (7) takes O(m n log n).
/// Source      corrects and generalises Algorithm 2 of B. Xiao, Y. Zheng et al., "OrchMLLM:
///             Orchestrate Multimodal Data with Batch Post-Balancing to Accelerate Multimodal Large
///             Language Model Training", arXiv 2503.23830, 2025.
struct padded_batches {
  std::size_t orders = 8192;  ///< entries of the largest table to search for the order of filling

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    auto const place = [&](detail::padded_batch const& batch) {
      for (auto const [cost, sample] : batch.samples) {
        owner[to_index(sample)] = to_id<bag_id>(batch.bag);
      }
      loads[batch.bag] += batch.load();
    };
    auto scratch = memory.open();
    std::span<cost_units> const starts = scratch.take<cost_units>(loads.size());
    std::copy(loads.begin(), loads.end(), starts.begin());
    detail::finishing_times const times(problem, loads, scratch);
    detail::padded_filling by_size(problem, times, scratch);
    detail::padded_orders by_best_order(problem, times, orders, scratch);
    bool const is_best = by_best_order.applies() && by_size.all_fit();
    uint128 time = 0;
    if (is_best) {
      time = shortest_time(by_best_order, times);
      by_best_order.fill(time, place);
    } else {
      time = shortest_time(by_size, times);
      if (by_size.all_fit()) { time = swap_bags(by_size, times, time); }
      by_size.fill(time, place);
    }
    bool is_proven = is_best && times.exact();
    if (overruns(problem, owner, scratch) && weighs_as_it_costs(problem)) {
      by_size.keep_capacities(problem);
      time = shortest_time(by_size, times);
      if (time == never) { return {}; }  // the front door says that the plan is above
      std::copy(starts.begin(), starts.end(), loads.begin());
      by_size.fill(time, place);
      is_proven = times.exact() && are_alike(problem, times);
    }
    if (can_save_padding(problem, times, owner, scratch)) {
      cost_units const most = *std::max_element(loads.begin(), loads.end()) - starts[0];
      std::copy(starts.begin(), starts.end(), loads.begin());
      auto const most_held = [&problem](priced_sample first) {
        std::int64_t const weight =
            problem.capacities.empty() ? 0 : problem.weights[to_index(first.sample)];
        return weight == 0 ? problem.costs.size()
                           : static_cast<std::size_t>(problem.capacities[0] / weight);
      };
      detail::place_with_least_padding(problem.heaviest_first, loads.size(), most, most_held,
                                       scratch, place);
    }
    if (is_proven) { return makespan_of(loads, problem.speeds); }
    // From a place, a bag takes as many samples as it has time for, padded to the heaviest.
    auto const reach = [&problem](std::size_t first, std::size_t end, cost_units work) {
      auto const cost = static_cast<std::uint64_t>(problem.heaviest_first[first].cost);
      auto const most = static_cast<std::uint64_t>(work);
      return (end - first) * cost > most ? first + static_cast<std::size_t>(most / cost) : end;
    };
    detail::cheapest_chain chain(problem, times, scratch);
    return times.makespan_of_rounded(
        chain.least_time(times.least(), time, problem.heaviest_first.size(), reach, scratch));
  }

  [[nodiscard]] static constexpr batching batches() noexcept { return batching::padded; }
  [[nodiscard]] static constexpr bool restricts() noexcept { return true; }

  friend bool operator==(padded_batches, padded_batches) = default;

 private:
  static constexpr uint128 never = std::numeric_limits<uint128>::max();

  [[nodiscard]] static bool can_save_padding(partition_problem const& problem,
                                             detail::finishing_times const& times,
                                             std::span<bag_id const> owner,
                                             workspace::frame& scratch)
  {
    constexpr std::size_t most_ends = std::size_t{1} << 14;
    return owner.size() <= most_ends / problem.gpus.size() && are_alike(problem, times) &&
           (problem.capacities.empty() ||
            (weighs_as_it_costs(problem) && !overruns(problem, owner, scratch)));
  }

  [[nodiscard]] static bool overruns(partition_problem const& problem,
                                     std::span<bag_id const> owner, workspace::frame& scratch)
  {
    std::span<detail::padded_sum> const held =
        scratch.take<detail::padded_sum>(problem.capacities.size());
    std::fill(held.begin(), held.end(), detail::padded_sum{});
    for (std::size_t sample = 0; sample < problem.weights.size(); ++sample) {
      held[to_index(owner[sample])].add(0, problem.weights[sample]);
    }
    for (std::size_t bag = 0; bag < held.size(); ++bag) {
      if (held[bag].exceeds(problem.capacities[bag])) { return true; }
    }
    return false;
  }

  [[nodiscard]] static bool weighs_as_it_costs(partition_problem const& problem)
  {
    return std::is_sorted(problem.heaviest_first.begin(), problem.heaviest_first.end(),
                          [&problem](priced_sample a, priced_sample b) {
                            return problem.weights[to_index(a.sample)] >
                                   problem.weights[to_index(b.sample)];
                          });
  }

  [[nodiscard]] static bool are_alike(partition_problem const& problem,
                                      detail::finishing_times const& times)
  {
    for (std::size_t bag = 1; bag < problem.gpus.size(); ++bag) {
      if (!times.alike(0, bag) || problem.gpus[0] != problem.gpus[bag] ||
          (!problem.capacities.empty() && problem.capacities[0] != problem.capacities[bag])) {
        return false;
      }
    }
    return true;
  }

  // Which order of several speeds is best depends on the samples: random swaps of two bags, kept
  // where all samples still have a bag by the time that is the least so far.
  [[nodiscard]] static uint128 swap_bags(detail::padded_filling& bags,
                                         detail::finishing_times const& times, uint128 time)
  {
    constexpr std::size_t most_bags = std::size_t{1} << 18;  // to fill, for all swaps together
    auto const nowhere = [](detail::padded_batch const&) {};
    std::span<std::uint32_t> const order = bags.order();
    random_source random(1);
    std::size_t left = std::min(most_bags / order.size(), 256 * order.size());
    for (; left > 0 && time > times.least(); --left) {
      std::size_t const one = random.below(order.size());
      std::size_t const other = random.below(order.size());
      if (times.alike(order[one], order[other])) { continue; }
      std::swap(order[one], order[other]);
      auto filled = bags.fill(time, nowhere);
      if (!filled.placed()) {
        std::swap(order[one], order[other]);
        continue;
      }
      time = std::max(filled.finish, times.least());
      for (uint128 step = (time - times.least()) / 16; step > 0 && left > 1; --left) {
        filled = bags.fill(time - step, nowhere);
        if (filled.placed()) { time = std::max(filled.finish, times.least()); }
        step = std::min(filled.placed() ? step : step / 4, time - times.least());
      }
    }
    return time;
  }

  // A filling is the same at all times from its `finish` to before its `next`, so every probe moves
  // an end of the interval not just to the time probed but to where the filling changes.
  template <class Filling>
  [[nodiscard]] static uint128 shortest_time(Filling& bags, detail::finishing_times const& times)
  {
    auto const nowhere = [](detail::padded_batch const&) {};
    uint128 low = times.least();
    uint128 high = low;
    auto filled = bags.fill(high, nowhere);
    // The bound is mostly near the optimum and enough() seldom is: look upwards from the bound.
    for (uint128 step = low / 64 + 1; !filled.placed(); step *= 2) {
      if (filled.next == never) { return never; }  // bags hold no more
      low = filled.next;
      high = std::max(low, std::min(high + step, times.enough()));
      filled = bags.fill(high, nowhere);
    }
    high = std::max(filled.finish, low);
    while (low < high) {
      filled = bags.fill(low + (high - low) / 2, nowhere);
      if (filled.placed()) {
        high = std::max(filled.finish, low);
      } else {
        low = filled.next;
      }
    }
    return high;
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PADDED_BATCHES_HPP
