// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_MOVEMENT_RETURN_HOME_HPP
#define BALLAST_PARTITION_DETAIL_MOVEMENT_RETURN_HOME_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/units.hpp>
#include <ballast/partition/detail/movement/limited_bags.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Brings one sample home if that leaves fewer tokens away from home: alone, or in exchange for a
/// sample that takes its place or goes to a third bag with room. Returns whether it did.
inline bool bring_home(limited_bags& bags, std::uint32_t sample, work_budget& work)
{
  cost_units const cost = bags[sample].cost;
  tokens const length = bags[sample].length;
  std::uint32_t const home = bags[sample].home;
  std::uint32_t const from = bags[sample].bag;
  cost_units const room = bags.room(home);
  if (cost <= room && bags.may_enter(sample, home)) {
    bags.move(sample, home);
    return true;
  }
  std::span<bag_room const> const by_room = bags.by_room();
  tokens fewest = 0;
  std::uint32_t best = limited_bags::none;
  std::uint32_t best_bag = limited_bags::none;
  auto const consider = [&](std::uint32_t leaving, std::uint32_t bag) {
    tokens const moved = bags.newly_moved(leaving, bag) - length;
    if (moved < fewest) {
      fewest = moved;
      best = leaving;
      best_bag = bag;
    }
  };
  for (auto leaving = bags.first_of(home); leaving != limited_bags::none && !work.spent();
       leaving = bags[leaving].next, work.spend(1)) {
    cost_units const other = bags[leaving].cost;
    if (cost - other > room) { break; }  // too light to make room, as all that follow
    if (!bags.may_enter(sample, home, leaving)) { continue; }
    if (other - cost <= bags.room(from) && bags.may_enter(leaving, from, sample)) {
      consider(leaving, from);
    }
    std::size_t const place = bags.first_with_room(other);
    if (place < by_room.size() && by_room[place].bag != home &&
        bags.may_enter(leaving, by_room[place].bag)) {
      consider(leaving, by_room[place].bag);
    }
  }
  if (best == limited_bags::none) { return false; }
  bags.move(best, best_bag);
  bags.move(sample, home);
  return true;
}

/// Undoes moves that were not needed, until nothing more can go home.
///
/// In, out     work is how many exchanges it may still look at.
/// Expects     all bags are within their limits.
/// Ensures     (1) they still are
///             (2) no more tokens are away from home than were
/// Complexity  O(samples away * samples of a bag) per pass; a pass that brings nothing home is the
///             last.
inline void return_home(limited_bags& bags, work_budget& work)
{
  for (bool returned = true; returned && !work.spent();) {
    returned = false;
    for (std::uint32_t sample = 0; sample < bags.samples().size(); ++sample) {
      if (bags[sample].away()) { returned = bring_home(bags, sample, work) || returned; }
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_MOVEMENT_RETURN_HOME_HPP
