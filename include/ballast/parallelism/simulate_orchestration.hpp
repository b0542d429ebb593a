// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_SIMULATE_ORCHESTRATION_HPP
#define BALLAST_PARALLELISM_SIMULATE_ORCHESTRATION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/parallelism/detail/unit_prices.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>
#include <ballast/parallelism/price_orchestration.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// The step of units that run as one pipeline of equal microbatches, by
/// `interleaved_one_forward_one_backward` (1F1B where no stage has virtual ones). Each virtual
/// stage takes the time of its own layers, and sends when it has computed, before it goes on. What
/// reduces gradients and gathers weights of a stage comes behind its last pass.
///
/// Units       picoseconds.
/// Errors      those of price_orchestration, and of check_times; too many stages or tasks:
///             those of stage_graph::make and compiled_schedule::make.
/// Complexity  O(microbatches x virtual stages).
[[nodiscard]] inline result<time_units> simulate_orchestration(
    orchestration_problem const& problem, std::span<module_layout const> modules,
    std::span<std::size_t const> kinds = {})
{
  auto const priced = price_orchestration(problem, modules, kinds);
  if (!priced) { return tl::unexpected(priced.error()); }
  std::uint32_t const samples = modules[problem.llm].dp * problem.microbatch;
  std::vector<pipeline_stage> stages;
  std::vector<stage_link> links;
  std::vector<stage_time> times;          // of each virtual stage
  std::vector<time_units> reducing_time;  // of each rank
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    module_layout const& own = modules[module];
    auto const degree = static_cast<std::size_t>(
        std::find_if(of.degrees.begin(), of.degrees.end(),
                     [&own](auto const& each) { return degree_of(each) == degree_of(own); }) -
        of.degrees.begin());
    std::size_t const kind =
        kinds.empty() ? detail::kinds_of(problem, module).front() : kinds[module];
    detail::unit_prices const prices(problem, module, problem.kinds[kind],
                                     detail::passes_of(problem, module));
    std::uint32_t const parts = own.pp * prices.virtual_stages(own.pp);
    std::size_t const first_rank = reducing_time.size();
    std::vector<std::uint32_t> layers(own.pp, 0);
    for (std::uint32_t part = 0; part < parts; ++part) {
      std::uint32_t const of_part = of.layers / parts + (part < of.layers % parts ? 1 : 0);
      layers[part % own.pp] += of_part;
      if (!stages.empty()) {
        links.push_back({to_id<stage_id>(stages.size() - 1), to_id<stage_id>(stages.size())});
      }
      stages.push_back({to_id<pipeline_rank>(first_rank + part % own.pp), prices.has_backward()});
      times.push_back(prices.times_of_stage(degree, own, samples, of_part));
    }
    for (std::uint32_t const of_rank : layers) {
      reducing_time.push_back(prices.reducing_time(degree, of_rank, own.dp));
    }
  }
  auto const graph = stage_graph::make(std::move(stages), links);
  if (!graph) { return tl::unexpected(graph.error()); }
  auto const schedule =
      compiled_schedule::make(*graph, interleaved_one_forward_one_backward{}, priced->microbatches);
  if (!schedule) { return tl::unexpected(schedule.error()); }
  pipeline_times const all(priced->microbatches, times.size(),
                           [&times](std::size_t, std::size_t stage) { return times[stage]; });
  if (auto checked = check_times(all, *schedule); !checked) {
    return tl::unexpected(checked.error());
  }
  std::vector<microbatch_id> order;
  order.reserve(priced->microbatches);
  for (std::size_t each = 0; each < priced->microbatches; ++each) {
    order.push_back(to_id<microbatch_id>(each));
  }
  auto const timeline = simulate(*schedule, all, detail::span_of(order));
  time_units end = timeline.makespan;
  for (std::size_t rank = 0; rank < reducing_time.size(); ++rank) {
    auto const last = schedule->tasks_on(to_id<pipeline_rank>(rank)).back();
    end = std::max(end, saturating_sum(timeline.end[last], reducing_time[rank]));
  }
  return end;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_SIMULATE_ORCHESTRATION_HPP
