// SPDX-License-Identifier: Apache-2.0
#include "../common/by_name/parse_order_policy.hpp"
#include "../common/by_name/parse_schedule.hpp"
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/pipeline_files.hpp>
#include <ballast/pipeline/plan_schedule.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace c_interface {
namespace {

/// How many tasks all schedules of these stages have.
std::size_t tasks_of(ballast::stage_graph const& stages, std::size_t microbatches)
{
  std::size_t passes = 0;
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    passes += stages[ballast::to_id<ballast::stage_id>(stage)].weights ? 3U : 2U;
  }
  return passes * microbatches;
}

/// The tasks that the caller wrote down, rank by rank. None is read before all numbers are right.
result<ballast::pipeline_schedule> own_schedule(ballast_order_options const& options,
                                                ballast::stage_graph const& stages)
{
  std::size_t const ranks = stages.ranks();
  std::span<std::size_t const> const first(options.first_task, ranks + 1);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (first.front() != 0 || first[rank + 1] < first[rank]) {
      return fail(error_code::out_of_range, rank, "tasks of rank ", rank, " are from ", first[rank],
                  " to ", first[rank + 1],
                  "; give a first_task that begins with 0 and does not decrease");
    }
  }
  std::size_t const each = tasks_of(stages, 1);
  if (first.back() % each != 0 || first.back() / each != options.microbatches) {
    return fail(error_code::out_of_range, ranks, "first_task ends with ", first.back(),
                " tasks; give ", each, " for each of ", options.microbatches, " microbatches on ",
                options.stages, " stages");
  }
  auto const given = array("tasks", options.tasks, first.back());
  if (!given) { return tl::unexpected(given.error()); }
  ballast::pipeline_schedule schedule;
  schedule.microbatches = options.microbatches;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<ballast::pipeline_task>& tasks = schedule.ranks.emplace_back();
    for (auto const& [position, stage, direction] :
         given->subspan(first[rank], first[rank + 1] - first[rank])) {
      if (direction > 2) {
        return fail(error_code::out_of_range, rank, "a task of rank ", rank, " has pass ",
                    direction, "; give 0, 1 or 2");
      }
      tasks.push_back({position, ballast::to_id<ballast::stage_id>(stage),
                       static_cast<ballast::pass>(direction)});
    }
  }
  return schedule;
}

bool is_planned(ballast_order_options const& options)
{
  return options.schedule != nullptr && std::string_view(options.schedule) == "planned";
}

/// A schedule whose stages split their backwards, and whether it is one of a V.
struct split_schedule {
  std::string_view name;
  bool in_v;
  result<ballast::pipeline_schedule> (*write)(ballast::stage_graph const&, std::size_t);
};

template <class Rule, auto... Settings>
result<ballast::pipeline_schedule> write_split(ballast::stage_graph const& stages,
                                               std::size_t microbatches)
{
  return Rule{Settings...}(stages, microbatches);
}

constexpr std::array split_schedules{
    split_schedule{"zero_bubble", false, write_split<ballast::zero_bubble>},
    split_schedule{"zero_bubble:memory=2", false, write_split<ballast::zero_bubble, true>},
    split_schedule{"zero_bubble_v", true, write_split<ballast::zero_bubble_v>},
    split_schedule{"dual_pipe_v", true, write_split<ballast::dual_pipe_v>},
};

split_schedule const* split_schedule_of(ballast_order_options const& options)
{
  if (options.schedule == nullptr || options.text != nullptr || options.first_task != nullptr) {
    return nullptr;
  }
  auto const* const found =
      std::find_if(split_schedules.begin(), split_schedules.end(),
                   [&](split_schedule const& each) { return each.name == options.schedule; });
  return found == split_schedules.end() ? nullptr : found;
}

/// Stages one after the other: in turn on the ranks, or up the ranks and down again.
ballast::stage_graph stages_of(ballast_order_options const& options, std::size_t ranks, bool in_v,
                               bool all_split)
{
  auto const whole = ballast::chain_of_stages(options.stages, ranks, options.transfer);
  std::vector<ballast::pipeline_stage> stages;
  stages.reserve(options.stages);
  for (std::size_t stage = 0; stage < options.stages; ++stage) {
    stages.push_back(whole[ballast::to_id<ballast::stage_id>(stage)]);
    stages.back().weights = options.split != nullptr ? options.split[stage] != 0 : all_split;
    if (in_v && stage >= ranks) {
      stages.back().rank = ballast::to_id<ballast::pipeline_rank>(2 * ranks - 1 - stage);
    }
  }
  std::vector<ballast::stage_link> links(whole.links().begin(), whole.links().end());
  if (in_v) { links[ranks - 1].transfer = 0; }
  return {std::move(stages), std::move(links)};
}

result<ballast::compiled_schedule> schedule_of(ballast_order_options const& options)
{
  split_schedule const* const split = split_schedule_of(options);
  bool const in_v = options.in_v != 0 || (split != nullptr && split->in_v);
  std::size_t ranks = options.ranks == 0 ? options.stages : options.ranks;
  bool const is_named = options.text == nullptr && options.first_task == nullptr;
  if (in_v && options.text == nullptr) {
    if (options.stages % 2 != 0 || (options.ranks != 0 && options.ranks != options.stages / 2)) {
      return fail(error_code::out_of_range, 0, "a V has two stages on each rank, and there are ",
                  options.stages, " stages and ", options.ranks,
                  " ranks; give twice as many stages as ranks");
    }
    ranks = options.stages / 2;
  }
  if (options.ranks == 0 && options.schedule != nullptr && is_named && !is_planned(options) &&
      split == nullptr && !in_v) {
    auto const schedule = by_name::parse_schedule(options.schedule);
    if (!schedule) { return tl::unexpected(schedule.error()); }
    if (options.stages % schedule->virtual_stages != 0) {
      return fail(error_code::out_of_range, 0, "schedule '", options.schedule,
                  "' gives every rank ", schedule->virtual_stages, " virtual stages, and ",
                  options.stages, " stages are no multiple of that; choose a v that divides");
    }
    ranks = options.stages / schedule->virtual_stages;
  }
  if (options.stages == 0 || options.stages > ballast::stage_graph::most_stages ||
      ranks > options.stages || options.transfer < 0 ||
      options.transfer > ballast::stage_graph::longest_time) {
    return fail(error_code::out_of_range, 0, "a pipeline cannot have ", options.stages,
                " stages on ", ranks, " ranks with a transfer of ", options.transfer,
                "; give from 1 to 65536 stages, at most as many ranks, and a time from 0 to 2^53");
  }
  if (options.text != nullptr) {
    auto written = ballast::read_schedule(options.text, options.transfer);
    if (!written) { return tl::unexpected(written.error()); }
    ballast::compiled_schedule& own = written->schedule;
    if (options.ranks != 0 && own.stages().ranks() != options.ranks) {
      return fail(error_code::out_of_range, 0, "the text has a schedule of ", own.stages().ranks(),
                  " ranks, and the options say ", options.ranks, "; make them agree");
    }
    if (own.stages().stages() == options.stages && own.microbatches() == options.microbatches) {
      return std::move(own);
    }
    return fail(error_code::out_of_range, 0, "the text has a schedule of ", own.microbatches(),
                " microbatches on ", own.stages().stages(), " stages, and the options say ",
                options.microbatches, " on ", options.stages, "; make them agree");
  }
  ballast::stage_graph const stages = stages_of(options, ranks, in_v, split != nullptr);
  if (options.first_task != nullptr) {
    return own_schedule(options, stages).and_then([&](ballast::pipeline_schedule const& schedule) {
      return ballast::compiled_schedule::make(stages, schedule);
    });
  }
  if (split != nullptr) {
    return ballast::compiled_schedule::make(stages, split->write, options.microbatches);
  }
  if (is_planned(options) && in_v) {
    return ballast::compiled_schedule::make(stages, ballast::zero_bubble_v{}, options.microbatches);
  }
  if (is_planned(options)) {  // what is planned does not exist yet
    return ballast::compiled_schedule::make(stages, ballast::interleaved_one_forward_one_backward{},
                                            options.microbatches);
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
  ballast::pipeline_memory held;
  auto const most = optional_array(options.most, schedule->stages().ranks());
  held.most.assign(most.begin(), most.end());
  bool const has_tasks = options.text != nullptr || options.first_task != nullptr;
  bool const plans = is_planned(options) && !has_tasks;
  planner.order.emplace(order_job{
      *std::move(schedule), *policy, ballast::pipeline_times(options.microbatches, options.stages),
      std::move(held), plans, plans || options.text != nullptr || options.writes_cells != 0});
  return {};
}

/// The bytes that a step says.
result<void> read_held(std::vector<ballast::held_bytes>& held, ballast_order_step const& step,
                       std::size_t rows)
{
  held.assign(rows, {1, 1});
  std::uint64_t all = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    if (step.held != nullptr) { held[row] = {step.held[row], step.held[row]}; }
    if (step.held_for_weights != nullptr) { held[row].for_weights = step.held_for_weights[row]; }
    constexpr std::uint64_t most = std::uint64_t{1} << 62;
    if (held[row].for_weights > held[row].held || held[row].held > most - all) {
      return fail(error_code::out_of_range, row, "held ", row, " is ", held[row].held,
                  " bytes, of which ", held[row].for_weights,
                  " for weights; give at most as many, and 2^62 in all");
    }
    all += held[row].held;
  }
  return {};
}

/// Plans tasks and order; the schedule that they are of.
result<ballast::compiled_schedule> plan_tasks(order_job& job)
{
  auto const planned = ballast::plan_schedule(job.schedule.stages(), job.times, job.held);
  if (!planned) { return tl::unexpected(planned.error()); }
  job.plan.order = planned->order;
  std::ranges::sort(job.plan.order);
  job.plan.makespan_given = ballast::simulate(job.schedule, job.times, job.plan.order).makespan;
  job.plan.order = planned->order;
  job.plan.makespan = planned->makespan;
  job.plan.lower_bound = planned->lower_bound;
  return ballast::compiled_schedule::make(job.schedule.stages(), planned->schedule);
}

/// Keeps the tasks of a schedule until the next step.
result<void> keep_tasks(order_job& job, ballast::compiled_schedule const& schedule)
{
  job.first_task.assign(1, 0);
  job.tasks.clear();
  for (std::size_t rank = 0; rank < schedule.stages().ranks(); ++rank) {
    for (std::uint32_t const task :
         schedule.tasks_on(ballast::to_id<ballast::pipeline_rank>(rank))) {
      auto const& [position, stage, direction] = schedule.tasks()[task];
      job.tasks.push_back({position, static_cast<std::uint32_t>(to_index(stage)),
                           static_cast<std::uint32_t>(direction)});
    }
    job.first_task.push_back(job.tasks.size());
  }
  if (!job.has_cells) { return {}; }
  auto cells = ballast::schedule_cells(schedule, job.plan.order);
  if (!cells) { return tl::unexpected(cells.error()); }
  job.cells = *std::move(cells);
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
  auto const weights = optional_array(step.weights, rows.size());
  job.times.weights.assign(weights.begin(), weights.end());
  if (auto const sound = ballast::check_times(job.times, job.schedule); !sound) {
    return tl::unexpected(sound.error());
  }
  job.times = ballast::whole_backwards(std::move(job.times), job.schedule.stages());
  if (auto const sound = read_held(job.held.held, step, rows.size()); !sound) {
    return tl::unexpected(sound.error());
  }
  std::optional<ballast::compiled_schedule> planned;
  if (job.is_planned) {
    auto schedule = plan_tasks(job);
    if (!schedule) { return tl::unexpected(schedule.error()); }
    planned = *std::move(schedule);
  } else if (auto done = ballast::order_microbatches_into(job.plan, job.memory, job.schedule,
                                                          job.times, job.policy);
             !done) {
    return tl::unexpected(done.error());
  }
  ballast::compiled_schedule const& schedule = planned ? *planned : job.schedule;
  if (auto const fits = ballast::check_memory(schedule, job.plan.order, job.held); !fits) {
    return tl::unexpected(fits.error());
  }
  if (auto const kept = keep_tasks(job, schedule); !kept) { return tl::unexpected(kept.error()); }
  ballast_order found{};
  found.microbatches = job.plan.order.size();
  found.order = integers(job.plan.order.data());
  found.makespan = job.plan.makespan;
  found.makespan_given = job.plan.makespan_given;
  found.lower_bound = job.plan.lower_bound;
  found.gap = job.plan.gap();
  found.digest = job.plan.digest();
  found.ranks = job.first_task.size() - 1;
  found.first_task = job.first_task.data();
  found.tasks = job.tasks.data();
  found.cells = job.has_cells ? job.cells.c_str() : nullptr;
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
