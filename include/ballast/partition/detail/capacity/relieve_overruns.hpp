// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_CAPACITY_RELIEVE_OVERRUNS_HPP
#define BALLAST_PARTITION_DETAIL_CAPACITY_RELIEVE_OVERRUNS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/capacity/capped_exchanges.hpp>
#include <ballast/partition/detail/exchange/subset_sums.hpp>
#include <ballast/partition/makespan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Brings overrun bags within their capacities by exchanges that move weight and hardly any work.
///
/// The bag that is overrun by most exchanges samples with one of those with most room: a few
/// samples for a few that weigh less and cost about as much. At first no bag may finish later than
/// the latest does, or than `limit`; where that is too strict, a little later, and at last at any
/// time.
///
/// Ensures     (1) no bag gets above its capacity that was not, and none that was gets heavier
///             (2) it returns whether all bags keep to their capacities
/// Complexity  O(m log m) and the exchanges searched for each one made, until the work of `plan` is
///             spent.
inline bool relieve_overruns(capped_exchanges& plan, std::span<std::uint32_t const> speeds,
                             ratio limit, workspace::frame& scratch)
{
  constexpr std::size_t few_partners = 8;
  constexpr std::size_t candidates = 10;
  constexpr int looser[] = {62, 10, 7, 4, 1, 0};  // the latest finish grows by a 2^k-th of itself
  std::span<std::uint32_t> const roomiest_first = scratch.take<std::uint32_t>(speeds.size());
  std::iota(roomiest_first.begin(), roomiest_first.end(), std::uint32_t{0});
  auto const more_room = [&plan](std::uint32_t a, std::uint32_t b) {
    return plan.room(a) > plan.room(b) || (plan.room(a) == plan.room(b) && a < b);
  };
  auto const search = [&](std::size_t over, int by, std::size_t size, std::size_t partners) {
    ratio latest = std::max(limit, makespan_of(plan.loads(), speeds));
    latest.numerator += std::min(latest.numerator >> by, no_cost - latest.numerator);
    capped_exchange best;
    for (std::uint32_t const roomy : roomiest_first.first(partners)) {
      if (plan.room(roomy) < 1 || plan.work().spent()) { break; }
      capped_exchange const found = plan.find_relief(over, roomy, latest, size);
      if (found.net_weight > best.net_weight) { best = found; }
      if (best.net_weight >= -plan.room(over)) { break; }
    }
    return best;
  };

  while (!plan.work().spent()) {
    std::sort(roomiest_first.begin(), roomiest_first.end(), more_room);
    plan.work().spend(speeds.size());
    std::size_t const over = roomiest_first.back();
    if (plan.room(over) >= 0) { return true; }
    capped_exchange best;
    for (int const by : looser) {
      best = search(over, by, candidates, std::min(few_partners, speeds.size()));
      // Half of the overrun with even loads is better than all of it with uneven ones.
      if (best.net_weight >= -plan.room(over) / 2) { break; }
    }
    if (best.net_weight == 0) {
      best = search(over, looser[5], subset_sum::most_members, speeds.size());
    }
    if (best.net_weight == 0) { return false; }
    plan.make(best);
  }
  return plan.room(*std::min_element(roomiest_first.begin(), roomiest_first.end(),
                                     [&](auto a, auto b) { return more_room(b, a); })) >= 0;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_CAPACITY_RELIEVE_OVERRUNS_HPP
