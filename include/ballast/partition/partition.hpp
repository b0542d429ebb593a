// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PARTITION_HPP
#define BALLAST_PARTITION_PARTITION_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/descending_order.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/groups.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/lower_bound.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// Who computes what, and how good that is.
///
/// Shapes      owner[n], costs[n], loads[m], samples: m groups.
/// Units       costs and loads in the cost model's unit; makespan and bound in that unit per GPU.
/// Ensures     (1) sample i belongs to bag owner[i], and to samples[owner[i]] only
///             (2) loads[b] is the sum of the costs of samples[b]
///             (3) makespan is the largest load per GPU, exactly
///             (4) no plan has a makespan below lower_bound, so this one is at most gap() above the
///                 optimum
struct partition_plan {
  std::vector<bag_id> owner;
  std::vector<cost_units> costs;
  std::vector<cost_units> loads;
  groups<bag_id, sample_id> samples;
  ratio makespan;
  ratio lower_bound;
  std::uint64_t bags_digest = 0;  ///< of the layout that the plan is for

  /// How far the plan can be from the best one: makespan / lower_bound - 1; 0 where there is no
  /// work.
  [[nodiscard]] double gap() const noexcept
  {
    if (makespan == lower_bound) { return 0.0; }
    return std::max(makespan.value() / lower_bound.value() - 1.0, 0.0);  // quotients are rounded
  }

  /// One word that differs where any bag, owner, cost or load does: ranks compare it before they
  /// send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(bags_digest)
        .add(std::span(owner))
        .add(std::span(costs))
        .add(std::span(loads))
        .value();
  }
};

namespace detail {

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

/// What a policy has to have done: a policy that is wrong ends the program here, since a plan made
/// of its answers would pass for a certified one.
inline void check_policy(partition_problem const& problem, std::span<bag_id const> owner,
                         std::span<cost_units const> loads, workspace& memory)
{
  auto scratch = memory.open();
  std::span<cost_units> const recomputed = scratch.take<cost_units>(loads.size());
  std::ranges::fill(recomputed, 0);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const bag = to_index(owner[sample]);
    BALLAST_EXPECTS(bag < loads.size());  // the policy gave every sample a bag
    BALLAST_EXPECTS(partition_problem::fits(problem.lengths[sample], problem.gpus[bag]));
    recomputed[bag] += problem.costs[sample];
  }
  BALLAST_EXPECTS(std::ranges::equal(loads, recomputed));  // the policy added up what it placed
}

}  // namespace detail

/// Places samples in bags with a policy, and says how good the plan is: the front door of this
/// folder, in the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; bags: m >= 1.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     cost_of(sample) answers what the sample costs, length_of(sample) how many tokens it
///             has that a bag would split: of several modalities that are split, the fewest that
///             are not zero. Both answer integers. A sample that is a number is its own length. The
///             policy does what partition_policy says of it.
/// Ensures     (1) those of partition_plan
///             (2) no sample is in a bag with more GPUs than the sample has tokens
///             (3) the plan depends on nothing but the arguments, so every rank finds the same one
///             (4) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      out_of_range: sample `position` has a length outside [0, longest_sample], a negative
///             cost or none, or the costs overflow; infeasible: sample `position` is shorter than
///             every bag has GPUs, or there is no bag. The plan is then unspecified.
/// Complexity  O(n) calls of cost_of, a radix sort, the policy, O((n + m) log m) for the bound.
template <std::ranges::forward_range Samples, partition_policy Policy, class CostOf,
          class LengthOf = std::identity>
  requires(std::integral<std::remove_cvref_t<
               std::invoke_result_t<CostOf const&, std::ranges::range_reference_t<Samples>>>> &&
           std::integral<std::remove_cvref_t<
               std::invoke_result_t<LengthOf const&, std::ranges::range_reference_t<Samples>>>>)
[[nodiscard]] result<void> partition_into(partition_plan& plan, workspace& memory,
                                          Samples&& samples, bag_layout const& bags,
                                          Policy const& policy, CostOf const& cost_of,
                                          LengthOf const& length_of = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (count >= (std::uint64_t{1} << 32)) {
    return fail(error_code::out_of_range, 0, "a step has more than 2^32 - 1 samples; split it");
  }
  if (bags.size() == 0) {
    return fail(error_code::infeasible, 0, "there are no bags to place samples in; lay out some");
  }
  std::uint32_t const smallest_bag = std::ranges::min(bags.sizes());

  auto scratch = memory.open();
  std::span<tokens> const lengths = scratch.take<tokens>(count);
  plan.costs.resize(count);
  cost_units total = 0;
  std::size_t next = 0;
  for (auto&& sample : samples) {
    auto const length = static_cast<tokens>(std::invoke(length_of, sample));
    // A cost model of the user's own need not answer for a length that is none.
    bool const priced = length >= 0 && length <= longest_sample;
    auto const cost = priced ? static_cast<cost_units>(std::invoke(cost_of, sample)) : no_cost;
    if (auto checked = detail::check_sample(next, length, cost, total, smallest_bag); !checked) {
      return checked;
    }
    lengths[next] = length;
    plan.costs[next] = cost;
    total += cost;
    ++next;
  }

  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(count);
  descending_order(plan.costs, heaviest_first, memory);
  partition_problem const problem{plan.costs, lengths, heaviest_first, bags.sizes()};
  plan.owner.assign(count, to_id<bag_id>(bags.size()));  // none, until the policy says so
  plan.loads.assign(bags.size(), 0);
  policy(problem, plan.loads, plan.owner, memory);
  detail::check_policy(problem, plan.owner, plan.loads, memory);

  plan.samples.regroup(plan.owner, bags.size());
  plan.bags_digest = bags.digest();
  plan.lower_bound = makespan_lower_bound(problem, memory);
  plan.makespan = {};
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    plan.makespan = std::max(plan.makespan, ratio{plan.loads[bag], bags.sizes()[bag]});
  }
  return {};
}

/// The same, once: returns a new plan.
///
///     auto const plan = partition(lengths, one_gpu_bags(8), longest_processing_time{}, cost);
template <std::ranges::forward_range Samples, partition_policy Policy, class CostOf,
          class LengthOf = std::identity>
[[nodiscard]] auto partition(Samples&& samples, bag_layout const& bags, Policy const& policy,
                             CostOf const& cost_of, LengthOf const& length_of = {})
    -> result<partition_plan>
  requires requires(partition_plan& plan, workspace& memory) {
    ballast::partition_into(plan, memory, samples, bags, policy, cost_of, length_of);
  }
{
  partition_plan plan;
  workspace memory;
  result<void> const done = ballast::partition_into(plan, memory, std::forward<Samples>(samples),
                                                    bags, policy, cost_of, length_of);
  if (!done) { return tl::unexpected(done.error()); }
  return plan;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PARTITION_HPP
