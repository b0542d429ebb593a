// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/sharding/plan_slots.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace c_interface {
namespace {

/// What does not fit 32 bits limits nothing.
std::uint32_t at_most_32_bits(std::size_t given)
{
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(given == 0 ? most : std::min(given, most));
}

result<void> plan_into(slots_job& job, sharding_job const& machines, ballast_slots_step const& step)
{
  auto const lengths = array("lengths", step.lengths, step.samples);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  auto const sizes = array("size", step.size, step.sizes);
  if (!sizes) { return tl::unexpected(sizes.error()); }
  ballast::slot_groups rules;
  rules.sizes = *sizes;
  rules.powers_of_two = step.powers_of_two != 0;
  rules.largest = at_most_32_bits(machines.largest_degree);
  rules.aligned = step.aligned != 0;
  if (step.most_per_gpu != 0) { rules.most_per_gpu = step.most_per_gpu; }
  rules.is_soft = step.is_soft != 0;
  auto const counts = counts_of(step.counts);
  if (!counts) { return tl::unexpected(counts.error()); }
  rules.samples = *counts;
  if (step.slots != 0) { rules.number = step.slots; }
  if (step.multiple_of != 0) { rules.multiple_of = step.multiple_of; }
  if (step.meets_step != 0) { rules.meet = ballast::grid_meeting::step; }
  if (step.work != 0) { rules.work = step.work; }
  return ballast::plan_slots_into(job.plan, job.memory, *lengths, machines.nodes, machines.cost,
                                  rules);
}

result<ballast_slots> slots_step(ballast_planner& planner, ballast_slots_step const& step)
{
  if (!planner.sharding) { return not_set_up("ballast_set_up_sharding"); }
  slots_job& job = planner.slots;
  job.is_planned = false;
  if (auto done = plan_into(job, *planner.sharding, step); !done) {
    return tl::unexpected(done.error());
  }
  job.is_planned = true;
  ballast::slots_plan const& plan = job.plan;
  job.gpus.first.clear();
  job.gpus.gpus.clear();
  job.loads.clear();
  job.held.clear();
  for (auto const& each : plan.groups) {
    job.gpus.first.push_back(static_cast<std::uint32_t>(to_index(each.ranks.first)));
    job.gpus.gpus.push_back(each.ranks.gpus);
    job.loads.push_back(each.load);
    job.held.push_back(each.held);
  }
  ballast_slots found{};
  found.samples = plan.owner.size();
  found.ranks = plan.ranks;
  found.slots = plan.slots;
  found.fewest_slots = plan.fewest_slots;
  found.groups = plan.groups.size();
  found.first_group = plan.first_group.data();
  found.group_first_gpu = job.gpus.first.data();
  found.group_gpus = job.gpus.gpus.data();
  found.owner = integers(plan.owner.data());
  found.first = plan.samples.offsets().data();
  found.sample = integers(plan.samples.values().data());
  found.first_end = plan.cu_seqlens.offsets().data();
  found.ends = plan.cu_seqlens.values().data();
  found.loads = job.loads.data();
  found.held = job.held.data();
  found.groups_above_cap = plan.above_cap.size();
  found.above_cap = integers(plan.above_cap.data());
  found.makespan = plan.makespan;
  found.lower_bound = plan.lower_bound;
  found.gap = plan.gap();
  found.loss_weight = plan.loss_weight();
  found.digest = plan.digest();
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_plan_slots(ballast_planner* planner, ballast_slots_step const* step,
                       ballast_slots* slots)
{
  return c_interface::answer(planner, step, slots, c_interface::slots_step);
}
