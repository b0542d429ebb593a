// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_COUNT_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_COUNT_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/counts/counted_bags.hpp>
#include <ballast/partition/detail/counts/counted_exchanges.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/detail/exchange/swap_extremes.hpp>
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_FILL_BY_COUNT_HPP
