// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/unit_prices.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

namespace ballast::inline v0 {

/// Prices units that the caller has chosen, as `orchestrate` prices its own.
///
/// Shapes      one layout for each module, and one kind, or none where each module has but one.
/// Errors      those of check_orchestration_problem; infeasible, position of the module: its degree,
///             pp, dp or kind is none that it can have, or a GPU would lack memory; position 0 also:
///             the modules get more GPUs of a kind than there are, or a step takes 2^63 picoseconds
///             or more.
/// Complexity  O(modules), and that of check_orchestration_problem.
[[nodiscard]] inline result<model_layout> price_orchestration(
    orchestration_problem const& problem, std::span<module_layout const> modules,
    std::span<std::size_t const> kinds = {})
{
  if (auto checked = check_orchestration_problem(problem); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const refuse = [](std::size_t position, std::string const& why) {
    return fail(error_code::infeasible, position, why);
  };
  if (modules.size() != problem.modules.size()) {
    return refuse(0, detail::concat("layouts of ", detail::counted(modules.size(), "module"),
                                    " were given for ", problem.modules.size()));
  }
  if (!kinds.empty() && kinds.size() != modules.size()) {
    return refuse(
        0, detail::concat("kinds of GPUs were given for ", detail::counted(kinds.size(), "module"),
                          " of ", modules.size()));
  }
  std::vector<std::size_t> assigned(kinds.begin(), kinds.end());
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const allowed = detail::kinds_of(problem, module);
    if (kinds.empty()) { assigned.push_back(allowed.front()); }
    if (kinds.empty() ? allowed.size() > 1
                      : !std::binary_search(allowed.begin(), allowed.end(), kinds[module])) {
      return refuse(module,
                    detail::concat("module ", problem.modules[module].name,
                                   kinds.empty() ? " may get GPUs of several kinds; say which"
                                                 : " may not get GPUs of the given kind"));
    }
  }
  std::uint32_t const parts = problem.global_batch / problem.microbatch;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    if (modules[module].dp == 0 || parts % modules[module].dp != 0) {
      auto const why = detail::concat("module ", of.name, " cannot have dp ", modules[module].dp,
                                      "; give a divisor of the ",
                                      detail::counted(parts, "microbatch"), " of a batch");
      return refuse(module, why);
    }
  }
  std::uint32_t const llm_dp = modules[problem.llm].dp;
  model_layout priced;
  priced.modules.assign(modules.begin(), modules.end());
  priced.microbatches = parts / llm_dp;
  std::vector<detail::unit_prices> all_prices;
  std::vector<detail::unit_price> priced_units;
  std::vector<unit_time> times;
  std::vector<std::uint64_t> wanted(problem.kinds.size(), 0);
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    module_layout const& layout = modules[module];
    auto const degree = std::find_if(of.degrees.begin(), of.degrees.end(),
                                     [&layout](orchestrated_degree const& each) {
                                       return degree_of(each) == degree_of(layout);
                                     });
    auto const& kind = problem.kinds[assigned[module]];
    std::uint32_t const per_node = kind.gpus_per_node;
    if (degree == of.degrees.end() || per_node % layout.group() != 0) {
      return refuse(module,
                    detail::concat("module ", of.name, " cannot have ", text_of(degree_of(layout)),
                                   "; give a degree with times that divides the ",
                                   detail::counted(per_node, "GPU"), " of a node"));
    }
    detail::unit_prices const prices(problem, module, kind, detail::passes_of(problem, module));
    if (!prices.has_stages(layout.pp)) {
      auto const why =
          detail::concat("module ", of.name, " of ", detail::counted(of.layers, "layer"),
                         " cannot have ", detail::counted(layout.pp, "stage"),
                         "; give each a layer at least, and each virtual one");
      return refuse(module, why);
    }
    priced_units.push_back(prices.price(static_cast<std::size_t>(degree - of.degrees.begin()),
                                        layout, llm_dp * problem.microbatch));
    times.push_back(priced_units.back().time);
    all_prices.push_back(prices);
    wanted[assigned[module]] += layout.gpus();
  }
  std::uint64_t behind = 0;
  std::vector<std::uint64_t> bytes(modules.size());
  for (std::size_t module = modules.size(); module-- > 0;) {
    std::uint32_t const pp = modules[module].pp;
    bytes[module] = all_prices[module].bytes(priced_units[module], pp, behind, priced.microbatches);
    behind = all_prices[module].depth(pp, behind, priced.microbatches);
    priced.memory_bytes = std::max(priced.memory_bytes, bytes[module]);
  }
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    std::uint64_t const memory = problem.kinds[assigned[module]].memory_bytes;
    if (bytes[module] > memory) {
      return refuse(module,
                    detail::concat("a GPU of module ", of.name, " would hold ",
                                   detail::counted(bytes[module], "byte"), ", and has ", memory));
    }
  }
  for (std::size_t kind = 0; kind < wanted.size(); ++kind) {
    if (wanted[kind] > problem.kinds[kind].gpus) {
      return refuse(
          0, detail::concat("the modules get ", detail::counted(wanted[kind], "GPU"), " of kind ",
                            kind, ", and there are ", problem.kinds[kind].gpus));
    }
  }
  priced.step = disttrain_makespan(detail::span_of(times), priced.microbatches);
  if (priced.step == no_cost) {
    return refuse(0, "a step takes 2^63 picoseconds or more; check the times");
  }
  return priced;
}

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
