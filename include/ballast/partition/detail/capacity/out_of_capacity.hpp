// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/capacity/bags_with_room.hpp>
#include <ballast/partition/detail/joint_samples.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <set>

namespace ballast::inline v0::detail {

/// How many bins of one capacity best fit fills, each weight into the one with the least room.
/// O(n log n); it allocates.
[[nodiscard, gnu::cold]] inline std::size_t best_fit_bins(
    std::span<priced_sample const> heaviest_first, std::int64_t capacity)
{
  std::multiset<std::int64_t> rooms;  // that the bins so far leave
  for (priced_sample const each : heaviest_first) {
    auto const tightest = rooms.lower_bound(each.cost);
    std::int64_t const left = (tightest == rooms.end() ? capacity : *tightest) - each.cost;
    if (tightest != rooms.end()) { rooms.erase(tightest); }
    rooms.insert(left);
  }
  return rooms.size();
}

/// How many bags of one capacity all weights take.
struct bags_needed {
  std::size_t least;   ///< no packing gets below it
  std::size_t enough;  ///< for best fit decreasing
};

[[nodiscard, gnu::cold]] inline bags_needed count_bags_needed(std::span<std::int64_t const> weights,
                                                              std::int64_t capacity)
{
  workspace memory;
  auto scratch = memory.open();
  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(weights.size());
  descending_order_into(heaviest_first, weights, memory);
  return {least_bins(heaviest_first, capacity), best_fit_bins(heaviest_first, capacity)};
}

/// The bag that holds most of each number of GPUs: what fits a bag depends on these alone.
[[nodiscard, gnu::cold]] inline std::vector<std::size_t> roomiest_bags(
    partition_problem const& problem)
{
  std::vector<std::size_t> bags(problem.capacities.size());
  std::iota(bags.begin(), bags.end(), std::size_t{0});
  std::sort(bags.begin(), bags.end(), [&problem](std::size_t a, std::size_t b) {
    return precedes(problem.gpus[a], problem.gpus[b], problem.capacities[b], problem.capacities[a],
                    a, b);
  });
  auto const last = std::unique(bags.begin(), bags.end(), [&problem](std::size_t a, std::size_t b) {
    return problem.gpus[a] == problem.gpus[b];
  });
  bags.erase(last, bags.end());
  return bags;
}

/// How many samples best fit leaves without a bag that they fit and that has room, heaviest first.
[[nodiscard, gnu::cold]] inline std::size_t count_without_room(partition_problem const& problem)
{
  workspace memory;
  auto scratch = memory.open();
  std::span<priced_sample> const by_weight = scratch.take<priced_sample>(problem.weights.size());
  descending_order_into(by_weight, problem.weights, memory);
  std::span<bag_id> const owner = scratch.take<bag_id>(problem.weights.size());
  std::span<cost_units> const loads = scratch.take<cost_units>(problem.capacities.size());
  std::fill(loads.begin(), loads.end(), 0);
  std::fill(owner.begin(), owner.end(), to_id<bag_id>(loads.size()));
  bags_with_room const bags(problem, loads, owner, scratch);
  return static_cast<std::size_t>(
      std::count_if(by_weight.begin(), by_weight.end(), [&bags](priced_sample each) {
        return !bags.place(to_index(each.sample), room_choice::tightest);
      }));
}

/// What bags hold together, or that it is more than 63 bits.
[[nodiscard]] inline std::string total_of(std::span<std::int64_t const> capacities)
{
  std::int64_t total = 0;
  for (std::int64_t const capacity : capacities) {
    if (capacity > std::numeric_limits<std::int64_t>::max() - total) { return "more than 2^63"; }
    total += capacity;
  }
  return std::to_string(total);
}

/// The error for a step without a plan that keeps to the capacities: first what all samples weigh
/// and all bags hold, then the sample. Where all bags hold the same, it says how many bags the step
/// needs at least, and how many are enough. It sends to what finds a plan where the filling that
/// this error tries does, and otherwise says that a search gave up, unless no plan can exist.
///
/// Expects     capacities; `item` found no bag, or made one overrun its capacity.
/// Complexity  O(n log n + m log m + n s) for bags of s sizes, and O(n m) as far as bags may be
///             looked at; it allocates.
[[nodiscard, gnu::cold]] inline tl::unexpected<error> out_of_capacity(
    partition_problem const& problem, planned_items const& items, std::size_t item,
    bool keeps_counts = false)
{
  BALLAST_EXPECTS(!problem.capacities.empty() && item < problem.weights.size());
  auto const named = [&](std::size_t which) {
    return concat("sample ", items.sample_of(which),
                  items.first_sample.empty() ? " weighs " : " and what stays with it weigh ",
                  problem.weights[which]);
  };
  std::vector<std::size_t> const roomiest = roomiest_bags(problem);
  for (std::size_t each = 0; each < problem.weights.size(); ++each) {
    std::int64_t most = 0;
    for (std::size_t const bag : roomiest) {
      if (problem.fits(each, bag)) { most = std::max(most, problem.capacities[bag]); }
    }
    if (problem.weights[each] > most) {
      return fail(error_code::infeasible, items.sample_of(each), named(each),
                  ", more than any bag that it fits holds, which is ", most,
                  "; raise the limit, lay out larger bags or leave it out");
    }
  }

  std::size_t const bags = problem.capacities.size();
  auto const [fewest, most] =
      std::minmax_element(problem.capacities.begin(), problem.capacities.end());
  // Where bags cannot be looked at as often as that takes, it is not known how many find no room.
  bool const is_counted = problem.weights.size() <= bags_with_room::most_looks / 32 / bags;
  std::size_t const without_room = is_counted ? count_without_room(problem) : 0;
  bool const all_find_room = is_counted && without_room == 0;
  auto const weight = std::reduce(problem.weights.begin(), problem.weights.end());
  uint128 held = 0;
  for (std::int64_t const capacity : problem.capacities) { held += static_cast<uint128>(capacity); }
  bool impossible = held < static_cast<uint128>(weight);
  std::string room;
  if (*fewest == *most) {
    auto const [least, enough] = count_bags_needed(problem.weights, *most);
    impossible = impossible || least > bags;
    char const* const too_short =
        without_room != 0 ? ", but some samples are too short for some of them" : "";
    room =
        enough <= bags
            ? concat(enough, enough == 1 ? " such bag is" : " such bags are", " enough", too_short)
        : enough == least
            ? concat(enough, enough == 1 ? " such bag is" : " such bags are", " needed and enough")
            : concat("at least ", least, least == 1 ? " such bag is" : " such bags are",
                     " needed and ", enough, " are enough");
    room = concat("at most ", *most, " each; ", room);
  } else {
    room = all_find_room ? "; they are enough"
           : !is_counted ? ""
                         : concat("; filled with the heaviest first, they leave ",
                                  counted(without_room, "sample"), " without room");
    room = concat(total_of(problem.capacities), " in all", room);
  }
  std::string const why = concat("all samples weigh ", weight, " and ", counted(bags, "bag"),
                                 bags == 1 ? " holds " : " hold ", room, "; ", named(item),
                                 " and found no bag with room; ");
  return fail(
      error_code::infeasible, items.sample_of(item), why,
      keeps_counts && !impossible
          ? all_find_room
                ? "leave out limits.samples, without which there is a plan, or raise the limit"
                : "add bags, raise the limit or plan fewer samples at once; of equal counts not "
                  "all "
                  "plans were tried"
      : all_find_room ? "use a policy that looks at capacities, as refine{}"
      : impossible    ? "add bags, raise the limit or plan fewer samples at once"
                      : "add bags, raise the limit or plan fewer samples at once; not all fillings "
                        "were tried");
}

}  // namespace ballast::inline v0::detail
