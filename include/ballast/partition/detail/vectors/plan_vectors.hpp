// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/cost_vector_lower_bound.hpp>
#include <ballast/partition/detail/plan_items.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// Takes the costs of one more sample. The total enters as that of the samples before it.
template <std::size_t D>
[[nodiscard]] result<void> add_costs(cost_vector<D>& total, named_sample of,
                                     cost_vector<D> const& costs)
{
  for (std::size_t d = 0; d < D; ++d) {
    of.dimension = static_cast<int>(d);
    if (auto checked = check_cost(of, costs[d], total[d]); !checked) { return checked; }
    total[d] += costs[d];
  }
  return {};
}

/// Prices the samples that read_samples reads, in D dimensions.
template <std::size_t D, class CostOf>
struct vector_prices {
  CostOf const& cost_of;
  std::span<cost_vector<D>> costs;
  cost_vector<D> total{};  ///< of the samples so far

  template <class Sample>
  [[nodiscard]] result<void> operator()(std::size_t at, Sample& sample, tokens length)
  {
    costs[at] = std::invoke(cost_of, sample);
    return add_costs<D>(total, {at, length}, costs[at]);
  }
};

template <std::size_t D, class CostOf>
[[nodiscard]] vector_prices<D, CostOf> prices_of(cost_vector_plan<D>& plan, CostOf const& cost_of)
{
  return {cost_of, mutable_span_of(plan.costs)};
}

/// Checks what a policy did. A policy that is wrong ends the program here, since its plan would be
/// taken for a certified one. Where there are capacities, a policy may have found no room.
///
/// Shapes      starts[m], or empty.
/// Errors      infeasible: a sample has no bag, or a bag is above its capacity.
template <std::size_t D>
[[nodiscard]] result<void> check_vector_policy(cost_vector_problem<D> const& problem,
                                               planned_items const& items,
                                               std::span<bag_id const> owner,
                                               std::span<cost_vector<D> const> starts,
                                               std::span<cost_vector<D> const> loads,
                                               workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_vector<D>> const recomputed = scratch.take<cost_vector<D>>(loads.size());
  std::span<std::int64_t> const held = scratch.take<std::int64_t>(problem.capacities.size());
  std::fill(recomputed.begin(), recomputed.end(), cost_vector<D>{});
  std::copy(starts.begin(), starts.end(), recomputed.begin());
  std::fill(held.begin(), held.end(), 0);
  auto const no_room = [&](std::size_t item) {
    return out_of_capacity(weights_alone(problem, loads.size(), scratch), items, item, "refine{}");
  };
  for (std::size_t item = 0; item < owner.size(); ++item) {
    std::size_t const bag = to_index(owner[item]);
    if (!held.empty() && bag == loads.size()) { return no_room(item); }
    BALLAST_EXPECTS(bag != loads.size(), "the policy left sample ", items.sample_of(item),
                    " without a bag");
    BALLAST_EXPECTS(bag < loads.size(), "the policy put sample ", items.sample_of(item), " in bag ",
                    bag, " of ", loads.size());
    BALLAST_EXPECTS(problem.fits(item, bag), "the policy put sample ", items.sample_of(item),
                    " of ", counted(problem.lengths[item], "token"), " in bag ", bag, " of ",
                    counted(problem.gpus[bag], "GPU"));
    for (std::size_t d = 0; d < D; ++d) { recomputed[bag][d] += problem.costs[item][d]; }
    if (held.empty()) { continue; }
    held[bag] += problem.weights[item];
    if (held[bag] > problem.capacities[bag]) { return no_room(item); }
  }
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    for (std::size_t d = 0; d < D; ++d) {
      BALLAST_EXPECTS(loads[bag][d] == recomputed[bag][d], "the policy says that bag ", bag,
                      " has a load of ", loads[bag][d], " in dimension ", d,
                      ", and its samples make it ", recomputed[bag][d]);
    }
  }
  return {};
}

/// Refuses samples that together with what bags have cost more than can be counted.
template <std::size_t D>
[[nodiscard]] result<void> check_started(cost_vector_problem<D> const& problem,
                                         std::span<cost_vector<D> const> starts)
{
  cost_vector<D> const costs = sum_of<D>(problem.costs);
  cost_vector<D> const before = sum_of<D>(starts);
  for (std::size_t d = 0; d < D; ++d) {
    if (costs[d] > no_cost - 1 - before[d]) {
      return fail(error_code::out_of_range, 0,
                  "the samples and limits.starting_loads together "
                  "cost more than 63 bits hold in dimension ",
                  d, "; use a coarser unit for both");
    }
  }
  return {};
}

/// Plans the samples of a step by several quantities. Returns the best lower bound that is known.
///
/// Bags that are all one GPU, equally fast, are equal for the policy, which then looks at no
/// lengths.
///
/// In, out     the plan has costs; its owners and loads are written.
/// Errors      infeasible: sample `position`, of those that stay together the first, found no bag
///             with room, or fits none together with them.
template <std::size_t D, cost_vector_policy<D> Policy>
[[nodiscard]] result<ratio> plan_step(cost_vector_plan<D>& plan, step_samples const& step,
                                      bag_layout const& bags, Policy const& policy,
                                      partition_constraints const& constraints, workspace& memory)
{
  auto scratch = memory.open();
  auto const is_one = [](std::uint32_t each) { return each == 1; };
  cost_vector_problem<D> problem{span_of(plan.costs)};
  if (!std::all_of(bags.sizes().begin(), bags.sizes().end(), is_one) ||
      !std::all_of(bags.speeds().begin(), bags.speeds().end(), is_one)) {
    problem.lengths = step.lengths.fitting;
    problem.gpus = bags.sizes();
    problem.speeds = bags.speeds();
  }
  problem.weights = step.weights;
  if (constraints.limits_bags()) { problem.capacities = capacities_of(bags, constraints, scratch); }

  partition_problem const alone = weights_alone(problem, bags.size(), scratch);
  planned_items items{alone.costs, alone.lengths, alone.weights};
  if (step.lengths.short_samples > 0) { items.joint_lengths = step.lengths.own; }
  std::span<bag_id> owner = mutable_span_of(plan.owner);
  std::span<std::uint32_t> const item_of = scratch.take<std::uint32_t>(constraints.together.size());
  if (!constraints.together.empty()) {
    items = join_samples(constraints.together, items, item_of, scratch);
    std::span<cost_vector<D>> const costs = scratch.take<cost_vector<D>>(items.costs.size());
    std::fill(costs.begin(), costs.end(), cost_vector<D>{});
    for (std::size_t sample = 0; sample < item_of.size(); ++sample) {
      for (std::size_t d = 0; d < D; ++d) { costs[item_of[sample]][d] += plan.costs[sample][d]; }
    }
    problem.costs = costs;
    if (!problem.lengths.empty()) { problem.lengths = items.lengths; }
    problem.weights = items.weights;
    owner = scratch.take<bag_id>(costs.size());
    std::fill(owner.begin(), owner.end(), to_id<bag_id>(bags.size()));
  }
  std::span<cost_vector<D>> const loads = mutable_span_of(plan.loads);
  for (std::size_t at = 0; at < constraints.starting_loads.size(); ++at) {
    loads[at / D][at % D] = constraints.starting_loads[at];
  }
  if (auto checked = check_started<D>(problem, loads); !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  std::span<cost_vector<D>> const starts =
      scratch.take<cost_vector<D>>(constraints.starting_loads.empty() ? 0 : loads.size());
  std::copy_n(loads.begin(), starts.size(), starts.begin());
  ratio const proven = run_policy(policy, problem, loads, owner, memory);
  if (auto checked = check_vector_policy<D>(problem, items, owner, starts, loads, memory);
      !checked) {
    return tl::unexpected(std::move(checked).error());
  }
  for (std::size_t sample = 0; sample < item_of.size(); ++sample) {
    plan.owner[sample] = owner[item_of[sample]];
  }
  return std::max(proven, cost_vector_lower_bound<D>(problem, loads.size(), memory, starts));
}

/// Plans samples whose costs are in the plan: what of partition_into() knows nothing of the types of
/// samples and cost model. So a program that plans with several of these compiles it once for each
/// policy, and ballast::compiled brings it for some.
///
/// In, out     plan has costs, attention and batches; the rest is written.
template <class Cost, policy_by<Cost> Policy>
[[nodiscard]] result<void> plan_priced(basic_partition_plan<Cost>& plan, workspace& memory,
                                       sample_lengths const& lengths, bag_layout const& bags,
                                       Policy const& policy,
                                       partition_constraints const& constraints)
{
  plan.lengths.assign(lengths.own.begin(), lengths.own.end());
  plan.short_samples = lengths.short_samples;
  // No bag, until the policy has run.
  plan.owner.assign(lengths.own.size(), to_id<bag_id>(bags.size()));
  plan.loads.assign(bags.size(), Cost{});
  plan.bags_digest = bags.digest();

  auto scratch = memory.open();
  std::span<bag_id> const home = scratch.take<bag_id>(constraints.home.size());
  std::transform(constraints.home.begin(), constraints.home.end(), home.begin(),
                 [&bags](rank_id rank) { return bags.bag_of(rank); });
  step_samples step{lengths, {}, home};
  if (constraints.limits_bags()) {
    step.weights = constraints.weights.empty() ? lengths.own : constraints.weights;
  }
  auto const bound = plan_step(plan, step, bags, policy, constraints, memory);
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
