// SPDX-License-Identifier: Apache-2.0
#include "../common/fit_table.hpp"
#include "planner.hpp"

#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/placement_limits.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace c_interface {
namespace {

using counts = ballast::counts::rule;

result<void> set_up_grid(ballast_planner& planner, ballast_grid_options const& options)
{
  auto const cost = model_of_options(options);
  if (!cost) { return tl::unexpected(cost.error()); }
  constexpr std::array rules{counts::any, counts::at_most, counts::equal, counts::multiple_of,
                             counts::filled};
  if (options.counts >= rules.size()) {
    return fail(error_code::out_of_range, 0, "counts is ", options.counts,
                "; give one of ballast_cell_counts");
  }
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
  // A cap that nothing reaches, so that weights are what the plan says of cells.
  job.room.most_per_gpu = options.most_weight != 0 ? options.most_weight : ballast::no_limit - 1;
  if (options.weight_multiple != 0) { job.room.rounded_to = options.weight_multiple; }
  job.counts.kind = rules[options.counts];
  bool const is_numbered =
      job.counts.kind == counts::at_most || job.counts.kind == counts::multiple_of;
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (is_numbered) { job.counts.number = static_cast<std::int64_t>(std::min(options.count, most)); }
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
  ballast::cap room = job.room;
  room.of = optional_array(step.weights, step.samples);
  if (step.most_weights != nullptr) {
    room.most_per_gpu = ballast::no_limit;
    room.most = {step.most_weights, job.bags.size()};
  }
  room.is_soft = step.cap_is_soft != 0;
  ballast::placement_limits limits;
  limits.also = {room};
  if (auto read = add_caps(limits.also, step, job.bags.size()); !read) {
    return tl::unexpected(read.error());
  }
  limits.samples = job.counts;
  limits.together = optional_array(step.together, step.samples);
  limits.apart = optional_array(step.apart, step.samples);
  limits.home = optional_ranks(step.home, step.samples);
  limits.starting_loads = optional_array(step.starting_loads, job.bags.size());
  fit_table const fits{step.fits, job.bags.size()};
  if (step.fits != nullptr) { limits.fits = fits; }
  if (auto read = read_then(limits, step); !read) { return tl::unexpected(read.error()); }
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
