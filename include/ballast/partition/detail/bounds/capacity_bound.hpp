// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_BOUNDS_CAPACITY_BOUND_HPP
#define BALLAST_PARTITION_DETAIL_BOUNDS_CAPACITY_BOUND_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace ballast::inline v0::detail {

/// A makespan that no plan gets below whose bags keep to their capacities.
///
/// Take any q bags that hold the q samples of most work. The others hold no more than the m - q
/// largest capacities, so these q hold at least the weight that is left, W - C(m - q). What the q
/// samples themselves do not weigh of it, other samples do, and those of least work per weight at
/// best. So the q bags do at least the work of the q samples and of these others, and one of them
/// at least the mean. The bound is the largest over q.
///
/// It matters where cost grows faster than length: without capacities, the bag of a long sample
/// could hold nothing else, but within them it has to.
///
/// Any bags, too, hold the weight that the others cannot, at least in the samples of least work per
/// weight, and one of them does at least the mean per speed. The most is asked of bags with large
/// capacities for their speeds, so the bound looks at the first q in that order, for every q. It
/// matters where GPUs differ in speed but not in memory: slow ones have to hold their share.
///
/// Expects     a valid partition_problem with weights and capacities; bags start empty.
/// Ensures     (1) no assignment that keeps to the capacities has a smaller makespan
/// Complexity  O(n log n + m log (n m)); 20 n + 40 m bytes of scratch.
/// Source      the cover is the linear relaxation of a knapsack, see `cheapest_cover`.
[[nodiscard]] inline ratio capacity_bound(partition_problem const& problem,
                                          cheapest_cover const& cover, workspace& memory)
{
  std::size_t const samples = problem.costs.size();
  std::size_t const bags = problem.capacities.size();
  BALLAST_EXPECTS(bags >= 1, "there are no capacities");
  BALLAST_EXPECTS(problem.weights.size() == samples, "there are weights of ",
                  counted(problem.weights.size(), "sample"), " for a problem of ", samples);
  auto scratch = memory.open();
  auto const unsigned_of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };

  std::span<std::int64_t> const smallest_first = scratch.take<std::int64_t>(bags);
  std::span<std::uint32_t> const fastest_first = scratch.take<std::uint32_t>(bags);
  std::copy(problem.capacities.begin(), problem.capacities.end(), smallest_first.begin());
  std::copy(problem.speeds.begin(), problem.speeds.end(), fastest_first.begin());
  std::sort(smallest_first.begin(), smallest_first.end());
  std::sort(fastest_first.begin(), fastest_first.end(), std::greater{});
  uint128 elsewhere = 0;  // capacity of the bags that are not among the q
  for (std::int64_t const capacity : smallest_first) { elsewhere += unsigned_of(capacity); }

  ratio bound{0, fastest_first.front()};
  uint128 const all = unsigned_of(cover.all_weight());
  uint128 heaviest_weigh = 0;
  cost_units work = 0;
  std::int64_t speed = 0;
  for (std::size_t taken = 0; taken < std::min(samples, bags); ++taken) {
    auto const [cost, sample] = problem.heaviest_first[taken];
    work += cost;
    heaviest_weigh += unsigned_of(problem.weights[to_index(sample)]);
    speed += fastest_first[taken];
    elsewhere -= unsigned_of(smallest_first[taken]);
    uint128 const placed = elsewhere + heaviest_weigh;
    cost_units const more =
        placed < all ? cover.work_of(static_cast<std::int64_t>(all - placed)) : cost_units{0};
    // All other samples together are a cover too, so this is at most all work and fits.
    bound = std::max(bound, ratio{work + more, speed});
  }
  crowded_bags const crowded(problem, cover, scratch);
  for (std::size_t taken = 1; taken <= bags; ++taken) {
    bound = std::max(bound, ratio{crowded.work[taken], crowded.speed[taken]});
  }
  bool const one_speed = fastest_first.front() == fastest_first.back();
  return one_speed ? whole_units_per_bag(bound, fastest_first.front()) : bound;
}

[[nodiscard]] inline ratio capacity_bound(partition_problem const& problem, workspace& memory)
{
  auto scratch = memory.open();
  return capacity_bound(problem, cheapest_cover(problem, scratch), memory);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_BOUNDS_CAPACITY_BOUND_HPP
