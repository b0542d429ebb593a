// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PLAN_PRICED_HPP
#define BALLAST_PARTITION_DETAIL_PLAN_PRICED_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/capacity/capacities_of.hpp>
#include <ballast/partition/detail/plan_items.hpp>
#include <ballast/partition/detail/read_samples.hpp>
#include <ballast/partition/detail/vectors/plan_vectors.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <span>

namespace ballast::inline v0::detail {

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
  list_bags_above_cap(plan, step.weights, bags, constraints, memory);
  plan.moved = moved_share(span_of(plan.owner), lengths.own, home);
  return {};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PLAN_PRICED_HPP
