// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_MOVEMENT_SHED_EXCESS_HPP
#define BALLAST_PARTITION_DETAIL_MOVEMENT_SHED_EXCESS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/movement/limited_bags.hpp>
#include <ballast/partition/detail/movement/relief_search.hpp>
#include <ballast/partition/detail/movement/return_home.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Moves samples out of a bag that is far above its limit, the heaviest that find room first, each
/// to a bag that holds tokens of it or to the one with the least room that is enough: until the
/// excess is less than two of them.
inline void shed_heaviest(limited_bags& bags, std::uint32_t bag)
{
  std::span<bag_room const> const by_room = bags.by_room();
  for (auto sample = bags.first_of(bag); sample != limited_bags::none;) {
    cost_units const cost = bags[sample].cost;
    if (cost == 0) { return; }
    std::uint32_t const next = bags[sample].next;
    std::uint32_t to = bags.home_with_room(sample);
    if (to == limited_bags::none) {
      std::size_t const place = bags.first_with_room(cost);
      bool const found = place < by_room.size() && bags.may_enter(sample, by_room[place].bag);
      to = found ? by_room[place].bag : to;
    }
    if (to != limited_bags::none) {
      if (cost > -bags.room(bag) / 2) { return; }
      bags.move(sample, to);
    }
    sample = next;
  }
}

/// Brings bags below their limits, the one furthest above first, and moves few tokens for it.
///
/// In, out     work is how many steps it may still look at.
/// Ensures     (1) no bag that is within its limit gets above it, unless that takes more off
///                 others; the work above limits never grows
///             (2) it returns whether all bags are within their limits
inline bool shed_excess(limited_bags& bags, work_budget& work, workspace& memory)
{
  // A bag that cannot be relieved stays where it is in the order, and what is relieved moves back.
  std::span<bag_room const> const by_room = bags.by_room();
  for (std::uint32_t bag = 0; bag < by_room.size(); ++bag) {
    if (bags.room(bag) < 0) { shed_heaviest(bags, bag); }
  }
  for (std::size_t place = 0; place < by_room.size() && by_room[place].room < 0 && !work.spent();) {
    auto scratch = memory.open();
    relief const step = relief_search(bags, by_room[place].bag, scratch).within_limits(work);
    if (!step.found()) {
      ++place;
      continue;
    }
    step.apply(bags);
  }
  for (std::size_t place = 0; place < by_room.size() && by_room[place].room < 0 && !work.spent();) {
    auto scratch = memory.open();
    relief const step = relief_search(bags, by_room[place].bag, scratch).across_limits(work);
    ++place;
    if (step.found()) {
      step.apply(bags);
      place = 0;
    }
  }
  return bags.within_limits();
}

/// Sends a few samples home, or from home to any bag, brings all bags below their limits again and
/// samples home, and goes back where that moves more tokens; over and over, until a hundred times
/// in a row have not helped. With at most 32 samples it sends more of them, also from a bag that is
/// not home to any, and stops after three hundred times. Steps of more than 256 samples stay as
/// they are: for them it takes longer than all the rest, and they gain less.
///
/// Expects     all bags are within their limits.
/// Ensures     (1) they still are
///             (2) no more tokens are away from home than were
inline void move_less(limited_bags& bags, work_budget& work, workspace& memory)
{
  constexpr std::uint32_t most_samples = 256;
  auto const count = static_cast<std::uint32_t>(bags.samples());
  bool const few = count <= 32;
  int const most_failures = few ? 300 : 100;
  if (count > most_samples) { return; }
  auto scratch = memory.open();
  std::span<std::uint32_t> const best = scratch.take<std::uint32_t>(count);
  random_source random(count);
  int failures = 0;
  for (; failures < most_failures && bags.moved() > 0 && !work.spent(); ++failures) {
    tokens const before = bags.moved();
    for (std::uint32_t sample = 0; sample < count; ++sample) { best[sample] = bags[sample].bag; }
    for (std::uint64_t sent = few ? 2 + random.below(4) : 3; sent > 0; --sent) {
      auto const sample = static_cast<std::uint32_t>(random.below(count));
      auto const any = static_cast<std::uint32_t>(random.below(bags.by_room().size()));
      bool const goes_home = bags[sample].away() && (!few || random.below(2) == 0);
      std::uint32_t const to = goes_home ? bags[sample].home : any;
      if (to != bags[sample].bag && bags.may_enter(sample, to)) { bags.move(sample, to); }
    }
    work.spend(2 * std::uint64_t{count});
    bool const within = shed_excess(bags, work, memory);
    if (within) { return_home(bags, work); }
    if (within && bags.moved() <= before) {
      if (bags.moved() < before) { failures = 0; }
      continue;
    }
    for (std::uint32_t sample = 0; sample < count; ++sample) {
      if (bags[sample].bag != best[sample]) { bags.move(sample, best[sample]); }
    }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_MOVEMENT_SHED_EXCESS_HPP
