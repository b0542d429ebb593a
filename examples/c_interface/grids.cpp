// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/placement_limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace c_interface {
namespace {

result<void> set_up_grid(ballast_planner& planner, ballast_grid_options const& options)
{
  auto const cost = model_of_options(options);
  if (!cost) { return tl::unexpected(cost.error()); }
  constexpr std::size_t most_microbatches = std::size_t{1} << 31;
  if (options.least_microbatches != 0 &&
      (options.microbatches != 0 || options.least_microbatches > most_microbatches)) {
    return fail(error_code::out_of_range, 0, "least_microbatches is ", options.least_microbatches,
                " and microbatches ", options.microbatches, "; give one of both, and at most 2^31");
  }
  std::size_t const multiple = std::max<std::size_t>(options.multiple_of, 1);
  std::size_t const least = (options.least_microbatches + multiple - 1) / multiple * multiple;
  auto bags = bags_of(options);
  if (!bags) { return tl::unexpected(bags.error()); }
  grid_job& job = planner.grid.emplace();
  job.cost = *cost;
  job.gpus = first_gpus::of<ballast::bag_id>(*bags);
  job.bags = *std::move(bags);
  job.least_microbatches = least;
  if (options.microbatches != 0) { job.slots.number = options.microbatches; }
  if (options.multiple_of != 0) { job.slots.multiple_of = options.multiple_of; }
  if (options.meets_microbatch != 0) { job.slots.meet = ballast::grid_meeting::microbatch; }
  return {};
}

result<ballast_grid> plan_grid(ballast_planner& planner, ballast_grid_step const& step)
{
  if (!planner.grid) { return not_set_up("ballast_set_up_grid"); }
  grid_job& job = *planner.grid;
  job.is_planned = false;
  if (auto priced = price_into(job.samples, job.cost, step.lengths, step.costs, step.samples);
      !priced) {
    return tl::unexpected(priced.error());
  }
  ballast::microbatches slots = job.slots;
  slots.kinds = optional_array(step.kinds, step.samples);
  ballast::placement_limits limits;
  fit_table fits;
  if (auto read = read_limits(limits, fits, step.limits, step.samples, job.bags.size()); !read) {
    return tl::unexpected(read.error());
  }
  auto const plan = [&] {
    return ballast::partition_grid_into(job.plan, job.memory, job.samples, job.bags, slots,
                                        &priced_length::cost, &priced_length::length, limits);
  };
  auto done = plan();
  if (done && job.plan.microbatches < job.least_microbatches) {
    slots.number = job.least_microbatches;
    done = plan();
  }
  if (!done) { return tl::unexpected(done.error()); }
  job.is_planned = true;
  return grid_of(job.plan, job.gpus);
}

}  // namespace

ballast_grid grid_of(ballast::grid_plan const& plan, first_gpus const& ranks)
{
  ballast_grid found{};
  found.samples = plan.owner.size();
  found.ranks = plan.ranks;
  found.microbatches = plan.microbatches;
  found.fewest_microbatches = plan.fewest_microbatches;
  found.rank_first_gpu = ranks.first.data();
  found.rank_gpus = ranks.gpus.data();
  found.owner = integers(plan.owner.data());
  found.first = plan.samples.offsets().data();
  found.sample = integers(plan.samples.values().data());
  found.costs = plan.costs.data();
  found.loads = plan.loads.data();
  found.filled = plan.filled.data();
  found.cells_above_cap = plan.above_cap.size();
  found.above_cap = integers(plan.above_cap.data());
  found.makespan = plan.makespan.value();
  found.lower_bound = plan.lower_bound.value();
  found.gap = plan.gap();
  found.moved = plan.moved.value();
  found.digest = plan.digest();
  found.used_microbatches = plan.used_microbatches();
  found.empty_cells = plan.empty_cells();
  found.kinds = plan.kinds.empty() ? nullptr : plan.kinds.data();
  found.is_proven = plan.proven_optimal() ? 1 : 0;
  if (!plan.longest.empty()) { found.longest = &plan.longest.data()->source; }
  return found;
}

}  // namespace c_interface

int ballast_set_up_grid(ballast_planner* planner, ballast_grid_options const* options)
{
  return c_interface::set_up(planner, options, c_interface::set_up_grid);
}

int ballast_partition_grid(ballast_planner* planner, ballast_grid_step const* step,
                           ballast_grid* grid)
{
  return c_interface::answer(planner, step, grid, c_interface::plan_grid);
}

char const* ballast_why_microbatches(ballast_planner* planner)
{
  char const* why = nullptr;
  c_interface::guarded(planner, [&]() -> ballast::result<void> {
    if (planner->grid && planner->grid->is_planned) {
      planner->grid->why = planner->grid->plan.why();
      why = planner->grid->why.c_str();
    }
    return {};
  });
  return why;
}
