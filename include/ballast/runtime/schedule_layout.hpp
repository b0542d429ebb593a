// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>

namespace ballast::inline v0 {

namespace detail {

[[nodiscard]] inline model_layout with_whole_backwards(model_layout layout)
{
  layout.schedule = layout_schedule::whole_backwards;
  return layout;
}

}  // namespace detail

/// A scheduler of the steps of a layout: what search_layouts found, with 1F1B, interleaved where it
/// has virtual stages, or another schedule, which keeps no more microbatches than that. Backwards are
/// whole, whatever the layout's schedule. No microbatch
/// holds more tokens of the last module than its GPUs have memory for. `simulated_tasks` is what
/// scheduler_setup has; none: its default.
///
/// Transfers between modules are not in the times by which it orders microbatches; simulate_step
/// has them.
///
/// Shapes      problem.modules[D]. The groups of replicas are those of simulate_layout.
/// Errors      those of price_layout and of stage_graph::make; out_of_range: there are not D
///             modules.
/// Complexity  O(sizes + tasks).
template <std::size_t D, order_policy Order = local_search<>,
          schedule_policy Schedule = interleaved_one_forward_one_backward>
[[nodiscard]] result<microbatch_scheduler<D, layout_times<D>, Order>> schedule_layout(
    layout_problem const& problem, model_layout const& layout, Order order = {},
    Schedule const& policy = {}, std::optional<std::uint64_t> simulated_tasks = {})
{
  if (problem.modules.size() != D) {
    return fail(error_code::out_of_range, 0, "a scheduler of ", detail::counted(D, "module"),
                " was given a problem of ", problem.modules.size());
  }
  layout_problem computed = problem;
  computed.may_leave_gpus = problem.may_leave_gpus || !layout.bags.empty();
  auto const priced = price_layout(computed, detail::span_of(layout.modules), layout.microbatches,
                                   layout.virtual_stages, detail::span_of(layout.kinds));
  if (!priced) { return tl::unexpected(priced.error()); }
  for (gpu_kind& each : computed.kinds) {
    each.bytes_per_second = 0;  // the scheduler knows stages that compute
  }
  layout_pipeline const pipeline(computed, detail::with_whole_backwards(layout));
  std::vector<scheduler_setup::module_spread> modules;
  modules.reserve(D);
  for (std::size_t module = 0; module < D; ++module) {
    modules.push_back(
        {layout.modules[module].dp, pipeline.stage_costs(module), pipeline.time_factors(module)});
  }
  auto schedule = pipeline.schedule(policy);
  if (!schedule) { return tl::unexpected(schedule.error()); }
  scheduler_setup setup{*std::move(schedule), std::move(modules), pipeline.largest_microbatch()};
  setup.simulated_tasks = simulated_tasks.value_or(setup.simulated_tasks);
  return microbatch_scheduler<D, layout_times<D>, Order>::make(
      std::move(setup), layout_times<D>(problem, layout), std::move(order));
}

/// What a scheduled step of a layout takes.
///
/// Units       picoseconds; busy adds up those of all GPUs.
struct simulated_step {
  time_units makespan = 0;
  time_units busy = 0;
};

/// Simulates a scheduled step of a layout. As simulate_layout has it, samples that are packed
/// together pass the weights together, while a scheduler has one price for each.
///
/// Shapes      sizes[samples x D], as they were scheduled.
/// Expects     the step is of schedule_layout's scheduler for this problem, layout and schedule.
/// Errors      those of check_times: a stage takes above 2^53 ps.
/// Complexity  O(sizes + tasks of all pipelines).
template <std::size_t D, schedule_policy Schedule = interleaved_one_forward_one_backward>
[[nodiscard]] result<simulated_step> simulate_step(layout_problem const& problem,
                                                   model_layout const& layout,
                                                   scheduled_step<D> const& step,
                                                   std::span<tokens const> sizes,
                                                   Schedule const& policy = {})
{
  layout_pipeline const pipeline(problem, detail::with_whole_backwards(layout));
  auto const schedule = pipeline.schedule(policy);
  if (!schedule) { return tl::unexpected(schedule.error()); }
  std::vector<microbatch_id> order(layout.microbatches);
  for (std::size_t each = 0; each < order.size(); ++each) {
    order[each] = to_id<microbatch_id>(each);
  }
  std::vector<pipeline_times> of_groups;
  for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
    of_groups.push_back(pipeline.times_of(
        sizes, [&](std::size_t module, std::uint32_t replica, std::uint32_t microbatch) {
          std::size_t const of_group = step.replicas[module] / step.pipelines();
          return step.microbatch(module, group * of_group + replica, microbatch);
        }));
  }
  pipeline.wait_for_gathers(of_groups);
  pipeline_timeline timeline;
  simulated_step simulated;
  for (pipeline_times const& times : of_groups) {
    if (auto checked = check_times(times, *schedule); !checked) {
      return tl::unexpected(checked.error());
    }
    simulate_into(timeline, *schedule, times, detail::span_of(order));
    simulated.makespan = std::max(simulated.makespan, pipeline.end_of(*schedule, timeline));
    std::size_t transfers = 0;  // which are none of step.stages
    for (std::size_t rank = 0; rank < timeline.busy.size(); ++rank) {
      stage_id const first = schedule->stages().stages_on(to_id<pipeline_rank>(rank)).front();
      if (schedule->stages()[first].part == model_part::transfer) {
        ++transfers;
        continue;
      }
      auto const& own = step.stages[to_index(first) - transfers];
      simulated.busy += timeline.busy[rank] * layout.replica(own.module, own.replica).group();
    }
  }
  return simulated;
}

/// What search_layouts asks as its options.step: how long a batch takes with a layout when
/// schedule_layout's scheduler has dealt and ordered it. It is asked about many, so it simulates fewer
/// tasks for each than a scheduler that runs.
///
/// Expects     the problem outlives what is returned.
/// Ensures     (1) plans are those of step 0 with seed 0
/// Errors      of what is returned: those of schedule_layout, of its scheduler and of simulate_step.
///
///     auto const found = search_layouts(problem, batches, {.step = scheduled_steps<2>(problem)});
template <std::size_t D, order_policy Order = local_search<>,
          schedule_policy Schedule = interleaved_one_forward_one_backward>
[[nodiscard]] auto scheduled_steps(layout_problem const& problem, Order order = {},
                                   Schedule policy = {}, std::uint64_t simulated_tasks = 500'000)
{
  return [&problem, order = std::move(order), policy = std::move(policy), simulated_tasks](
             model_layout const& layout, std::span<tokens const> batch) -> result<time_units> {
    auto scheduler = schedule_layout<D>(problem, layout, order, policy, simulated_tasks);
    if (!scheduler) { return tl::unexpected(scheduler.error()); }
    scheduled_step<D> step;
    if (auto planned = (*scheduler)(step, batch, 0, 0, {}); !planned) {
      return tl::unexpected(planned.error());
    }
    auto const simulated = simulate_step<D>(problem, layout, step, batch, policy);
    if (!simulated) { return tl::unexpected(simulated.error()); }
    return simulated->makespan;
  };
}

}  // namespace ballast::inline v0
