// SPDX-License-Identifier: Apache-2.0
#include "../common/by_name/parse_order_policy.hpp"
#include "../common/by_name/parse_schedule.hpp"
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace c_interface {
namespace {

/// The tasks that the caller wrote down, rank by rank. None is read before all numbers are right.
result<ballast::pipeline_schedule> own_schedule(ballast_order_options const& options,
                                                std::size_t ranks)
{
  std::span<std::size_t const> const first(options.first_task, ranks + 1);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (first.front() != 0 || first[rank + 1] < first[rank]) {
      return fail(error_code::out_of_range, rank, "tasks of rank ", rank, " are from ", first[rank],
                  " to ", first[rank + 1],
                  "; give a first_task that begins with 0 and does not decrease");
    }
  }
  std::size_t const both_passes = 2 * options.stages;
  if (first.back() % both_passes != 0 || first.back() / both_passes != options.microbatches) {
    return fail(error_code::out_of_range, ranks, "first_task ends with ", first.back(),
                " tasks; give two for each of ", options.microbatches, " microbatches on ",
                options.stages, " stages");
  }
  auto const given = array("tasks", options.tasks, first.back());
  if (!given) { return tl::unexpected(given.error()); }
  ballast::pipeline_schedule schedule;
  schedule.microbatches = options.microbatches;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<ballast::pipeline_task>& tasks = schedule.ranks.emplace_back();
    for (auto const& [position, stage, is_backward] :
         given->subspan(first[rank], first[rank + 1] - first[rank])) {
      tasks.push_back({position, ballast::to_id<ballast::stage_id>(stage),
                       is_backward != 0 ? ballast::pass::backward : ballast::pass::forward});
    }
  }
  return schedule;
}

result<ballast::compiled_schedule> schedule_of(ballast_order_options const& options)
{
  std::size_t const ranks = options.ranks == 0 ? options.stages : options.ranks;
  if (options.stages == 0 || options.stages > ballast::stage_graph::most_stages ||
      ranks > options.stages || options.transfer < 0 ||
      options.transfer > ballast::stage_graph::longest_time) {
    return fail(error_code::out_of_range, 0, "a pipeline cannot have ", options.stages,
                " stages on ", ranks, " ranks with a transfer of ", options.transfer,
                "; give from 1 to 65536 stages, at most as many ranks, and a time from 0 to 2^53");
  }
  auto const stages = ballast::chain_of_stages(options.stages, ranks, options.transfer);
  if (options.first_task != nullptr) {
    return own_schedule(options, ranks).and_then([&](ballast::pipeline_schedule const& schedule) {
      return ballast::compiled_schedule::make(stages, schedule);
    });
  }
  auto const schedule =
      by_name::parse_schedule(options.schedule == nullptr ? "1f1b" : options.schedule);
  if (!schedule) { return tl::unexpected(schedule.error()); }
  return ballast::compiled_schedule::make(stages, *schedule, options.microbatches);
}

result<void> set_up_order(ballast_planner& planner, ballast_order_options const& options)
{
  auto const policy =
      by_name::parse_order_policy(options.policy == nullptr ? "search" : options.policy);
  if (!policy) { return tl::unexpected(policy.error()); }
  auto schedule = schedule_of(options);
  if (!schedule) { return tl::unexpected(schedule.error()); }
  planner.order.emplace(order_job{*std::move(schedule), *policy,
                                  ballast::pipeline_times(options.microbatches, options.stages)});
  return {};
}

result<ballast_order> order_step(ballast_planner& planner, ballast_order_step const& step)
{
  if (!planner.order) { return not_set_up("ballast_set_up_order"); }
  order_job& job = *planner.order;
  auto& rows = job.times.rows;
  auto const forward = array("forward", step.forward, rows.size());
  if (!forward) { return tl::unexpected(forward.error()); }
  auto const backward = array("backward", step.backward, rows.size());
  if (!backward) { return tl::unexpected(backward.error()); }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row] = {(*forward)[row], (*backward)[row]};
  }
  if (auto done = ballast::order_microbatches_into(job.plan, job.memory, job.schedule, job.times,
                                                   job.policy);
      !done) {
    return tl::unexpected(done.error());
  }
  ballast_order found{};
  found.microbatches = job.plan.order.size();
  found.order = integers(job.plan.order.data());
  found.makespan = job.plan.makespan;
  found.makespan_given = job.plan.makespan_given;
  found.lower_bound = job.plan.lower_bound;
  found.gap = job.plan.gap();
  found.digest = job.plan.digest();
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_set_up_order(ballast_planner* planner, ballast_order_options const* options)
{
  return c_interface::set_up(planner, options, c_interface::set_up_order);
}

int ballast_order_microbatches(ballast_planner* planner, ballast_order_step const* step,
                               ballast_order* order)
{
  return c_interface::answer(planner, step, order, c_interface::order_step);
}
