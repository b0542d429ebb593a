// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/place_experts.hpp>
#include <ballast/parallelism/share_experts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace c_interface {
namespace {

/// The rows that the caller has, as two arrays. No value is read before all numbers are right.
template <class Key, class Id>
result<ballast::jagged<Key, Id>> rows_of(std::size_t const* first, std::uint32_t const* values,
                                         std::size_t keys, std::size_t most)
{
  for (std::size_t key = 0; key < keys; ++key) {
    if (first[0] != 0 || first[key + 1] < first[key] || first[key + 1] - first[key] > most) {
      return fail(error_code::out_of_range, key, "first_now of ", key, " is ", first[key],
                  " and the next one ", first[key + 1],
                  "; begin with 0, and give no GPU more than all ", most, " experts");
    }
  }
  auto const all = array("now", values, first[keys]);
  if (!all) { return tl::unexpected(all.error()); }
  ballast::jagged<Key, Id> rows;
  for (std::size_t key = 0; key < keys; ++key) {
    for (std::size_t at = first[key]; at < first[key + 1]; ++at) {
      if (values[at] >= most) {
        return fail(error_code::out_of_range, at, "now has expert ", values[at], " of ", most,
                    "; number them from 0 on");
      }
      rows.push_back(Id{values[at]});
    }
    rows.end_row();
  }
  return rows;
}

/// Finds the GPUs of each expert from the experts of each GPU.
result<void> list_gpus(experts_job& job, std::size_t experts)
{
  job.gpus.fill(experts, [&](auto const& add) {
    for (std::size_t gpu = 0; gpu < job.experts.size(); ++gpu) {
      auto const id = ballast::to_id<ballast::rank_id>(gpu);
      for (ballast::expert_id const expert : job.experts[id]) { add(expert, id); }
    }
  });
  for (std::size_t expert = 0; expert < experts; ++expert) {
    auto const row = job.gpus[ballast::to_id<ballast::expert_id>(expert)];
    if (auto const twice = std::adjacent_find(row.begin(), row.end()); twice != row.end()) {
      return fail(error_code::out_of_range, expert, "now has expert ", expert, " twice on GPU ",
                  to_index(*twice), "; give it once");
    }
  }
  return {};
}

result<ballast_experts> experts_step(ballast_planner& planner, ballast_experts_step const& step)
{
  experts_job& job = planner.experts;
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (step.experts > most || step.gpus > most || step.gpus == 0) {
    return fail(error_code::out_of_range, 0, "there are ", step.experts, " experts and ", step.gpus,
                " GPUs; give fewer than 2^32 of both, and a GPU");
  }
  auto const loads = array("loads", step.loads, step.experts);
  if (!loads) { return tl::unexpected(loads.error()); }
  bool const has_now = step.first_now != nullptr;
  if (step.only_shares != 0 && !has_now) {
    return fail(error_code::out_of_range, 0,
                "only_shares is of replicas that are placed, and first_now is null; say where they "
                "are");
  }
  if (has_now) {
    auto now = rows_of<ballast::rank_id, ballast::expert_id>(step.first_now, step.now, step.gpus,
                                                             step.experts);
    if (!now) { return tl::unexpected(now.error()); }
    job.experts = *std::move(now);
    if (auto listed = list_gpus(job, step.experts); !listed) {
      return tl::unexpected(listed.error());
    }
  }
  ballast_experts found{};
  if (step.only_shares == 0) {
    auto const slots = array("slots", step.slots, step.gpus);
    if (!slots) { return tl::unexpected(slots.error()); }
    auto const nodes = array("node_gpus", step.node_gpus, step.nodes);
    if (!nodes) { return tl::unexpected(nodes.error()); }
    ballast::expert_rules rules;
    rules.replicas = optional_array(step.replicas, step.experts);
    rules.nodes = *nodes;
    rules.most_nodes = step.most_nodes;
    rules.now = has_now ? &job.experts : nullptr;
    constexpr std::size_t longest = 1'000'000'000;
    rules.tolerance = {static_cast<std::int64_t>(std::min(step.within_per_million, longest)),
                       1'000'000};
    rules.uneven = step.is_uneven != 0;
    rules.shared = step.shared;
    rules.work = step.work;
    auto placed = ballast::place_experts(*loads, *slots, rules);
    if (!placed) { return tl::unexpected(placed.error()); }
    job.experts = std::move(placed->experts);
    job.gpus = std::move(placed->gpus);
    found.makespan = placed->makespan.value();
    found.lower_bound = placed->lower_bound.value();
    found.gap = placed->gap();
    found.kept = placed->kept;
    found.most_kept = placed->most_kept;
    found.least_added = placed->least_added;
  }
  if (step.only_shares != 0 || step.is_uneven != 0) {
    auto shares = ballast::share_experts(*loads, job.gpus, step.gpus);
    if (!shares) { return tl::unexpected(shares.error()); }
    job.parts = std::move(shares->parts);
    found.parts = job.parts.values().data();
    found.unit = shares->unit;
    if (step.only_shares != 0) {
      found.makespan = shares->makespan.value();
      found.lower_bound = found.makespan;
      found.kept = found.most_kept = job.experts.values().size();
    }
  }
  found.experts = step.experts;
  found.gpus = step.gpus;
  found.first_expert = job.experts.offsets().data();
  found.expert = integers(job.experts.values().data());
  found.first_gpu = job.gpus.offsets().data();
  found.gpu = integers(job.gpus.values().data());
  found.digest = ballast::digest{}.add(job.experts.offsets()).add(job.experts.values()).value();
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_place_experts(ballast_planner* planner, ballast_experts_step const* step,
                          ballast_experts* experts)
{
  return c_interface::answer(planner, step, experts, c_interface::experts_step);
}
