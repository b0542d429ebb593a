// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/detail/placement/limits.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/placement_limits.hpp>

#include <set>

namespace ballast::inline v0::detail {

/// What a policy plans: samples, or sets of samples that stay together, each as if it were one.
///
/// Shapes      costs[k], lengths[k]; weights[k] and home[k] or empty; first_sample[k] and
///             joint_lengths[k], or empty where items are samples; joint_lengths[k] also where some
///             of these are short; first_part[k + 1] and parts, or empty where no item lies in
///             several bags; attention[k] for policies that pad attention alone, which join none.
struct planned_items {
  std::span<cost_units const> costs;
  std::span<tokens const> lengths;
  std::span<std::int64_t const> weights = {};
  std::span<bag_id const> home = {};
  std::span<std::uint32_t const> first_sample = {};
  std::span<tokens const> joint_lengths = {};
  std::span<std::uint32_t const> first_part = {};
  std::span<partition_problem::part const> parts = {};
  std::span<cost_units const> attention = {};

  [[nodiscard]] tokens tokens_of(std::size_t item) const noexcept
  {
    return joint_lengths.empty() ? lengths[item] : joint_lengths[item];
  }

  /// The sample that an error names for an item.
  [[nodiscard]] std::size_t sample_of(std::size_t item) const noexcept
  {
    return first_sample.empty() ? item : first_sample[item];
  }
};

/// Joins the samples of each key to one item, so that every policy keeps them together.
///
/// An item weighs what its samples do together; costs are the caller's to join. Its length is that
/// of its shortest sample that has tokens, since a bag splits each sample by itself. Its home is the
/// bag that holds most of its tokens, of equals the first; its parts are the tokens in every bag
/// that holds some.
///
/// Shapes      together[n], item_of[n].
/// Ensures     (1) item_of[i] == item_of[j] exactly where the keys of i and j are equal
///             (2) items are numbered by their first samples
///             (3) first_sample of an item is the first of its samples
///             (4) the parts of an item are in the order of bags, and each has tokens
/// Complexity  O(n log n); up to 84 n bytes of scratch that the caller's frame keeps.
inline planned_items join_samples(sample_keys const& together, planned_items const& samples,
                                  std::span<std::uint32_t> item_of, workspace::frame& scratch)
{
  std::size_t const count = together.size();
  BALLAST_EXPECTS(samples.lengths.size() == count && item_of.size() == count);
  std::span<std::int64_t> const keys = scratch.take<std::int64_t>(count);
  together.read_into(keys);
  std::span<std::uint32_t> const by_key = scratch.take<std::uint32_t>(count);
  std::iota(by_key.begin(), by_key.end(), std::uint32_t{0});
  std::sort(by_key.begin(), by_key.end(), [keys](std::uint32_t a, std::uint32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
  });
  std::span<std::uint32_t> const first_of = scratch.take<std::uint32_t>(count);
  for (std::size_t place = 0; place < count; ++place) {
    bool const same = place > 0 && keys[by_key[place]] == keys[by_key[place - 1]];
    first_of[by_key[place]] = same ? first_of[by_key[place - 1]] : by_key[place];
  }
  std::uint32_t items = 0;
  for (std::size_t sample = 0; sample < count; ++sample) {
    item_of[sample] = first_of[sample] == sample ? items++ : item_of[first_of[sample]];
  }

  std::span<tokens> const lengths = scratch.take<tokens>(items);
  std::span<std::int64_t> const weights =
      scratch.take<std::int64_t>(samples.weights.empty() ? 0 : items);
  std::span<std::uint32_t> const first_sample = scratch.take<std::uint32_t>(items);
  std::span<tokens> const joint_lengths = scratch.take<tokens>(items);
  std::fill(lengths.begin(), lengths.end(), 0);
  std::fill(joint_lengths.begin(), joint_lengths.end(), 0);
  std::fill(weights.begin(), weights.end(), 0);
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::uint32_t const item = item_of[sample];
    tokens const length = samples.lengths[sample];
    first_sample[item] = first_of[sample];
    joint_lengths[item] += samples.tokens_of(sample);
    if (length > 0 && (lengths[item] == 0 || length < lengths[item])) { lengths[item] = length; }
    if (!weights.empty()) { weights[item] += samples.weights[sample]; }
  }
  if (samples.home.empty()) { return {{}, lengths, weights, {}, first_sample, joint_lengths}; }

  std::span<bag_id> const home = scratch.take<bag_id>(items);
  std::span<tokens> const most = scratch.take<tokens>(items);
  std::fill(most.begin(), most.end(), -1);
  std::sort(by_key.begin(), by_key.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (item_of[a] != item_of[b]) { return item_of[a] < item_of[b]; }
    return samples.home[a] != samples.home[b] ? samples.home[a] < samples.home[b] : a < b;
  });
  auto const parts = scratch.take<partition_problem::part>(count);
  std::span<std::uint32_t> const first_part = scratch.take<std::uint32_t>(std::size_t{items} + 1);
  std::fill(first_part.begin(), first_part.end(), 0);
  std::size_t part_count = 0;
  bool several_homes = false;
  tokens held = 0;
  for (std::size_t place = 0; place < count; ++place) {
    std::uint32_t const sample = by_key[place];
    std::uint32_t const item = item_of[sample];
    bool const same = place > 0 && item_of[by_key[place - 1]] == item &&
                      samples.home[by_key[place - 1]] == samples.home[sample];
    tokens const length = samples.tokens_of(sample);
    held = length + (same ? held : 0);
    if (held > most[item]) {
      most[item] = held;
      home[item] = samples.home[sample];
    }
    if (length == 0) { continue; }
    if (held == length) {  // the first tokens in this bag
      several_homes = several_homes || first_part[item + 1] > 0;
      ++first_part[item + 1];
      ++part_count;
    }
    parts[part_count - 1] = {samples.home[sample], held};
  }
  planned_items joined{{}, lengths, weights, home, first_sample, joint_lengths};
  if (several_homes) {
    std::partial_sum(first_part.begin(), first_part.end(), first_part.begin());
    joined.first_part = first_part;
    joined.parts = {parts.data(), part_count};
  }
  return joined;
}

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

/// What all samples weigh and all bags hold; where these hold the same, how many bags the step needs
/// at least, and how many are enough.
[[nodiscard, gnu::cold]] inline std::string tell_room(std::span<std::int64_t const> weights,
                                                      std::span<std::int64_t const> rooms)
{
  auto const [fewest, most] = std::minmax_element(rooms.begin(), rooms.end());
  std::string const first =
      concat("all samples weigh ", std::reduce(weights.begin(), weights.end()), " and ",
             counted(rooms.size(), "bag"), rooms.size() == 1 ? " holds " : " hold ");
  if (*fewest != *most) {
    uint128 all = 0;
    for (std::int64_t const room : rooms) { all += static_cast<std::uint64_t>(room); }
    bool const is_endless = all >= static_cast<std::uint64_t>(no_limit);
    return concat(first,
                  is_endless ? "more than 2^63" : std::to_string(static_cast<std::int64_t>(all)),
                  " in all");
  }
  auto const [least, enough] = count_bags_needed(weights, *most);
  auto const such = [](std::size_t bags) {
    return concat(bags, bags == 1 ? " such bag is" : " such bags are");
  };
  return concat(first, "at most ", *most, " each; ",
                enough <= rooms.size() ? such(enough) + " enough"
                : enough == least
                    ? such(enough) + " needed and enough"
                    : concat("at least ", such(least), " needed and ", enough, " are enough"));
}

/// The error for an item that is heavier than what any bag that it fits holds, if one is.
///
/// Complexity  O(n m)
[[nodiscard, gnu::cold]] inline result<void> check_each_fits(partition_problem const& problem,
                                                             planned_items const& items,
                                                             std::span<std::int64_t const> weights,
                                                             std::span<std::int64_t const> rooms)
{
  for (std::size_t each = 0; each < weights.size(); ++each) {
    std::int64_t most = 0;
    for (std::size_t bag = 0; bag < rooms.size() && most < weights[each]; ++bag) {
      if (problem.fits(each, bag)) { most = std::max(most, rooms[bag]); }
    }
    if (weights[each] <= most) { continue; }
    return fail(error_code::infeasible, items.sample_of(each), "sample ", items.sample_of(each),
                items.first_sample.empty() ? " weighs " : " and what stays with it weigh ",
                weights[each], ", more than any bag that it fits holds, which is ", most,
                "; raise the limit, lay out larger bags or leave it out");
  }
  return {};
}

/// The error for a step of which a policy that pads found no plan within its cap.
[[nodiscard, gnu::cold]] inline tl::unexpected<error> no_room_for(partition_problem const& problem,
                                                                  planned_items const& items,
                                                                  std::size_t item)
{
  if (auto fits = check_each_fits(problem, items, problem.weights, problem.most); !fits) {
    return tl::unexpected(std::move(fits).error());
  }
  return fail(
      error_code::infeasible, items.sample_of(item), tell_room(problem.weights, problem.most),
      "; sample ", items.sample_of(item), " weighs ", problem.weights[item],
      " and found no bag with room; add bags, raise the limit, plan fewer samples at once, or "
      "use a policy that packs, as refine{}");
}

/// The largest number that divides all of these and `divisor`; 0 where all are 0.
///
/// Complexity  O(n), and for values as measured a few steps: it ends at 1.
[[nodiscard]] inline std::int64_t common_divisor(std::span<std::int64_t const> values,
                                                 std::int64_t divisor = 0) noexcept
{
  for (std::size_t next = 0; next < values.size() && divisor != 1; ++next) {
    divisor = std::gcd(divisor, values[next]);
  }
  return divisor;
}

/// Values in units of a number that divides them; the frame has room for them in any case, so that
/// a later step takes no more.
///
/// Lengths are often multiples of 64 or 256, and costs then too. A planner that knows it rounds its
/// bounds to whole multiples, and meets them: it proves in microseconds what it else cannot.
[[nodiscard]] inline std::span<std::int64_t const> divided(std::span<std::int64_t const> values,
                                                           std::int64_t divisor,
                                                           workspace::frame& scratch)
{
  std::span<std::int64_t> const quotients = scratch.take<std::int64_t>(values.size());
  if (divisor <= 1) { return values; }
  std::transform(values.begin(), values.end(), quotients.begin(),
                 [divisor](std::int64_t value) { return value / divisor; });
  return quotients;
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
                  " have the key of sample ", by_key[from], " in limits.apart, and there are ",
                  counted(bags, "bag"), "; leave out ", to - from - bags, " or add bags");
    }
    if (to - from == 1) { continue; }
    first_member[found++] = held;
    for (std::size_t at = from; at < to; ++at) {
      if (at > from && item(by_key[at]) == item(by_key[at - 1])) {
        return fail(error_code::infeasible, by_key[at], "samples ", by_key[at - 1], " and ",
                    by_key[at],
                    " have one key in limits.together and one in limits.apart; give "
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
    std::int64_t most, sample_keys const& apart, planned_items const& items,
    std::span<std::uint32_t const> item_of, std::size_t samples, std::size_t bags,
    workspace::frame& scratch)
{
  partition_problem::placement_rules rules;
  auto const all = static_cast<std::int64_t>(samples);
  if (all / most + (all % most != 0 ? 1 : 0) > static_cast<std::int64_t>(bags)) {
    return fail(error_code::infeasible, 0, counted(samples, "sample"), " in ", counted(bags, "bag"),
                " with at most ", most, " each need ", all / most + (all % most != 0 ? 1 : 0),
                "; add bags or raise limits.samples");
  }
  if (!item_of.empty()) {
    std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(items.lengths.size());
    std::fill(counts.begin(), counts.end(), 0);
    for (std::uint32_t const item : item_of) { ++counts[item]; }
    for (std::size_t item = 0; item < counts.size(); ++item) {
      if (counts[item] > most) {
        return fail(error_code::infeasible, items.sample_of(item), "sample ", items.sample_of(item),
                    " and what stays with it are ", counted(counts[item], "sample"),
                    ", and limits.samples is ", most, "; raise it or split them");
      }
    }
    rules.sample_counts = counts;
  }
  if (!apart.empty()) {
    auto read = read_groups(rules, apart, item_of, items.lengths.size(), bags, scratch);
    if (!read) { return tl::unexpected(std::move(read).error()); }
  }
  return rules;
}

/// What the planners of a step read besides costs.
struct step_samples {
  sample_lengths const& lengths;
  std::span<std::int64_t const> weights;    ///< empty where nothing limits the bags
  std::span<bag_id const> home;             ///< or empty
  std::span<std::int64_t const> most = {};  ///< of bags, where there are weights
};

/// Checks what a policy did. A policy that is wrong ends the program here, since its plan would be
/// taken for a certified one. Where there are weights, a policy may have found no room. Samples
/// that are padded weigh as much as the heaviest of their bag.
///
/// Shapes      costs[n]; starts[m], or empty.
/// Errors      infeasible: a sample has no bag, or a bag holds more than its most.
template <class Cost>
[[nodiscard]] result<void> check_policy(partition_problem const& problem,
                                        std::span<Cost const> costs, planned_items const& items,
                                        batching batches, std::span<bag_id const> owner,
                                        std::span<Cost const> starts, std::span<Cost const> loads,
                                        workspace& memory)
{
  std::size_t const bags = loads.size();
  auto scratch = memory.open();
  std::span<Cost> const recomputed = scratch.take<Cost>(bags);
  std::fill(recomputed.begin(), recomputed.end(), Cost{});
  std::copy(starts.begin(), starts.end(), recomputed.begin());
  std::span<padded_sum> const batch = scratch.take<padded_sum>(bags);
  std::span<padded_sum> const held = scratch.take<padded_sum>(problem.most.size());
  std::fill(batch.begin(), batch.end(), padded_sum{});
  std::fill(held.begin(), held.end(), padded_sum{});
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const bag = to_index(owner[sample]);
    if (!held.empty() && bag == bags) { return no_room_for(problem, items, sample); }
    BALLAST_EXPECTS(bag != bags, "the policy left sample ", items.sample_of(sample),
                    " without a bag");
    BALLAST_EXPECTS(bag < bags, "the policy put sample ", items.sample_of(sample), " in bag ", bag,
                    " of ", bags);
    BALLAST_EXPECTS(problem.fits(sample, bag), "the policy put sample ", items.sample_of(sample),
                    " of ", counted(problem.lengths[sample], "token"), " in bag ", bag, " of ",
                    counted(problem.gpus[bag], "GPU"));
    if (batches == batching::packed) {
      auto const sums = numbers_of(recomputed[bag]);
      for (std::size_t d = 0; d < sums.size(); ++d) { sums[d] += numbers_of(costs[sample])[d]; }
    } else {
      cost_units const cost = problem.costs[sample];
      bool const pads_all = batches == batching::padded;
      cost_units const padded = pads_all ? cost : problem.attention[sample];
      batch[bag].add(cost - padded, padded);
    }
    if (held.empty()) { continue; }
    bool const pads = batches == batching::padded;
    held[bag].add(pads ? 0 : problem.weights[sample], pads ? problem.weights[sample] : 0);
    if (!held[bag].exceeds(problem.most[bag])) { continue; }
    if (!pads) { return no_room_for(problem, items, sample); }
    return fail(error_code::infeasible, items.sample_of(sample), "sample ", items.sample_of(sample),
                " brings bag ", bag, " to ", counted(held[bag].count, "sample"),
                " padded to the heaviest, of ", held[bag].largest, ", and it holds ",
                problem.most[bag],
                "; policies that pad keep limits only where what weighs more costs more, so plan "
                "fewer samples, raise the limit, or use a policy that packs, as refine{}");
  }
  for (std::size_t bag = 0; bag < bags; ++bag) {
    auto const is = numbers_of(recomputed[bag]);
    if (batches != batching::packed) { is[0] += batch[bag].load(); }
    for (std::size_t d = 0; d < is.size(); ++d) {
      cost_units const said = numbers_of(loads[bag])[d];
      BALLAST_EXPECTS(said == is[d], "the policy says that bag ", bag, " has a load of ", said,
                      std::integral<Cost> ? std::string() : concat(" in dimension ", d),
                      ", and its samples make it ", is[d]);
    }
  }
  return {};
}

/// The sample that makes the load of one batch of all overflow when it is padded, if so.
[[nodiscard]] inline std::optional<std::size_t> overflows_padded(batching batches,
                                                                 planned_items const& items)
{
  if (batches == batching::packed || items.costs.empty()) { return {}; }
  auto const count = static_cast<cost_units>(items.costs.size());
  if (batches == batching::padded) {
    auto const largest = std::max_element(items.costs.begin(), items.costs.end());
    if (*largest <= (no_cost - 1) / count) { return {}; }
    return static_cast<std::size_t>(largest - items.costs.begin());
  }
  cost_units packed = 0;
  for (std::size_t item = 0; item < items.costs.size(); ++item) {
    packed += items.costs[item] - items.attention[item];
  }
  auto const largest = std::max_element(items.attention.begin(), items.attention.end());
  if (*largest <= (no_cost - 1 - packed) / count) { return {}; }
  return static_cast<std::size_t>(largest - items.attention.begin());
}

/// Refuses samples that together with what bags have cost more than can be counted; each counts for
/// at least `padded`.
///
/// Shapes      costs[n D] and starts[m D] of D quantities, sample after sample, bag after bag.
[[nodiscard]] inline result<void> check_started(std::span<cost_units const> costs,
                                                std::span<cost_units const> starts,
                                                std::size_t quantities, cost_units padded = 0)
{
  for (std::size_t d = 0; d < quantities && !starts.empty(); ++d) {
    cost_units left = no_cost - 1;
    for (std::size_t at = d; at < starts.size(); at += quantities) { left -= starts[at]; }
    for (std::size_t at = d; at < costs.size(); at += quantities) {
      cost_units const cost = std::max(costs[at], padded);
      if (cost > left) {
        return fail(error_code::out_of_range, at / quantities,
                    "the samples and limits.starting_loads together cost more than 63 bits hold",
                    quantities > 1 ? concat(" in dimension ", d) : std::string(),
                    "; use a coarser unit for both");
      }
      left -= cost;
    }
  }
  return {};
}

/// Runs a policy on items and checks what it did. Returns the best lower bound that is known. The
/// policy plans with the costs divided by what divides them all.
///
/// In, out     loads[m] enters unspecified and owner[k] as bag m, which does not exist.
/// Errors      infeasible: sample `position`, of a joined item the first, found no bag with room;
///             out_of_range: the load of a bag with what it had before could overflow.
[[nodiscard]] inline result<ratio> plan_items(
    planned_items const& items, std::span<std::int64_t const> most, bag_layout const& bags,
    policy_ref<cost_units> const& policy, placement_limits const& limits,
    std::span<cost_units> loads, std::span<bag_id> owner, workspace& memory)
{
  batching const batches = policy.batches();
  if (auto const sample = overflows_padded(batches, items); sample) {
    return fail(error_code::out_of_range, *sample,
                "all samples padded to the longest would cost more than 63 bits hold; use a cost "
                "model with a coarser unit or plan fewer samples at once");
  }
  std::span<cost_units const> const starts = limits.starting_loads;
  bool const pads = batches != batching::packed && !items.costs.empty();
  cost_units const padded = pads ? *std::max_element(items.costs.begin(), items.costs.end()) : 0;
  if (auto checked = check_started(items.costs, starts, 1, padded); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  auto scratch = memory.open();
  cost_units const unit =
      common_divisor(starts, common_divisor(items.attention, common_divisor(items.costs)));
  auto const costs = divided(items.costs, unit, scratch);
  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(costs.size());
  descending_order_into(heaviest_first, costs, memory);
  partition_problem problem{
      costs,      items.lengths, heaviest_first, bags.sizes(),        bags.speeds(),
      items.home, items.weights, most,           items.joint_lengths, items.first_part,
      items.parts};
  problem.attention = divided(items.attention, unit, scratch);
  std::fill(loads.begin(), loads.end(), 0);
  auto const divided_starts = divided(starts, unit, scratch);
  std::copy(divided_starts.begin(), divided_starts.end(), loads.begin());
  problem.lower_bound = makespan_lower_bound(problem, memory, divided_starts);
  ratio const proven = policy(problem, loads, owner, memory);
  ratio bound = std::max(proven, problem.lower_bound);
  if (unit > 1) {
    // A policy that is wrong may say anything.
    auto const times_unit = [unit](cost_units value) {
      return value > no_cost / unit ? no_cost : value * unit;
    };
    std::transform(loads.begin(), loads.end(), loads.begin(), times_unit);
    bound.numerator = times_unit(bound.numerator);
    problem.costs = items.costs;
    problem.attention = items.attention;
  }
  if (auto checked = check_policy<cost_units>(problem, problem.costs, items, batches, owner, starts,
                                              loads, memory);
      !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  return bound;
}

/// The same by several quantities. Bags that are all one GPU, equally fast, are equal for the policy,
/// which then looks at no lengths.
///
/// Shapes      costs[k], of the items.
template <std::size_t D>
[[nodiscard]] result<ratio> plan_items(
    planned_items const& items, std::span<cost_vector<D> const> costs, bag_layout const& bags,
    policy_ref<cost_vector<D>> const& policy, placement_limits const& limits,
    std::span<cost_vector<D>> loads, std::span<bag_id> owner, workspace& memory)
{
  auto scratch = memory.open();
  auto const is_one = [](std::uint32_t each) { return each == 1; };
  cost_vector_problem<D> problem{costs};
  if (!std::all_of(bags.sizes().begin(), bags.sizes().end(), is_one) ||
      !std::all_of(bags.speeds().begin(), bags.speeds().end(), is_one)) {
    problem.lengths = items.lengths;
    problem.gpus = bags.sizes();
    problem.speeds = bags.speeds();
  }
  for (std::size_t at = 0; at < limits.starting_loads.size(); ++at) {
    loads[at / D][at % D] = limits.starting_loads[at];
  }
  if (auto checked = check_started(all_numbers_of<D>(costs), limits.starting_loads, D); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  auto const starts =
      scratch.take<cost_vector<D>>(limits.starting_loads.empty() ? 0 : loads.size());
  std::copy_n(loads.begin(), starts.size(), starts.begin());
  ratio const proven = policy(problem, loads, owner, memory);
  partition_problem const alone = one_quantity_of(problem, bags.size(), scratch);
  if (auto checked = check_policy<cost_vector<D>>(alone, costs, items, batching::packed, owner,
                                                  starts, loads, memory);
      !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  return std::max(proven, cost_vector_lower_bound<D>(problem, loads.size(), memory, starts));
}

/// Plans the samples of a step. Returns the best lower bound that is known.
///
/// In, out     the plan has costs, attention and batches; its owners and loads are written.
template <class Cost>
[[nodiscard]] result<ratio> plan_step(basic_partition_plan<Cost>& plan, step_samples const& step,
                                      bag_layout const& bags, policy_ref<Cost> const& policy,
                                      placement_limits const& limits, workspace& memory)
{
  constexpr bool is_one = std::same_as<Cost, cost_units>;
  auto scratch = memory.open();
  std::span<Cost const> costs = span_of(plan.costs);
  planned_items items{{}, step.lengths.fitting, step.weights, step.home};
  if constexpr (is_one) { items.costs = costs; }
  items.attention = span_of(plan.attention);
  if (step.lengths.short_samples > 0) { items.joint_lengths = step.lengths.own; }
  std::span<bag_id> owner = mutable_span_of(plan.owner);
  std::span<std::uint32_t> const item_of = scratch.take<std::uint32_t>(limits.together.size());
  if (!limits.together.empty()) {
    if (plan.batches != batching::packed) {
      return fail(error_code::infeasible, 0,
                  "a policy that pads samples to the longest cannot keep some of them together; "
                  "use another policy or leave out what is to stay together");
    }
    items = join_samples(limits.together, items, item_of, scratch);
    owner = scratch.take<bag_id>(items.lengths.size());
    std::fill(owner.begin(), owner.end(), to_id<bag_id>(bags.size()));
    std::span<Cost> const joined = scratch.take<Cost>(owner.size());
    std::fill(joined.begin(), joined.end(), Cost{});
    for (std::size_t sample = 0; sample < item_of.size(); ++sample) {
      auto const sums = numbers_of(joined[item_of[sample]]);
      for (std::size_t d = 0; d < sums.size(); ++d) { sums[d] += numbers_of(costs[sample])[d]; }
    }
    costs = joined;
    if constexpr (is_one) { items.costs = costs; }
  }
  auto const loads = mutable_span_of(plan.loads);
  auto const bound = [&] {
    if constexpr (is_one) {
      return plan_items(items, step.most, bags, policy, limits, loads, owner, memory);
    } else {
      return plan_items<std::tuple_size_v<Cost>>(items, costs, bags, policy, limits, loads, owner,
                                                 memory);
    }
  }();
  if (!bound) { return bound; }
  for (std::size_t sample = 0; sample < item_of.size(); ++sample) {
    plan.owner[sample] = owner[item_of[sample]];
  }
  return bound;
}

/// The bag that holds each sample; the frame keeps them.
[[nodiscard]] inline std::span<bag_id const> bags_of_home(placement_limits const& limits,
                                                          bag_layout const& bags,
                                                          workspace::frame& scratch)
{
  std::span<bag_id> const home = scratch.take<bag_id>(limits.home.size());
  std::transform(limits.home.begin(), limits.home.end(), home.begin(),
                 [&bags](rank_id rank) { return bags.bag_of(rank); });
  return home;
}

/// The share of all tokens whose sample is not owned by the bag that holds it.
[[nodiscard]] inline ratio moved_share(std::span<bag_id const> owner,
                                       std::span<tokens const> lengths,
                                       std::span<bag_id const> home) noexcept
{
  ratio share{0, 1};
  tokens all = 0;
  for (std::size_t sample = 0; sample < home.size(); ++sample) {
    all += lengths[sample];
    share.numerator += owner[sample] == home[sample] ? 0 : lengths[sample];
  }
  share.denominator = std::max<tokens>(all, 1);
  return share;
}

/// Plans samples whose costs are in the plan by a policy, without a search within limits.
///
/// In, out     plan has costs, attention and batches; the rest is written.
template <class Cost>
[[nodiscard]] result<void> plan_priced(basic_partition_plan<Cost>& plan, workspace& memory,
                                       sample_lengths const& lengths, bag_layout const& bags,
                                       policy_ref<Cost> const& policy,
                                       placement_limits const& limits)
{
  plan.lengths.assign(lengths.own.begin(), lengths.own.end());
  plan.short_samples = lengths.short_samples;
  // No bag, until the policy has run.
  plan.owner.assign(lengths.own.size(), to_id<bag_id>(bags.size()));
  plan.loads.assign(bags.size(), Cost{});
  plan.bags_digest = bags.digest();

  auto scratch = memory.open();
  auto const home = bags_of_home(limits, bags, scratch);
  step_samples step{lengths, {}, home};
  if (all_caps const caps(limits); caps.size() > 0) {
    step.weights = lengths.own;
    if (!caps[0].of.empty()) { step.weights = caps[0].of; }
    step.most = rooms_of_bags(bags, caps[0], scratch);
  }
  auto const bound = plan_step(plan, step, bags, policy, limits, memory);
  if (!bound) { return tl::unexpected(bound.error()); }

  plan.samples.collect(span_of(plan.owner), bags.size());
  plan.makespan = makespan_of(span_of(plan.loads), bags.speeds());
  plan.lower_bound = *bound;
  BALLAST_EXPECTS(plan.lower_bound <= plan.makespan, "the policy says that no makespan is below ",
                  plan.lower_bound.numerator, " / ", plan.lower_bound.denominator,
                  ", and its plan has ", plan.makespan.numerator, " / ", plan.makespan.denominator);
  plan.above_cap.clear();
  plan.moved = moved_share(span_of(plan.owner), lengths.own, home);
  return {};
}

}  // namespace ballast::inline v0::detail
