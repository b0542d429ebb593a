// SPDX-License-Identifier: Apache-2.0
#include "../common/by_name/parse_policy.hpp"
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace c_interface {
namespace {

result<void> set_up_plan(ballast_planner& planner, ballast_plan_options const& options)
{
  auto const policy = by_name::parse_policy(options.policy == nullptr ? "refine" : options.policy);
  if (!policy) { return tl::unexpected(policy.error()); }
  auto const cost = model_of_options(options);
  if (!cost) { return tl::unexpected(cost.error()); }
  auto bags = bags_of(options);
  if (!bags) { return tl::unexpected(bags.error()); }
  plan_job& job = planner.plan.emplace();
  job.policy = *policy;
  job.cost = *cost;
  job.has_model = options.model != nullptr || options.cost != nullptr;
  job.gpus = first_gpus::of<ballast::bag_id>(*bags);
  job.bags = *std::move(bags);
  return {};
}

result<ballast_plan> plan_step(ballast_planner& planner, ballast_plan_step const& step)
{
  if (!planner.plan) { return not_set_up("ballast_set_up_plan"); }
  plan_job& job = *planner.plan;
  job.is_planned = false;
  if (auto priced = price_into(job.samples, job.cost, step.lengths, step.costs, step.samples);
      !priced) {
    return tl::unexpected(priced.error());
  }
  if (step.costs != nullptr && !job.has_model &&
      ballast::batching_of(job.policy) == ballast::batching::attention_padded) {
    return fail(
        error_code::out_of_range, 0,
        "the policy pads attention alone, and costs one by one do not say what of them that "
        "is; name a cost model");
  }
  ballast::placement_limits limits;
  fit_table fits;
  if (auto read = read_limits(limits, fits, step.limits, step.samples, job.bags.size()); !read) {
    return tl::unexpected(read.error());
  }
  if (auto done =
          ballast::partition_into(job.plan, job.memory, job.samples, job.bags, known_cost{job.cost},
                                  &priced_length::length, limits, job.policy);
      !done) {
    return tl::unexpected(done.error());
  }
  job.is_planned = true;
  ballast::partition_plan const& plan = job.plan;
  ballast_plan found{};
  found.samples = plan.owner.size();
  found.bags = job.bags.size();
  found.bag_first_gpu = job.gpus.first.data();
  found.bag_gpus = job.gpus.gpus.data();
  found.owner = integers(plan.owner.data());
  found.first = plan.samples.offsets().data();
  found.sample = integers(plan.samples.values().data());
  found.costs = plan.costs.data();
  found.loads = plan.loads.data();
  found.bags_above_cap = plan.above_cap.size();
  found.above_cap = integers(plan.above_cap.data());
  found.makespan = plan.makespan.value();
  found.lower_bound = plan.lower_bound.value();
  found.gap = plan.gap();
  found.moved = plan.moved.value();
  found.digest = plan.digest();
  found.is_proven = plan.proven_optimal() ? 1 : 0;
  found.short_samples = plan.short_samples;
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_set_up_plan(ballast_planner* planner, ballast_plan_options const* options)
{
  return c_interface::set_up(planner, options, c_interface::set_up_plan);
}

int ballast_partition(ballast_planner* planner, ballast_plan_step const* step, ballast_plan* plan)
{
  return c_interface::answer(planner, step, plan, c_interface::plan_step);
}

int ballast_read_bags(ballast_planner* planner, char const* text, ballast_bags* bags)
{
  return c_interface::write_answer(planner, bags, [&] {
    return ballast::parse_bags(text == nullptr ? "g1n1" : text).map([](auto const& spec) {
      ballast_bags found{};
      found.gpus = spec.gpus();
      found.bags = spec.bags();
      return found;
    });
  });
}
