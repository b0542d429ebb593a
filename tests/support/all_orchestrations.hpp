// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pipelines.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <functional>
#include <map>
#include <tuple>

namespace ballast_test {

/// What an orchestration has to be in which not everything is allowed.
struct allowed_orchestrations {
  bool one_degree = false;
  bool one_stage = false;
};

namespace orchestrations {

using ballast::uint128;

inline uint128 up(uint128 value, uint128 by)
{
  return (value + by - 1) / by;
}

struct price {
  ballast::module_layout layout;
  uint128 microbatch;
  uint128 once;
  std::uint64_t gpus;
  uint128 state;
  uint128 kept;  // bytes of a microbatch in each virtual stage
  chained_unit unit;
};

/// Of a module that may get one kind only.
inline std::size_t kind_of(ballast::orchestration_problem const& problem, std::size_t module)
{
  auto const& kinds = problem.modules[module].kinds;
  return kinds.empty() ? 0 : kinds.front();
}

/// How many virtual stages of microbatches the fullest GPU of each module keeps.
inline std::vector<std::uint64_t> const& simulated_peaks_of(std::vector<chained_unit> const& units,
                                                            std::size_t microbatches)
{
  static std::map<std::vector<std::size_t>, std::vector<std::uint64_t>> known;
  std::vector<std::size_t> key{microbatches};
  std::size_t virtual_stages = 0;
  for (auto const& [stages, parts, backward] : units) {
    key.insert(key.end(), {stages, parts, backward ? std::size_t{1} : 0});
    virtual_stages += stages * parts;
  }
  auto const [at, is_new] = known.try_emplace(key);
  if (!is_new) { return at->second; }
  auto const peaks =
      simulated_peaks(units, microbatches, std::vector<std::uint64_t>(virtual_stages, 1));
  auto first = peaks.begin();
  for (chained_unit const& unit : units) {
    auto const end = first + static_cast<std::ptrdiff_t>(unit.stages);
    at->second.push_back(*std::max_element(first, end));
    first = end;
  }
  return at->second;
}

/// The formulas as docs/orchestration.md has them, module by module.
inline price price_of(ballast::orchestration_problem const& problem, std::size_t module,
                      ballast::orchestrated_degree const& degree, std::uint32_t pp,
                      std::uint32_t dp, std::uint32_t samples)
{
  auto const& of = problem.modules[module];
  auto const& kind = problem.kinds[kind_of(problem, module)];
  bool fed = of.is_input_trained;
  for (std::size_t before = 0; before < module; ++before) {
    fed = fed || problem.modules[before].is_trained || problem.modules[before].is_input_trained;
  }
  bool const forward_only = !of.is_trained && !fed;
  std::uint32_t const vpp = pp == 1 ? 1 : of.virtual_stages;
  std::uint32_t const layers = (of.layers + pp * vpp - 1) / (pp * vpp) * vpp;
  ballast::time_units const of_sample =
      degree.forward + (of.is_trained  ? degree.backward
                        : forward_only ? 0
                                       : degree.backward_of_input);
  auto const positive = [](std::int64_t number) { return static_cast<uint128>(number); };
  constexpr std::uint64_t second = 1'000'000'000'000;

  std::uint64_t const group = std::uint64_t{degree.tp} * degree.sp * degree.ep;
  price result{{degree.tp, pp, dp, degree.sp, degree.ep},
               0,
               0,
               group * pp * dp,
               0,
               0,
               {pp, vpp, !forward_only}};
  result.microbatch = up(positive(of_sample) * samples * layers * positive(kind.speed.denominator),
                         uint128{of.layers} * dp * positive(kind.speed.numerator));
  if (kind.bytes_per_second > 0 && (pp > 1 || problem.modules.size() > 1)) {
    result.microbatch += up(uint128{of.boundary_bytes} * (forward_only ? 1 : 2) * samples * second,
                            uint128{kind.bytes_per_second} * group * dp);
  }
  result.once = up(result.microbatch * pp, vpp);
  auto const of_stage = [&](std::uint64_t bytes) { return up(uint128{bytes} * layers, of.layers); };
  result.state = of_stage(degree.weight_bytes);
  if (of.is_trained) {
    uint128 const sent = of_stage(degree.weight_bytes) + of_stage(degree.gradient_bytes);
    if (kind.bytes_per_second > 0) {
      result.once +=
          up(sent * (dp - 1) * second, uint128{kind.bytes_per_second} * dp * degree.copies);
    }
    result.state = sent + up(of_stage(degree.optimizer_bytes), dp);
  }
  uint128 const of_layer =
      up(uint128{degree.activation_bytes} * ((samples + dp - 1) / dp), of.layers);
  result.kept = of_layer * (forward_only ? 1 : layers / vpp);
  return result;
}

}  // namespace orchestrations

/// The problem, with modules that may get these kinds only.
inline ballast::orchestration_problem on_kinds(ballast::orchestration_problem problem,
                                               std::vector<std::size_t> const& kinds)
{
  for (std::size_t module = 0; module < kinds.size(); ++module) {
    problem.modules[module].kinds = {kinds[module]};
  }
  return problem;
}

/// Visits all orchestrations that have GPUs enough, where each module may get one kind only: the
/// prices of the modules, and the microbatches. Loops over all numbers.
template <class Visit>
void each_orchestration(ballast::orchestration_problem const& problem,
                        allowed_orchestrations const& allowed, Visit const& visit)
{
  using orchestrations::price;
  std::size_t const modules = problem.modules.size();
  std::uint32_t const parts = problem.global_batch / problem.microbatch;
  for (std::uint32_t llm_dp = 1; llm_dp <= parts; ++llm_dp) {
    if (parts % llm_dp != 0) { continue; }
    std::uint32_t const microbatches = parts / llm_dp;
    std::vector<std::vector<price>> prices(modules);
    for (std::size_t module = 0; module < modules; ++module) {
      auto const& of = problem.modules[module];
      auto const& kind = problem.kinds[orchestrations::kind_of(problem, module)];
      for (auto const& degree : of.degrees) {
        for (std::uint32_t pp = 1; pp * (pp == 1 ? 1 : of.virtual_stages) <= of.layers; ++pp) {
          std::uint32_t const group = degree.tp * degree.sp * degree.ep;
          for (std::uint32_t dp = 1; group * pp * dp <= kind.gpus && dp <= parts; ++dp) {
            bool const is_llm = module == problem.llm;
            bool const bound = is_llm || allowed.one_degree;
            if (parts % dp != 0 || kind.gpus_per_node % group != 0 || (bound && dp != llm_dp) ||
                (!is_llm && allowed.one_stage && pp > 1)) {
              continue;
            }
            price const each = orchestrations::price_of(problem, module, degree, pp, dp,
                                                        llm_dp * problem.microbatch);
            if (each.state <= kind.memory_bytes) { prices[module].push_back(each); }
          }
        }
      }
    }
    std::vector<std::uint64_t> free;
    for (auto const& kind : problem.kinds) { free.push_back(kind.gpus); }
    std::vector<price const*> chosen(modules);
    std::function<void(std::size_t)> const choose = [&](std::size_t module) {
      if (module < modules) {
        for (price const& each : prices[module]) {
          std::uint64_t& left = free[orchestrations::kind_of(problem, module)];
          if (each.gpus > left ||
              (allowed.one_degree && module > 0 &&
               ballast::degree_of(each.layout) != ballast::degree_of(chosen[0]->layout))) {
            continue;
          }
          chosen[module] = &each;
          left -= each.gpus;
          choose(module + 1);
          left += each.gpus;
        }
        return;
      }
      visit(chosen, microbatches);
    };
    choose(0);
  }
}

/// What the fullest GPU holds in the simulated pipeline, or nothing where one lacks memory.
inline std::optional<std::uint64_t> memory_of(
    ballast::orchestration_problem const& problem,
    std::vector<orchestrations::price const*> const& chosen, std::uint32_t microbatches)
{
  std::vector<chained_unit> units;
  for (orchestrations::price const* const each : chosen) { units.push_back(each->unit); }
  auto const& peaks = orchestrations::simulated_peaks_of(units, microbatches);
  std::uint64_t most = 0;
  for (std::size_t each = 0; each < chosen.size(); ++each) {
    ballast::uint128 const bytes = chosen[each]->state + chosen[each]->kept * peaks[each];
    if (bytes > problem.kinds[orchestrations::kind_of(problem, each)].memory_bytes) { return {}; }
    most = std::max(most, static_cast<std::uint64_t>(bytes));
  }
  return most;
}

/// The best of all orchestrations where each module may get one kind only, without a front or a
/// bound; memory is that of the simulated pipeline.
inline std::optional<ballast::model_layout> best_of_all_orchestrations(
    ballast::orchestration_problem const& problem, allowed_orchestrations const& allowed = {})
{
  using ballast::uint128;
  std::optional<ballast::model_layout> best;
  std::uint64_t best_gpus = 0;
  each_orchestration(problem, allowed, [&](auto const& chosen, std::uint32_t microbatches) {
    uint128 step = 0;
    uint128 slowest = 0;
    std::uint64_t gpus = 0;
    for (auto const* const each : chosen) {
      step += each->once;
      slowest = std::max(slowest, each->microbatch);
      gpus += each->gpus;
    }
    step += slowest * (microbatches - 1);
    if (step >= static_cast<uint128>(ballast::no_cost)) { return; }
    auto const time = static_cast<ballast::time_units>(step);
    if (best && std::tie(time, gpus) > std::tie(best->step, best_gpus)) { return; }
    ballast::model_layout found;
    found.step = time;
    found.microbatches = microbatches;
    for (auto const* const each : chosen) { found.modules.push_back(each->layout); }
    if (best &&
        std::tie(time, gpus, found.modules) >= std::tie(best->step, best_gpus, best->modules)) {
      return;
    }
    auto const bytes = memory_of(problem, chosen, microbatches);
    if (!bytes) { return; }
    found.memory_bytes = *bytes;
    best = found;
    best_gpus = gpus;
  });
  return best;
}

/// The step of an orchestration that runs as one pipeline, where each module may get one kind only:
/// every stage has its own layers, and sends before it goes on.
inline ballast::time_units simulated_step(ballast::orchestration_problem const& problem,
                                          std::vector<ballast::module_layout> const& layouts)
{
  using ballast::uint128;
  using orchestrations::up;
  constexpr std::uint64_t second = 1'000'000'000'000;
  std::uint32_t const samples = layouts[problem.llm].dp * problem.microbatch;
  std::size_t const microbatches = problem.global_batch / samples;
  std::vector<chained_unit> units;
  std::vector<ballast::stage_time> times;
  std::vector<ballast::time_units> reducing;  // of each rank
  bool is_fed_by_trained = false;
  for (std::size_t module = 0; module < layouts.size(); ++module) {
    auto const& of = problem.modules[module];
    auto const& kind = problem.kinds[orchestrations::kind_of(problem, module)];
    auto const& own = layouts[module];
    is_fed_by_trained = is_fed_by_trained || of.is_trained || of.is_input_trained;
    auto const degree = std::find_if(of.degrees.begin(), of.degrees.end(), [&](auto const& each) {
      return each.tp == own.tp && each.sp == own.sp && each.ep == own.ep;
    });
    std::uint32_t const vpp = own.pp == 1 ? 1 : of.virtual_stages;
    units.push_back({own.pp, vpp, is_fed_by_trained});
    uint128 const bandwidth = uint128{kind.bytes_per_second} * own.tp * own.sp * own.ep * own.dp;
    uint128 const sent = bandwidth == 0 || (own.pp == 1 && layouts.size() == 1)
                             ? 0
                             : up(uint128{of.boundary_bytes} * samples * second, bandwidth);
    auto const part_time = [&](ballast::time_units of_sample, std::uint32_t layers) {
      uint128 const work = static_cast<uint128>(of_sample) * samples * layers;
      return static_cast<ballast::time_units>(
          up(work * static_cast<uint128>(kind.speed.denominator),
             uint128{of.layers} * own.dp * static_cast<uint128>(kind.speed.numerator)) +
          sent);
    };
    std::vector<std::uint32_t> of_rank(own.pp, 0);
    for (std::uint32_t part = 0; part < own.pp * vpp; ++part) {
      std::uint32_t const layers =
          of.layers / (own.pp * vpp) + (part < of.layers % (own.pp * vpp) ? 1 : 0);
      of_rank[part % own.pp] += layers;
      auto const backward = of.is_trained ? degree->backward : degree->backward_of_input;
      times.push_back({part_time(degree->forward, layers),
                       is_fed_by_trained ? part_time(backward, layers) : 0});
    }
    for (std::uint32_t const layers : of_rank) {
      uint128 const bytes = up(uint128{degree->gradient_bytes} * layers, of.layers) +
                            up(uint128{degree->weight_bytes} * layers, of.layers);
      bool const reduces = of.is_trained && kind.bytes_per_second > 0;
      reducing.push_back(reduces ? static_cast<ballast::time_units>(
                                       up(bytes * (own.dp - 1) * second,
                                          uint128{kind.bytes_per_second} * own.dp * degree->copies))
                                 : 0);
    }
  }
  auto const schedule =
      ballast::compiled_schedule::make(
          chain_of_units(units), ballast::interleaved_one_forward_one_backward{}, microbatches)
          .value();
  ballast::pipeline_times all(microbatches, times.size());
  std::vector<ballast::microbatch_id> order;
  for (std::size_t each = 0; each < microbatches; ++each) {
    order.push_back(ballast::to_id<ballast::microbatch_id>(each));
    std::copy(times.begin(), times.end(), all[order.back()].begin());
  }
  auto const timeline = simulate(schedule, all, order);
  ballast::time_units end = 0;
  for (std::size_t rank = 0; rank < reducing.size(); ++rank) {
    for (auto const task : schedule.tasks_on(ballast::to_id<ballast::pipeline_rank>(rank))) {
      end = std::max(end, timeline.end[task] + reducing[rank]);
    }
  }
  return end;
}

/// The best of all orchestrations on all assignments of kinds, one after the other.
inline std::optional<ballast::orchestration> best_of_all_assignments(
    ballast::orchestration_problem const& problem, allowed_orchestrations const& allowed = {})
{
  std::optional<ballast::orchestration> best;
  std::vector<std::size_t> kinds(problem.modules.size(), 0);
  for (;;) {
    bool is_allowed = true;
    for (std::size_t module = 0; module < kinds.size(); ++module) {
      auto const& own = problem.modules[module].kinds;
      is_allowed = is_allowed &&
                   (own.empty() || std::find(own.begin(), own.end(), kinds[module]) != own.end());
    }
    if (is_allowed) {
      auto const found = best_of_all_orchestrations(on_kinds(problem, kinds), allowed);
      auto const is_better = [&](ballast::model_layout const& other) {
        auto const gpus = found->gpus();
        auto const others = other.gpus();
        return std::tie(found->step, gpus, found->modules, kinds) <
               std::tie(other.step, others, other.modules, best->kinds);
      };
      if (found && (!best || is_better(best->layout))) { best = {*found, kinds}; }
    }
    std::size_t module = kinds.size();
    while (module > 0 && ++kinds[module - 1] == problem.kinds.size()) { kinds[--module] = 0; }
    if (module == 0) { return best; }
  }
}

/// What GPUs hold while an orchestration runs as one pipeline, each stage with its own layers.
struct pipeline_memory {
  std::uint64_t bytes = 0;  // of the GPU that holds most
  bool fits = true;
  bool is_even = true;  // all virtual stages of a module have equally many layers
};

inline pipeline_memory simulated_memory(ballast::orchestration_problem const& problem,
                                        ballast::model_layout const& layout)
{
  pipeline_memory memory;
  std::vector<chained_unit> units;
  std::vector<std::uint64_t> kept;   // of each virtual stage
  std::vector<std::uint64_t> state;  // of each stage
  bool is_fed_by_trained = false;
  std::uint32_t const samples = layout.modules[problem.llm].dp * problem.microbatch;
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    auto const& of = problem.modules[module];
    std::uint32_t const pp = layout.modules[module].pp;
    std::uint32_t const dp = layout.modules[module].dp;
    is_fed_by_trained = is_fed_by_trained || of.is_trained || of.is_input_trained;
    std::uint32_t const vpp = pp == 1 ? 1 : of.virtual_stages;
    std::uint32_t const parts = pp * vpp;
    auto const degree = std::find_if(
        of.degrees.begin(), of.degrees.end(), [&own = layout.modules[module]](auto const& each) {
          return each.tp == own.tp && each.sp == own.sp && each.ep == own.ep;
        });
    units.push_back({pp, vpp, is_fed_by_trained});
    memory.is_even = memory.is_even && of.layers % parts == 0;
    auto const up = [&](std::uint64_t bytes, std::uint64_t by) { return (bytes + by - 1) / by; };
    std::vector<std::uint64_t> layers(pp, 0);
    for (std::uint32_t part = 0; part < parts; ++part) {
      std::uint64_t const own = of.layers / parts + (part < of.layers % parts ? 1 : 0);
      layers[part % pp] += own;
      kept.push_back(up(degree->activation_bytes * ((samples + dp - 1) / dp), of.layers) *
                     (is_fed_by_trained ? own : 1));
    }
    for (std::uint64_t const own : layers) {
      std::uint64_t const weights = up(degree->weight_bytes * own, of.layers);
      std::uint64_t const trained = up(degree->gradient_bytes * own, of.layers) +
                                    up(up(degree->optimizer_bytes * own, of.layers), dp);
      state.push_back(weights + (of.is_trained ? trained : 0));
    }
  }
  auto const peaks = simulated_peaks(units, layout.microbatches, kept);
  std::size_t rank = 0;
  for (std::size_t module = 0; module < units.size(); ++module) {
    for (std::size_t stage = 0; stage < units[module].stages; ++stage, ++rank) {
      std::uint64_t const bytes = state[rank] + peaks[rank];
      memory.bytes = std::max(memory.bytes, bytes);
      memory.fits = memory.fits &&
                    bytes <= problem.kinds[orchestrations::kind_of(problem, module)].memory_bytes;
    }
  }
  return memory;
}

}  // namespace ballast_test
