// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PARTITION_HPP
#define BALLAST_PARTITION_PARTITION_HPP

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

  /// How far the plan can be from the best one: makespan / lower_bound - 1; 0 where there is no work.
  [[nodiscard]] double gap() const noexcept
  {
    return makespan == lower_bound ? 0.0 : makespan.value() / lower_bound.value() - 1.0;
  }

  /// One word that differs where any owner, cost or load does: ranks compare it before they send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(std::span(owner))
        .add(std::span(costs))
        .add(std::span(loads))
        .value();
  }
};

namespace detail {

/// The checks that keep bad samples from becoming bad plans, and the work of all of them together.
[[nodiscard]] inline result<cost_units> total_cost(std::span<tokens const> lengths,
                                                   std::span<cost_units const> costs,
                                                   bag_layout const& bags)
{
  if (bags.size() == 0) {
    return fail(error_code::infeasible, 0, "there are no bags to place samples in");
  }
  std::uint32_t const smallest = std::ranges::min(bags.sizes());
  cost_units total = 0;
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    auto const refuse = [&](error_code code, std::string const& why) {
      return fail(code, sample,
                  "sample " + std::to_string(sample) + " of " + std::to_string(lengths[sample]) +
                      " tokens " + why);
    };
    if (lengths[sample] < 0) {
      return refuse(error_code::out_of_range, "has a negative length; correct its length");
    }
    if (!partition_problem::fits(lengths[sample], smallest)) {
      return refuse(error_code::infeasible, "is shorter than the smallest bag, which has " +
                                                std::to_string(smallest) +
                                                " GPUs; add smaller bags or leave the sample out");
    }
    if (costs[sample] < 0) {
      return refuse(error_code::out_of_range, "has a negative cost; correct the cost model");
    }
    if (costs[sample] > cost_overflow - 1 - total) {
      return refuse(error_code::out_of_range,
                    "brings the total cost above 63 bits; use a cost model with a coarser unit");
    }
    total += costs[sample];
  }
  return total;
}

}  // namespace detail

/// Places samples in bags with a policy, and says how good the plan is: the front door of this
/// folder, in the form for a training loop.
///
/// Shapes      samples[n] of any type, n < 2^32; bags: m >= 1.
/// In, out     plan is overwritten, and keeps its memory for the next step.
/// Expects     cost_of(sample) answers what the sample costs, length_of(sample) how many tokens it
///             has; a sample that is a number is its own length.
/// Ensures     (1) those of partition_plan
///             (2) no sample is in a bag with more GPUs than the sample has tokens
///             (3) the plan depends on nothing but the arguments, so every rank finds the same one
///             (4) with a plan and a workspace that have seen a step as large, nothing is allocated
/// Errors      out_of_range: sample `position` has a negative length or cost, or the costs overflow;
///             infeasible: sample `position` is shorter than every bag has GPUs, or there is no bag.
///             The plan is then unspecified.
/// Complexity  O(n) calls of cost_of, a radix sort, the policy, O(n + m log m) for the bound.
template <std::ranges::forward_range Samples, partition_policy Policy, class CostOf,
          class LengthOf = std::identity>
  requires(
      std::convertible_to<
          std::invoke_result_t<CostOf const&, std::ranges::range_reference_t<Samples>>,
          cost_units> &&
      std::convertible_to<
          std::invoke_result_t<LengthOf const&, std::ranges::range_reference_t<Samples>>, tokens>)
[[nodiscard]] result<void> partition_into(partition_plan& plan, workspace& memory,
                                          Samples&& samples, bag_layout const& bags,
                                          Policy const& policy, CostOf const& cost_of,
                                          LengthOf const& length_of = {})
{
  auto const count = static_cast<std::size_t>(std::ranges::distance(samples));
  if (count >= (std::uint64_t{1} << 32)) {
    return fail(error_code::out_of_range, 0, "a step has more than 2^32 - 1 samples; split it");
  }
  auto scratch = memory.open();
  std::span<tokens> const lengths = scratch.take<tokens>(count);
  plan.costs.resize(count);
  std::size_t next = 0;
  for (auto&& sample : samples) {
    lengths[next] = static_cast<tokens>(std::invoke(length_of, sample));
    // A cost model need not answer for a length that is none; total_cost names the sample.
    plan.costs[next] =
        lengths[next] < 0 ? 0 : static_cast<cost_units>(std::invoke(cost_of, sample));
    ++next;
  }
  result<cost_units> const total = detail::total_cost(lengths, plan.costs, bags);
  if (!total) { return tl::unexpected(total.error()); }

  std::span<priced_sample> const heaviest_first = scratch.take<priced_sample>(count);
  descending_order(plan.costs, heaviest_first, memory);
  partition_problem const problem{plan.costs, lengths, heaviest_first, bags.sizes()};
  plan.owner.resize(count);
  plan.loads.assign(bags.size(), 0);
  policy(problem, plan.loads, plan.owner, memory);

  plan.samples.regroup(plan.owner, bags.size());
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
[[nodiscard]] result<partition_plan> partition(Samples&& samples, bag_layout const& bags,
                                               Policy const& policy, CostOf const& cost_of,
                                               LengthOf const& length_of = {})
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
