// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/grid/refine_grid.hpp>
#include <ballast/partition/placement_limits.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace c_interface {
namespace {

result<void> set_up_grid(ballast_planner& planner, ballast_grid_options const& options)
{
  auto const cost = cost_of(options.cost);
  if (!cost) { return tl::unexpected(cost.error()); }
  constexpr std::size_t rules = 4;
  if (options.counts >= rules || options.count > std::numeric_limits<std::uint32_t>::max()) {
    return fail(error_code::out_of_range, 0, "counts is ", options.counts, " and count ",
                options.count, "; give one of ballast_cell_counts, and a number below 2^32");
  }
  grid_job& job = planner.grid.emplace();
  job.ranks = options.ranks;
  job.cost = cost->cost;
  if (options.microbatches != 0) { job.options.microbatches = options.microbatches; }
  if (options.multiple_of != 0) { job.options.multiple_of = options.multiple_of; }
  if (options.most_weight != 0) { job.options.most_weight = options.most_weight; }
  if (options.weight_multiple != 0) { job.options.weight_multiple = options.weight_multiple; }
  job.options.counts = {static_cast<ballast::cell_counts::rule>(options.counts),
                        static_cast<std::uint32_t>(options.count)};
  if (options.meets_microbatch != 0) { job.options.meet = ballast::grid_meeting::microbatch; }
  job.options.fill_cells = options.fills_cells != 0;
  return {};
}

result<ballast_grid> plan_grid(ballast_planner& planner, ballast_grid_step const& step)
{
  if (!planner.grid) { return not_set_up("ballast_set_up_grid"); }
  grid_job& job = *planner.grid;
  if (auto priced = price_into(job.samples, job.cost, step.lengths, step.costs, step.samples);
      !priced) {
    return tl::unexpected(priced.error());
  }
  ballast::grid_options options = job.options;
  if (step.most_weights != nullptr) {
    options.most_weight = ballast::no_limit;
    options.most_weights = {step.most_weights, job.ranks};
  }
  options.together = optional_array(step.together, step.samples);
  options.kinds = optional_array(step.kinds, step.samples);
  options.home = optional_ranks(step.home, step.samples);
  for (std::size_t sample = 0; step.weights != nullptr && sample < step.samples; ++sample) {
    job.samples[sample].length = step.weights[sample];
  }
  if (auto done = ballast::partition_grid_into(job.plan, job.memory, job.samples, job.ranks,
                                               options, ballast::refine_grid{},
                                               &priced_length::cost, &priced_length::length);
      !done) {
    return tl::unexpected(done.error());
  }
  ballast::grid_plan const& plan = job.plan;
  ballast_grid found{};
  found.samples = plan.owner.size();
  found.ranks = plan.ranks;
  found.microbatches = plan.microbatches;
  found.fewest_microbatches = plan.fewest_microbatches;
  found.owner = integers(plan.owner.data());
  found.first = plan.samples.offsets().data();
  found.sample = integers(plan.samples.values().data());
  found.costs = plan.costs.data();
  found.loads = plan.loads.data();
  found.filled = plan.filled.data();
  found.makespan = plan.makespan;
  found.lower_bound = plan.lower_bound;
  found.gap = plan.gap();
  found.moved = plan.moved.value();
  found.digest = plan.digest();
  return found;
}

}  // namespace
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
