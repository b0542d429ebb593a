// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_MOVEMENT_FILL_FROM_HOME_HPP
#define BALLAST_PARTITION_DETAIL_MOVEMENT_FILL_FROM_HOME_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/movement/limited_bags.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Packs bags anew, heaviest sample first: a sample stays where it is if the heavier ones that stayed
/// or came there leave room for it, and otherwise goes to a bag that holds tokens of it and has room,
/// or else to the bag with most room.
///
/// The room of a bag is its limit less all that it holds, so samples go where there are few. Light
/// samples come last and fill the gaps, as in longest processing time. This finds plans where samples
/// are few and heavy; where they are many and light, `shed_excess` alone moves fewer tokens.
///
/// Ensures     (1) every sample is in a bag that it may enter
/// Complexity  O(n m) at worst, of which O(n) moves of memory; a plan that keeps most samples at
///             home takes O(n + moved samples * m).
inline void fill_from_home(limited_bags& bags, workspace& memory)
{
  constexpr std::size_t most_tried = 64;
  std::span<bag_room const> const by_room = bags.by_room();
  auto scratch = memory.open();
  std::span<cost_units> const packed = scratch.take<cost_units>(by_room.size());
  for (std::uint32_t bag = 0; bag < packed.size(); ++bag) { packed[bag] = bags.starting_load(bag); }

  for (std::uint32_t sample = 0; sample < bags.samples().size(); ++sample) {
    auto const& it = bags[sample];
    auto const has_room = [&](std::uint32_t bag) {
      return it.cost <= bags.limit(bag) - packed[bag];
    };
    std::uint32_t to = it.bag;
    if (!has_room(to)) {
      tokens most = 0;
      bags.for_each_home(sample, [&](std::uint32_t home, tokens length) {
        if (length <= most || !has_room(home) || !bags.may_enter(sample, home)) { return; }
        most = length;
        to = home;
      });
    }
    if (to == it.bag && !has_room(to)) {
      std::size_t const last = by_room.size() - std::min(most_tried, by_room.size());
      bool found = false;
      for (std::size_t place = by_room.size(); place-- > last && !found;) {
        std::uint32_t const bag = by_room[place].bag;
        found = bag != it.bag && has_room(bag) && bags.may_enter(sample, bag);
        if (found) { to = bag; }
      }
    }
    packed[to] += it.cost;
    if (to != it.bag) { bags.move(sample, to); }
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_MOVEMENT_FILL_FROM_HOME_HPP
