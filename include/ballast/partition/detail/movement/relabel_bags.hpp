// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_MOVEMENT_RELABEL_BAGS_HPP
#define BALLAST_PARTITION_DETAIL_MOVEMENT_RELABEL_BAGS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Exchanges everything that identical bags own, so that many tokens are at home: a policy that
/// does not look at homes fills identical bags in any order.
///
/// Of all pairs of a bag's content and a bag, it joins the one with most tokens at home, and so on
/// with what is left. That keeps at least half of what the best assignment keeps.
///
/// In, out     owner[n], every sample with a bag.
/// Ensures     (1) contents stay together, and go only to a bag of the same size and speed with the
///                 same starting load
/// Complexity  O(n log n + m log m); 16 bytes of scratch per sample, of samples joined to one for
///             every bag that holds some of them, and 16 per bag.
/// Source      D. Avis, "A Survey of Heuristics for the Weighted Matching Problem", Networks
///             13(4):475-493, 1983, on the greedy matching.
inline void relabel_bags(partition_problem const& problem,
                         std::span<cost_units const> starting_loads, std::span<bag_id> owner,
                         workspace& memory)
{
  BALLAST_EXPECTS(problem.home.size() == owner.size(), "there are homes of ",
                  counted(problem.home.size(), "sample"), " for a plan of ", owner.size());
  struct overlap {
    tokens length;
    std::uint32_t content;
    std::uint32_t bag;
  };
  auto scratch = memory.open();
  std::span<overlap> overlaps =
      scratch.take<overlap>(problem.first_part.empty() ? owner.size() : problem.parts.size());
  std::size_t next = 0;
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    problem.for_each_home(sample, [&](bag_id home, tokens length) {
      overlaps[next++] = {length, static_cast<std::uint32_t>(owner[sample]),
                          static_cast<std::uint32_t>(home)};
    });
  }
  std::sort(overlaps.begin(), overlaps.end(), [](overlap const& a, overlap const& b) {
    return precedes(a.content, b.content, a.bag, b.bag);
  });
  std::size_t pairs = 0;
  for (overlap const& each : overlaps) {
    bool const same = pairs > 0 && overlaps[pairs - 1].content == each.content &&
                      overlaps[pairs - 1].bag == each.bag;
    if (same) {
      overlaps[pairs - 1].length += each.length;
    } else {
      overlaps[pairs++] = each;
    }
  }
  overlaps = overlaps.first(pairs);
  std::sort(overlaps.begin(), overlaps.end(), [](overlap const& a, overlap const& b) {
    return precedes(b.length, a.length, a.content, b.content, a.bag, b.bag);
  });

  std::size_t const bags = starting_loads.size();
  auto const nobody = to_id<bag_id>(bags);
  auto const kind_precedes = [&](std::uint32_t a, std::uint32_t b, auto... more) {
    return precedes(problem.gpus[a], problem.gpus[b], problem.speeds[a], problem.speeds[b],
                    starting_loads[a], starting_loads[b], more...);
  };
  std::span<bag_id> const bag_of = scratch.take<bag_id>(bags);
  std::span<bool> const taken = scratch.take<bool>(bags);
  std::fill(bag_of.begin(), bag_of.end(), nobody);
  std::fill(taken.begin(), taken.end(), false);
  for (overlap const& each : overlaps) {
    if (bag_of[each.content] == nobody && !taken[each.bag] &&
        !kind_precedes(each.content, each.bag) && !kind_precedes(each.bag, each.content)) {
      bag_of[each.content] = bag_id{each.bag};
      taken[each.bag] = true;
    }
  }

  // As many contents as bags are left of every kind.
  auto const left = [&](auto const& is_left) {
    std::span<std::uint32_t> all = scratch.take<std::uint32_t>(bags);
    std::iota(all.begin(), all.end(), std::uint32_t{0});
    auto const end = std::partition(all.begin(), all.end(), is_left);
    all = all.first(static_cast<std::size_t>(end - all.begin()));
    std::sort(all.begin(), all.end(),
              [&](std::uint32_t a, std::uint32_t b) { return kind_precedes(a, b, a, b); });
    return all;
  };
  auto const contents = left([&](std::uint32_t content) { return bag_of[content] == nobody; });
  auto const empty = left([&](std::uint32_t bag) { return !taken[bag]; });
  for (std::size_t place = 0; place < contents.size(); ++place) {
    bag_of[contents[place]] = bag_id{empty[place]};
  }
  for (bag_id& bag : owner) { bag = bag_of[to_index(bag)]; }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_MOVEMENT_RELABEL_BAGS_HPP
