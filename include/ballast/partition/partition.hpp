// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PARTITION_HPP
#define BALLAST_PARTITION_PARTITION_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/integer_projection.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/units.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/joint_samples.hpp>
#include <ballast/partition/detail/plan_items.hpp>
#include <ballast/partition/detail/refused_call.hpp>
#include <ballast/partition/makespan.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <utility>

namespace ballast::inline v0 {

namespace detail {

/// A cost or a length as 64 bits with a sign; what they cannot hold is no_cost, and too long.
template <std::integral Number>
[[nodiscard]] constexpr std::int64_t saturated(Number number)
{
  if constexpr (std::unsigned_integral<Number> && sizeof(Number) >= sizeof(std::int64_t)) {
    constexpr auto most = static_cast<Number>(std::numeric_limits<std::int64_t>::max());
    return static_cast<std::int64_t>(std::min(number, most));
  } else {
    return static_cast<std::int64_t>(number);
  }
}

/// Why this step cannot be planned, whatever its samples are, if so.
[[nodiscard]] inline result<void> check_step(std::size_t count, bag_layout const& bags,
                                             partition_constraints const& constraints)
{
  if (count >= (std::uint64_t{1} << 32)) {
    return fail(error_code::out_of_range, 0, "a step has more than 2^32 - 1 samples; split it");
  }
  if (bags.size() == 0) {
    return fail(error_code::infeasible, 0, "there are no bags to place samples in; lay out some");
  }
  return check_constraints(constraints, count, bags.gpus());
}

/// Why this sample cannot be planned, if so; `total` is the cost of those before it.
[[nodiscard]] inline result<void> check_sample(std::size_t sample, tokens length, cost_units cost,
                                               cost_units total, std::uint32_t smallest_bag)
{
  auto const refuse = [&](error_code code, std::string const& why) {
    return fail(
        code, sample,
        "sample " + std::to_string(sample) + " of " + std::to_string(length) + " tokens " + why);
  };
  if (length < 0 || length > longest_sample) {
    return refuse(error_code::out_of_range, "has a length that is not from 0 to " +
                                                std::to_string(longest_sample) +
                                                "; correct its length");
  }
  if (!partition_problem::fits(length, smallest_bag)) {
    return refuse(error_code::infeasible, "is shorter than the smallest bag, which has " +
                                              std::to_string(smallest_bag) +
                                              " GPUs; add smaller bags or leave the sample out");
  }
  if (cost < 0) {
    return refuse(error_code::out_of_range, "has a negative cost; correct the cost model");
  }
  if (cost == no_cost) {
    return refuse(error_code::out_of_range,
                  "has no cost: a length that the cost model looks at is negative or too long, or "
                  "its unit is too fine; correct the sample or use a coarser unit");
  }
  if (cost > no_cost - 1 - total) {
    return refuse(
        error_code::out_of_range,
        "brings the total cost above 63 bits; use a cost model with a coarser unit or plan "
        "fewer samples at once");
  }
  return {};
}

/// The same where bags can admit short samples.
[[nodiscard]] inline result<void> check_sample(std::size_t sample, tokens length, cost_units cost,
                                               cost_units total, bag_layout const& bags)
{
  if (bags.is_short(length) && !bags.admits_short_samples()) {
    return fail(error_code::infeasible, sample,
                "sample " + std::to_string(sample) + " of " + std::to_string(length) +
                    " tokens is shorter than the smallest bag, which has " +
                    std::to_string(bags.smallest_bag()) +
                    " GPUs; add smaller bags, admit it by "
                    "bags.with_short_samples(short_samples::admitted), or leave it out");
  }
  constexpr std::uint32_t one_gpu = 1;  // which every sample fits
  return check_sample(sample, length, cost, total, one_gpu);
}

}  // namespace detail

/// Decides with a policy which bag computes which samples, and says how good the plan is: the front
/// door of this folder, in the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; bags: m >= 1; constraints: arrays of n or empty.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     cost_of(sample) returns what the sample costs, length_of(sample) how many of its
///             tokens a bag splits: where it splits several modalities, the fewest that are not
///             zero. Both return integers. A sample that is a number is its own length. The policy
///             does what partition_policy says.
/// Ensures     (1) those of partition_plan
///             (2) every sample is in a bag that takes it (bag_layout::takes): one with no more GPUs
///                 than the sample has tokens or, for a short sample where the bags admit it, a
///                 smallest one. Its cost, its weight and the tokens that move are its own; what a
///                 policy reads as its length is the number of GPUs of that bag
///             (3) the plan depends on nothing but the arguments, so every rank finds the same one
///             (4) with a plan and a workspace that have seen a step as large, nothing is allocated
///             (5) samples with one key in constraints.together have one bag, and no bag holds more
///                 weight than its GPUs can
/// Errors      out_of_range: sample `position` has a length outside [0, longest_sample], a negative
///             cost or no cost, a home outside the job, or the costs or weights overflow; or weights
///             have no most_per_gpu;
///             infeasible: sample `position` has fewer tokens than every bag has GPUs, and the bags
///             refuse short samples; or it found no bag with room, or there is no bag, or the policy
///             pads and samples have to stay together. The plan is then unspecified.
/// Complexity  O(n) calls of cost_of, a radix sort, the policy, O((n + m) log m) for the bound; with
///             samples to keep together O(n log n).
template <std::ranges::forward_range Samples, partition_policy Policy,
          integer_projection<Samples> CostOf, integer_projection<Samples> LengthOf = std::identity>
[[nodiscard]] result<void> partition_into(partition_plan& plan, workspace& memory,
                                          Samples&& samples, bag_layout const& bags,
                                          Policy const& policy, CostOf const& cost_of,
                                          LengthOf const& length_of = {},
                                          partition_constraints const& constraints = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (auto checked = detail::check_step(count, bags, constraints); !checked) { return checked; }

  auto scratch = memory.open();
  std::span<tokens> const lengths = scratch.take<tokens>(count);
  // What policies look at where a sample can be short.
  std::span<tokens> const fitting = scratch.take<tokens>(bags.admits_short_samples() ? count : 0);
  plan.costs.resize(count);
  plan.short_samples = 0;
  cost_units total = 0;
  std::size_t next = 0;
  for (auto&& sample : samples) {
    auto const length = detail::saturated(std::invoke(length_of, sample));
    // A user's cost model is not called with a length that is out of range.
    bool const priced = length >= 0 && length <= longest_sample;
    auto const cost = priced ? detail::saturated(std::invoke(cost_of, sample)) : no_cost;
    if (auto checked = detail::check_sample(next, length, cost, total, bags); !checked) {
      return checked;
    }
    bool const is_short = bags.is_short(length);
    lengths[next] = length;
    if (!fitting.empty()) { fitting[next] = is_short ? tokens{bags.smallest_bag()} : length; }
    plan.short_samples += is_short ? 1 : 0;
    plan.costs[next] = cost;
    total += cost;
    ++next;
  }
  plan.owner.assign(count, to_id<bag_id>(bags.size()));  // no bag, until the policy has run
  plan.loads.assign(bags.size(), 0);
  plan.batches = batching_of(policy);
  plan.bags_digest = bags.digest();

  std::span<bag_id> const home = scratch.take<bag_id>(constraints.home.size());
  std::transform(constraints.home.begin(), constraints.home.end(), home.begin(),
                 [&bags](rank_id rank) { return bags.bag_of(rank); });
  std::span<std::int64_t const> weights;
  if (constraints.most_per_gpu != constraints.no_limit) {
    weights = constraints.weights.empty() ? lengths : constraints.weights;
  }
  detail::planned_items items{plan.costs, lengths, weights, home};
  if (plan.short_samples > 0) {
    items.lengths = fitting;
    items.joint_lengths = lengths;
  }
  std::span<bag_id> owner = plan.owner;
  std::span<std::uint32_t> const item_of = scratch.take<std::uint32_t>(constraints.together.size());
  if (!constraints.together.empty()) {
    if (batching_of(policy) == batching::padded) {
      return fail(error_code::infeasible, 0,
                  "a policy that pads samples to the longest cannot keep some of them together; "
                  "use another policy or leave out what is to stay together");
    }
    items = detail::join_samples(constraints.together, items, item_of, scratch);
    owner = scratch.take<bag_id>(items.costs.size());
    std::fill(owner.begin(), owner.end(), to_id<bag_id>(bags.size()));
  }
  auto const bound =
      detail::plan_items(items, bags, policy, constraints.most_per_gpu, plan.loads, owner, memory);
  if (!bound) { return tl::unexpected(bound.error()); }
  for (std::size_t sample = 0; sample < item_of.size(); ++sample) {
    plan.owner[sample] = owner[item_of[sample]];
  }

  plan.lower_bound = *bound;
  plan.samples.regroup(plan.owner, bags.size());
  plan.makespan = makespan_of(plan.loads, bags.speeds());
  BALLAST_EXPECTS(plan.lower_bound <= plan.makespan, "the policy says that no makespan is below ",
                  plan.lower_bound.numerator, " / ", plan.lower_bound.denominator,
                  ", and its plan has ", plan.makespan.numerator, " / ", plan.makespan.denominator);
  plan.moved = detail::moved_share(plan.owner, lengths, home);
  return {};
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition(lengths, one_gpu_bags(8), longest_processing_time{}, cost);
template <std::ranges::forward_range Samples, partition_policy Policy,
          integer_projection<Samples> CostOf, integer_projection<Samples> LengthOf = std::identity>
[[nodiscard]] result<partition_plan> partition(Samples&& samples, bag_layout const& bags,
                                               Policy const& policy, CostOf const& cost_of,
                                               LengthOf const& length_of = {},
                                               partition_constraints const& constraints = {})
{
  partition_plan plan;
  workspace memory;
  result<void> const done = ballast::partition_into(plan, memory, std::forward<Samples>(samples),
                                                    bags, policy, cost_of, length_of, constraints);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

/// The same for samples that are numbers, under constraints.
///
///     partition(lengths, bags, capped{}, cost, {.most_per_gpu = 8192});
template <std::ranges::forward_range Samples, partition_policy Policy,
          integer_projection<Samples> CostOf>
  requires integer_projection<std::identity, Samples>
[[nodiscard]] result<partition_plan> partition(Samples&& samples, bag_layout const& bags,
                                               Policy const& policy, CostOf const& cost_of,
                                               partition_constraints const& constraints)
{
  return ballast::partition(std::forward<Samples>(samples), bags, policy, cost_of, std::identity{},
                            constraints);
}

// Calls that cannot compile come here, so that the first error says what is wrong with them.
template <class Samples, class Bags, class Policy, class CostOf, class LengthOf = std::identity,
          class Refused = detail::refused_call<Samples, Bags, Policy, CostOf, LengthOf>>
  requires(!detail::partition_arguments<Samples, Bags, Policy, CostOf, LengthOf>)
Refused partition(Samples&& samples, Bags const& bags, Policy const& policy, CostOf const& cost_of,
                  LengthOf const& length_of = {}, partition_constraints const& constraints = {});

template <class Samples, class Bags, class Policy, class CostOf, class LengthOf = std::identity,
          class Refused = detail::refused_call<Samples, Bags, Policy, CostOf, LengthOf>>
  requires(!detail::partition_arguments<Samples, Bags, Policy, CostOf, LengthOf>)
Refused partition_into(partition_plan& plan, workspace& memory, Samples&& samples, Bags const& bags,
                       Policy const& policy, CostOf const& cost_of, LengthOf const& length_of = {},
                       partition_constraints const& constraints = {});

template <class Samples, class Policy, class CostOf,
          class Refused = detail::refused_call<Samples, bag_layout, Policy, CostOf, std::identity>>
  requires(!detail::partition_arguments<Samples, bag_layout, Policy, CostOf, std::identity>)
Refused partition(Samples&& samples, bag_layout const& bags, Policy const& policy,
                  CostOf const& cost_of, partition_constraints const& constraints);

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PARTITION_HPP
