// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_RULES_READ_RULES_HPP
#define BALLAST_PARTITION_DETAIL_RULES_READ_RULES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/capacity/out_of_capacity.hpp>
#include <ballast/partition/detail/joint_samples.hpp>
#include <ballast/partition/detail/rules/plan_by_rules.hpp>
#include <ballast/partition/detail/rules/ruled_bags.hpp>
#include <ballast/partition/partition_constraints.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// Refuses rules where the policy does not keep them.
[[nodiscard]] inline result<void> check_keeps_rules(partition_constraints const& constraints,
                                                    bool keeps, bool keeps_counts)
{
  if (keeps || !constraints.has_rules()) { return {}; }
  return fail(error_code::infeasible, 0, "this policy does not keep constraints.",
              constraints.first_rule(), "; use refine{} or capped{}, which do",
              keeps_counts ? ", but keep no counts" : "", ", or leave it out");
}

/// Reads who has to be apart from whom.
///
/// Shapes      item_of[n], or empty where items are samples.
/// Errors      infeasible: `position` is a sample of which more have to be apart than there are
///             bags, or one that has to be together with and apart from another.
[[nodiscard]] inline result<void> read_groups(partition_problem::placement_rules& rules,
                                              sample_keys const& apart,
                                              std::span<std::uint32_t const> item_of,
                                              std::size_t items, std::size_t bags,
                                              workspace::frame& scratch)
{
  std::size_t const count = apart.size();
  std::span<std::int64_t> const keys = scratch.take<std::int64_t>(count);
  apart.read_into(keys);
  auto const item = [item_of](std::uint32_t sample) {
    return item_of.empty() ? sample : item_of[sample];
  };
  std::span<std::uint32_t> const by_key = scratch.take<std::uint32_t>(count);
  std::iota(by_key.begin(), by_key.end(), std::uint32_t{0});
  std::sort(by_key.begin(), by_key.end(), [&](std::uint32_t a, std::uint32_t b) {
    return precedes(keys[a], keys[b], item(a), item(b), a, b);
  });
  std::span<std::uint32_t> const first_member = scratch.take<std::uint32_t>(count / 2 + 1);
  std::span<std::uint32_t> const members = scratch.take<std::uint32_t>(count);
  std::span<std::uint32_t> const first_group = scratch.take<std::uint32_t>(items + 1);
  std::span<std::uint32_t> const groups = scratch.take<std::uint32_t>(count);
  std::fill(first_group.begin(), first_group.end(), 0);
  std::uint32_t found = 0;
  std::uint32_t held = 0;
  for (std::size_t from = 0, to = 0; from < count; from = to) {
    while (to < count && keys[by_key[to]] == keys[by_key[from]]) { ++to; }
    if (to - from > bags) {
      return fail(error_code::infeasible, by_key[from], counted(to - from, "sample"),
                  " have the key of sample ", by_key[from], " in constraints.apart, and there are ",
                  counted(bags, "bag"), "; leave out ", to - from - bags, " or add bags");
    }
    if (to - from == 1) { continue; }
    first_member[found++] = held;
    for (std::size_t at = from; at < to; ++at) {
      if (at > from && item(by_key[at]) == item(by_key[at - 1])) {
        return fail(error_code::infeasible, by_key[at], "samples ", by_key[at - 1], " and ",
                    by_key[at],
                    " have one key in constraints.together and one in constraints.apart; give "
                    "them other keys in either");
      }
      members[held++] = item(by_key[at]);
      ++first_group[item(by_key[at]) + 1];
    }
  }
  first_member[found] = held;
  std::partial_sum(first_group.begin(), first_group.end(), first_group.begin());
  for (std::uint32_t group = found; group-- > 0;) {  // each place from the back
    for (std::uint32_t at = first_member[group]; at < first_member[group + 1]; ++at) {
      groups[--first_group[members[at] + 1]] = group;
    }
  }
  // first_group[i + 1] is now where i begins.
  std::rotate(first_group.begin(), first_group.begin() + 1, first_group.end());
  first_group.back() = held;
  rules.first_group = first_group;
  rules.groups = {groups.data(), held};
  rules.first_member = {first_member.data(), std::size_t{found} + 1};
  rules.members = {members.data(), held};
  return {};
}

/// Reads the rules of a step; the frame keeps their arrays.
///
/// Shapes      item_of[n], or empty where items are samples.
/// Errors      infeasible: as read_groups; or bags take fewer samples than there are, or than
///             `position` and those that stay with it.
[[nodiscard]] inline result<partition_problem::placement_rules> read_rules(
    partition_constraints const& constraints, planned_items const& items,
    std::span<std::uint32_t const> item_of, std::size_t samples, std::size_t bags,
    workspace::frame& scratch)
{
  std::int64_t const most = constraints.most_samples;
  partition_problem::placement_rules rules{most};
  rules.cap_is_soft = constraints.cap_is_soft;
  auto const all = static_cast<std::int64_t>(samples);
  if (all / most + (all % most != 0 ? 1 : 0) > static_cast<std::int64_t>(bags)) {
    return fail(error_code::infeasible, 0, counted(samples, "sample"), " in ", counted(bags, "bag"),
                " with at most ", most, " each need ", all / most + (all % most != 0 ? 1 : 0),
                "; add bags or raise constraints.most_samples");
  }
  if (!item_of.empty()) {
    std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(items.costs.size());
    std::fill(counts.begin(), counts.end(), 0);
    for (std::uint32_t const item : item_of) { ++counts[item]; }
    for (std::size_t item = 0; item < counts.size(); ++item) {
      if (counts[item] > most) {
        return fail(error_code::infeasible, items.sample_of(item), "sample ", items.sample_of(item),
                    " and what stays with it are ", counted(counts[item], "sample"),
                    ", and constraints.most_samples is ", most, "; raise it or split them");
      }
    }
    rules.sample_counts = counts;
  }
  if (!constraints.apart.empty()) {
    auto read = read_groups(rules, constraints.apart, item_of, items.costs.size(), bags, scratch);
    if (!read) { return tl::unexpected(std::move(read).error()); }
  }
  return rules;
}

/// The error for a step for which a policy found no plan by its rules: whether none exists, or the
/// search gave up.
[[nodiscard, gnu::cold]] inline tl::unexpected<error> out_of_rules(partition_problem const& problem,
                                                                   planned_items const& items,
                                                                   std::size_t item)
{
  constexpr std::uint64_t work = 4'000'000;
  workspace memory;
  auto scratch = memory.open();
  std::span<cost_units> const loads = scratch.take<cost_units>(problem.speeds.size());
  std::span<bag_id> const owner = scratch.take<bag_id>(problem.costs.size());
  std::fill(loads.begin(), loads.end(), 0);
  std::fill(owner.begin(), owner.end(), to_id<bag_id>(loads.size()));
  rule_search search(problem, {}, loads, owner, work, scratch);
  if (search.is_too_heavy()) { return out_of_capacity(problem, items, item); }
  bool const found = search();
  return fail(error_code::infeasible, items.sample_of(item), counted(items.costs.size(), "item"),
              " in ", counted(loads.size(), "bag"),
              found ? " found no plan by the rules within the policy's work; give it "
                      "more, as refine{.work = 4'000'000}"
              : search.tried_all() ? " have no plan that keeps the rules and the capacities; add "
                                     "bags, or raise constraints.most_samples or the limits"
                                   : " found no plan that keeps the rules and the capacities "
                                     "before the search gave up; add bags, or raise "
                                     "constraints.most_samples or the limits");
}

/// Checks that a policy kept the rules; one that did not is wrong, and ends the program here.
inline void expect_kept_rules(partition_problem const& problem, planned_items const& items,
                              std::span<bag_id const> owner, workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_units> const loads = scratch.take<cost_units>(problem.speeds.size());
  std::span<bag_id> const placed = scratch.take<bag_id>(owner.size());
  std::fill(loads.begin(), loads.end(), 0);
  std::fill(placed.begin(), placed.end(), to_id<bag_id>(loads.size()));
  ruled_bags bags(problem, loads, placed, scratch);
  for (std::size_t item = 0; item < owner.size(); ++item) {
    BALLAST_EXPECTS(bags.admits(item, to_index(owner[item])), "the policy broke the rules of bag ",
                    to_index(owner[item]), " by sample ", items.sample_of(item));
    bags.put(item, to_index(owner[item]));
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_RULES_READ_RULES_HPP
