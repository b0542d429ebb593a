// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

namespace c_interface {
namespace {

result<void> set_up_sharding(ballast_planner& planner, ballast_sharding_options const& options)
{
  auto const machines =
      ballast::cluster_of(options.gpus, options.gpus_per_node == 0 ? 8 : options.gpus_per_node);
  if (!machines) { return tl::unexpected(machines.error()); }
  auto const cost = cost_of(options.cost);
  if (!cost) { return tl::unexpected(cost.error()); }
  if (options.latency < 0) {
    return fail(error_code::out_of_range, 0, "latency is ", options.latency,
                "; give a time that is not negative");
  }
  auto const or_usual = [](std::uint64_t given, double usual) {
    return given != 0 ? given : static_cast<std::uint64_t>(usual);
  };
  std::uint32_t const heads = std::max(cost->shape.heads, std::uint32_t{1});
  std::uint32_t const kv_heads = std::clamp(cost->shape.kv_heads, std::uint32_t{1}, heads);
  if (options.whole_groups != 0 && heads % kv_heads != 0) {
    return fail(error_code::out_of_range, 0, "groups of ", heads, " query heads and ", kv_heads,
                " key-value heads cannot stay whole; make the first a multiple of the second");
  }
  sharding_job& job = planner.sharding.emplace();
  planner.slots.is_planned = false;
  std::size_t const largest = options.largest_degree;
  job.nodes = machines->nodes;
  job.largest_degree = largest;
  job.groups = ballast::device_groups(
      machines->nodes,
      static_cast<std::uint32_t>(largest == 0 ? options.gpus : std::min(largest, options.gpus)));
  job.gpus = first_gpus::of<ballast::group_id>(job.groups);
  job.cost.work = cost->cost;
  job.cost.heads = heads;
  job.cost.kv_heads = kv_heads;
  job.cost.by_rows = options.by_rows != 0;
  job.cost.whole_groups = options.whole_groups != 0;
  job.cost.bytes_per_head = options.bytes_per_head;
  job.cost.within_node_bytes_per_second =
      or_usual(options.within_node_bytes_per_second, machines->within_node_bytes_per_second);
  job.cost.between_nodes_bytes_per_second =
      or_usual(options.between_nodes_bytes_per_second, machines->between_nodes_bytes_per_second);
  if (options.units_per_second != 0) { job.cost.units_per_second = options.units_per_second; }
  job.cost.latency = options.latency;
  return {};
}

result<ballast_sharding> shard_step(ballast_planner& planner, ballast_sharding_step const& step)
{
  if (!planner.sharding) { return not_set_up("ballast_set_up_sharding"); }
  sharding_job& job = *planner.sharding;
  job.is_planned = false;
  auto const lengths = array("lengths", step.lengths, step.samples);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  ballast::tokens const most = step.most_per_gpu == 0 ? ballast::no_limit : step.most_per_gpu;
  if (auto done =
          ballast::hybrid_sharding_into(job.plan, job.memory, *lengths, job.groups, job.cost, most);
      !done) {
    return tl::unexpected(done.error());
  }
  job.is_planned = true;
  ballast::sharding_plan const& plan = job.plan;
  ballast_sharding found{};
  found.samples = plan.owner.size();
  found.groups = job.groups.size();
  found.gpus = job.groups.gpus();
  found.group_first_gpu = job.gpus.first.data();
  found.group_gpus = job.gpus.gpus.data();
  found.owner = integers(plan.owner.data());
  found.first = plan.samples.offsets().data();
  found.sample = integers(plan.samples.values().data());
  found.costs = plan.costs.data();
  found.loads = plan.loads.data();
  found.held = plan.tokens_of.data();
  found.makespan = plan.makespan;
  found.lower_bound = plan.lower_bound;
  found.gap = plan.gap();
  found.digest = plan.digest();
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_set_up_sharding(ballast_planner* planner, ballast_sharding_options const* options)
{
  return c_interface::set_up(planner, options, c_interface::set_up_sharding);
}

int ballast_shard(ballast_planner* planner, ballast_sharding_step const* step,
                  ballast_sharding* sharding)
{
  return c_interface::answer(planner, step, sharding, c_interface::shard_step);
}
