// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_MOVEMENT_RETURN_HOME_HPP
#define BALLAST_PARTITION_DETAIL_MOVEMENT_RETURN_HOME_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/detail/movement/limited_bags.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Brings one sample to a bag that holds tokens of it if that leaves fewer tokens away from home,
/// in exchange for a sample that takes its place or goes to a third bag with room. Returns whether
/// it did.
inline bool exchange_home(limited_bags& bags, std::uint32_t sample, std::uint32_t home,
                          work_budget& work)
{
  cost_units const cost = bags[sample].cost;
  tokens const gained = -bags.newly_moved(sample, home);
  std::uint32_t const from = bags[sample].bag;
  cost_units const room = bags.room(home);
  std::span<bag_room const> const by_room = bags.by_room();
  tokens fewest = 0;
  std::uint32_t best = limited_bags::none;
  std::uint32_t best_bag = limited_bags::none;
  auto const consider = [&](std::uint32_t leaving, std::uint32_t bag) {
    tokens const moved = bags.newly_moved(leaving, bag) - gained;
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
    if (std::uint32_t const other_home = bags.home_with_room(leaving);
        other_home != limited_bags::none) {
      consider(leaving, other_home);
    }
  }
  if (best == limited_bags::none) { return false; }
  bags.move(best, best_bag);
  bags.move(sample, home);
  return true;
}

/// Brings one sample to a bag that holds more of its tokens if that leaves fewer away from home:
/// alone or in exchange. Returns whether it did.
inline bool bring_home(limited_bags& bags, std::uint32_t sample, work_budget& work)
{
  std::uint32_t const with_room = bags.home_with_room(sample);
  if (with_room != limited_bags::none && bags.newly_moved(sample, with_room) < 0) {
    bags.move(sample, with_room);
    return true;
  }
  bool returned = false;
  bags.for_each_home(sample, [&](std::uint32_t home, tokens) {
    if (!returned && bags.newly_moved(sample, home) < 0) {
      returned = exchange_home(bags, sample, home, work);
    }
  });
  return returned;
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
    for (std::uint32_t sample = 0; sample < bags.samples(); ++sample) {
      if (bags[sample].away()) { returned = bring_home(bags, sample, work) || returned; }
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_MOVEMENT_RETURN_HOME_HPP
