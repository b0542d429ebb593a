// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/capacity/out_of_capacity.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/makespan_lower_bound.hpp>
#include <ballast/partition/partition_plan.hpp>

namespace ballast::inline v0::detail {

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
  partition_problem::placement_rules rules{most};
  auto const all = static_cast<std::int64_t>(samples);
  if (all / most + (all % most != 0 ? 1 : 0) > static_cast<std::int64_t>(bags)) {
    return fail(error_code::infeasible, 0, counted(samples, "sample"), " in ", counted(bags, "bag"),
                " with at most ", most, " each need ", all / most + (all % most != 0 ? 1 : 0),
                "; add bags or raise limits.samples");
  }
  if (!item_of.empty()) {
    std::span<std::uint32_t> const counts = scratch.take<std::uint32_t>(items.costs.size());
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
    auto read = read_groups(rules, apart, item_of, items.costs.size(), bags, scratch);
    if (!read) { return tl::unexpected(std::move(read).error()); }
  }
  return rules;
}

/// What the planners of a step read besides costs.
struct step_samples {
  sample_lengths const& lengths;
  std::span<std::int64_t const> weights;  ///< empty where nothing limits the bags
  std::span<bag_id const> home;           ///< or empty
};

/// Checks what a policy did. A policy that is wrong ends the program here, since its plan would be
/// taken for a certified one. Where there are capacities, a policy may have found no room. Samples
/// that are padded weigh as much as the heaviest of their bag.
///
/// Shapes      starts[m], or empty.
/// Errors      infeasible: a sample has no bag, or a bag is above its capacity.
[[nodiscard]] inline result<void> check_policy(partition_problem const& problem,
                                               planned_items const& items, batching batches,
                                               bool keeps_counts, std::span<bag_id const> owner,
                                               std::span<cost_units const> starts,
                                               std::span<cost_units const> loads, workspace& memory)
{
  std::size_t const bags = loads.size();
  auto scratch = memory.open();
  std::span<cost_units> const recomputed = scratch.take<cost_units>(bags);
  std::span<padded_sum> const batch = scratch.take<padded_sum>(bags);
  std::span<padded_sum> const held = scratch.take<padded_sum>(problem.capacities.size());
  std::fill(batch.begin(), batch.end(), padded_sum{});
  std::fill(held.begin(), held.end(), padded_sum{});
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const bag = to_index(owner[sample]);
    if (!held.empty() && bag == bags) { return out_of_capacity(problem, items, sample); }
    BALLAST_EXPECTS(bag != bags, "the policy left sample ", items.sample_of(sample),
                    " without a bag");
    BALLAST_EXPECTS(bag < bags, "the policy put sample ", items.sample_of(sample), " in bag ", bag,
                    " of ", bags);
    BALLAST_EXPECTS(problem.fits(sample, bag), "the policy put sample ", items.sample_of(sample),
                    " of ", counted(problem.lengths[sample], "token"), " in bag ", bag, " of ",
                    counted(problem.gpus[bag], "GPU"));
    cost_units const cost = problem.costs[sample];
    cost_units const padded = batches == batching::packed   ? 0
                              : batches == batching::padded ? cost
                                                            : problem.attention[sample];
    batch[bag].add(cost - padded, padded);
    if (held.empty()) { continue; }
    bool const pads = batches == batching::padded;
    held[bag].add(pads ? 0 : problem.weights[sample], pads ? problem.weights[sample] : 0);
    if (!held[bag].exceeds(problem.capacities[bag])) { continue; }
    if (!pads) {
      return out_of_capacity(problem, items, sample, "capped{longest_processing_time{}}",
                             keeps_counts);
    }
    return fail(error_code::infeasible, items.sample_of(sample), "sample ", items.sample_of(sample),
                " brings bag ", bag, " to ", counted(held[bag].count, "sample"),
                " padded to the heaviest, of ", held[bag].largest, ", and it holds ",
                problem.capacities[bag],
                "; policies that pad keep limits only where what weighs more costs more, so plan "
                "fewer samples, raise the limit, or use a policy that packs, as capped{}");
  }
  for (std::size_t bag = 0; bag < bags; ++bag) {
    recomputed[bag] = batch[bag].load() + (starts.empty() ? 0 : starts[bag]);
  }
  auto const [said, is] = std::mismatch(loads.begin(), loads.end(), recomputed.begin());
  BALLAST_EXPECTS(said == loads.end(), "the policy says that bag ", said - loads.begin(),
                  " has a load of ", *said, ", and its samples make it ", *is);
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

/// Whether bags with what they had before could have loads that overflow; the costliest sample, then.
[[nodiscard]] inline std::optional<std::size_t> overflows_started(
    batching batches, planned_items const& items, std::span<cost_units const> starts)
{
  if (starts.empty() || items.costs.empty()) { return {}; }
  auto const largest = std::max_element(items.costs.begin(), items.costs.end());
  cost_units left = no_cost - 1;
  for (cost_units const start : starts) { left -= start; }
  for (cost_units const cost : items.costs) {
    cost_units const most = batches == batching::packed ? cost : *largest;
    if (most > left) { return static_cast<std::size_t>(largest - items.costs.begin()); }
    left -= most;
  }
  return {};
}

/// Runs a policy on items and checks what it did. Returns the best lower bound that is known. The
/// policy plans with the costs divided by what divides them all.
///
/// In, out     loads[m] enters unspecified and owner[k] as bag m, which does not exist.
/// Errors      infeasible: sample `position`, of a joined item the first, found no bag with room;
///             out_of_range: the load of a bag with what it had before could overflow.
template <partition_policy Policy>
[[nodiscard]] result<ratio> plan_items(planned_items const& items, bag_layout const& bags,
                                       Policy const& policy,
                                       partition_constraints const& constraints,
                                       std::span<cost_units> loads, std::span<bag_id> owner,
                                       workspace& memory)
{
  batching const batches = batching_of(policy);
  if (auto const sample = overflows_padded(batches, items); sample) {
    return fail(error_code::out_of_range, *sample,
                "all samples padded to the longest would cost more than 63 bits hold; use a cost "
                "model with a coarser unit or plan fewer samples at once");
  }
  std::span<cost_units const> const starts = constraints.starting_loads;
  if (auto const sample = overflows_started(batches, items, starts); sample) {
    return fail(error_code::out_of_range, *sample,
                "the samples and limits.starting_loads together cost more than 63 bits hold; "
                "use a coarser unit for both");
  }
  auto scratch = memory.open();
  cost_units const unit =
      common_divisor(starts, common_divisor(items.attention, common_divisor(items.costs)));
  auto const costs = divided(items.costs, unit, scratch);
  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(costs.size());
  descending_order_into(heaviest_first, costs, memory);
  std::span<std::int64_t const> const capacities = items.weights.empty()
                                                       ? std::span<std::int64_t const>()
                                                       : capacities_of(bags, constraints, scratch);
  partition_problem problem{
      costs,      items.lengths, heaviest_first, bags.sizes(),        bags.speeds(),
      items.home, items.weights, capacities,     items.joint_lengths, items.first_part,
      items.parts};
  problem.attention = divided(items.attention, unit, scratch);
  std::fill(loads.begin(), loads.end(), 0);
  auto const divided_starts = divided(starts, unit, scratch);
  std::copy(divided_starts.begin(), divided_starts.end(), loads.begin());
  problem.lower_bound = makespan_lower_bound(problem, memory, divided_starts);
  ratio const proven = run_policy(policy, problem, loads, owner, memory);
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
  if (auto checked = check_policy(problem, items, batches, plans_keep_counts(policy), owner, starts,
                                  loads, memory);
      !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  return bound;
}

/// Prices samples into a plan by one quantity.
template <class CostOf>
[[nodiscard]] sample_prices<CostOf> prices_of(partition_plan& plan, CostOf const& cost_of)
{
  return {cost_of, mutable_span_of(plan.costs), {}};
}

/// Plans the samples of a step by one quantity. Returns the best lower bound that is known.
///
/// In, out     the plan has costs, attention and batches; its owners and loads are written.
template <partition_policy Policy>
[[nodiscard]] result<ratio> plan_step(partition_plan& plan, step_samples const& step,
                                      bag_layout const& bags, Policy const& policy,
                                      partition_constraints const& constraints, workspace& memory)
{
  auto scratch = memory.open();
  planned_items items{span_of(plan.costs), step.lengths.fitting, step.weights, step.home};
  items.attention = span_of(plan.attention);
  if (step.lengths.short_samples > 0) { items.joint_lengths = step.lengths.own; }
  std::span<bag_id> owner = mutable_span_of(plan.owner);
  std::span<std::uint32_t> const item_of = scratch.take<std::uint32_t>(constraints.together.size());
  if (!constraints.together.empty()) {
    if (plan.batches != batching::packed) {
      return fail(error_code::infeasible, 0,
                  "a policy that pads samples to the longest cannot keep some of them together; "
                  "use another policy or leave out what is to stay together");
    }
    items = join_samples(constraints.together, items, item_of, scratch);
    owner = scratch.take<bag_id>(items.costs.size());
    std::fill(owner.begin(), owner.end(), to_id<bag_id>(bags.size()));
  }
  auto const bound =
      plan_items(items, bags, policy, constraints, mutable_span_of(plan.loads), owner, memory);
  if (!bound) { return bound; }
  for (std::size_t sample = 0; sample < item_of.size(); ++sample) {
    plan.owner[sample] = owner[item_of[sample]];
  }
  return bound;
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

}  // namespace ballast::inline v0::detail
