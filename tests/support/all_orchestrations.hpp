// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pipelines.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

#include <functional>
#include <map>
#include <tuple>

namespace ballast_test {

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
  uint128 state;
  uint128 kept;  // bytes of a microbatch, of which each virtual stage has its part
  chained_unit unit;
};

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

/// The largest of all microbatches of so many samples that follow each other. All have to fit.
inline ballast::tokens largest_microbatch(ballast::layout_problem const& problem,
                                          std::size_t module, std::uint64_t samples)
{
  ballast::tokens largest = 0;
  for (std::size_t first = 0; first < problem.samples(); ++first) {
    ballast::tokens sum = 0;
    for (std::uint64_t each = 0; each < samples; ++each) {
      sum += problem.sizes[(first + each) % problem.samples() * problem.modules.size() + module];
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

/// The formulas as docs/orchestration.md has them, of a module on GPUs of a kind.
inline price price_of(ballast::layout_problem const& problem, std::size_t module, std::size_t on,
                      ballast::profiled_degree const& degree, std::uint32_t pp, std::uint32_t dp,
                      std::uint32_t microbatches)
{
  constexpr std::uint64_t second = 1'000'000'000'000;
  auto const& of = problem.modules[module];
  auto const& role = problem.roles[module];
  auto const& kind = problem.kinds[on];
  bool fed = role.is_input_trained;
  for (std::size_t before = 0; before < module; ++before) {
    fed = fed || problem.roles[before].is_trained || problem.roles[before].is_input_trained;
  }
  bool const forward_only = !role.is_trained && !fed;
  std::uint32_t const vpp = pp == 1 ? 1 : role.virtual_stages;
  std::uint32_t const layers = (of.layers + pp - 1) / pp;
  std::uint64_t const group = std::uint64_t{degree.tp} * degree.sp * degree.ep;
  std::uint64_t const parts = std::uint64_t{microbatches} * dp;
  uint128 all = 0;
  for (std::size_t each = 0; each < problem.samples(); ++each) {
    all += static_cast<uint128>(problem.sizes[each * problem.modules.size() + module]);
  }
  uint128 const mean = up(all, problem.samples());
  uint128 const batch = problem.global_batch;
  // A trained module passes its products three times; frozen ones once or twice, attention thrice.
  std::uint64_t const linear = role.is_trained ? 3 : forward_only ? 1 : 2;
  std::uint64_t const quadratic = forward_only ? 1 : 3;
  auto const fast = [&](ballast::interpolated_throughput const& measured) {
    return kind.speed == ballast::ratio{1} ? measured : measured.scaled(kind.speed);
  };
  auto const whole = static_cast<uint128>(
      fast(degree.linear)
          .picoseconds(up(up(uint128{of.flops.linear} * linear, 3) * mean * batch, parts * group),
                       static_cast<ballast::tokens>(up(mean * batch, parts))) +
      fast(degree.attention)
          .picoseconds(up(up(uint128{of.flops.quadratic} * quadratic, 3) * mean * mean * batch,
                          parts * group),
                       static_cast<ballast::tokens>(mean)));
  price result{{degree.tp, pp, dp, degree.sp, degree.ep}, 0, 0, 0, 0, {pp, vpp, !forward_only}};
  result.microbatch = up(whole * layers, of.layers);
  if (kind.bytes_per_second > 0 && (pp > 1 || problem.modules.size() > 1)) {
    uint128 const bytes =
        up(mean * batch * of.boundary_bytes * (forward_only ? 1 : 2), microbatches);
    result.microbatch += up(bytes * second, uint128{kind.bytes_per_second} * group * dp);
  }
  result.once = up(result.microbatch * pp, vpp);
  auto const& [weights, gradients, optimizer, is_shared] = problem.state;
  uint128 const state = degree.memory.state(layers);
  auto const part = [&](std::uint64_t bytes) {
    return up(state * bytes, weights + gradients + optimizer);
  };
  result.state = part(weights);
  if (role.is_trained) {
    result.state = state;
    if (is_shared) { result.state = part(weights + gradients) + up(part(optimizer), dp); }
    if (kind.bytes_per_second > 0 && dp > 1) {
      uint128 const sent = part(gradients) + part(is_shared ? weights : gradients);
      result.once +=
          up(up(sent * (dp - 1), uint128{dp} * degree.sp) * second, uint128{kind.bytes_per_second});
    }
  }
  std::uint64_t const samples = (problem.global_batch + parts - 1) / parts;
  ballast::tokens const size = largest_microbatch(problem, module, samples);
  result.kept =
      forward_only ? degree.memory.activations(1, size) : degree.memory.activations(layers, size);
  return result;
}

}  // namespace orchestrations

/// The best of all layouts by the closed form, without a front or a bound; memory is that of the
/// simulated pipeline.
class all_orchestrations {
 public:
  all_orchestrations(ballast::layout_problem const& problem,
                     ballast::orchestrate_options const& options)
      : problem_(problem), options_(options)
  {
    std::size_t const modules = problem.modules.size();
    std::vector<std::size_t> kinds(modules, 0);
    for (;;) {
      bool is_allowed = true;
      for (std::size_t module = 0; module < modules; ++module) {
        auto const& own = problem.roles[module].kinds;
        is_allowed = is_allowed &&
                     (own.empty() || std::find(own.begin(), own.end(), kinds[module]) != own.end());
      }
      if (is_allowed) { try_kinds(kinds); }
      std::size_t next = 0;
      while (next < modules && ++kinds[next] == problem.kinds.size()) { kinds[next++] = 0; }
      if (next == modules) { return; }
    }
  }

  [[nodiscard]] std::optional<ballast::model_layout> const& best() const { return best_; }

 private:
  using price = orchestrations::price;

  void try_kinds(std::vector<std::size_t> const& kinds)
  {
    std::size_t const modules = problem_.modules.size();
    std::size_t const llm = options_.llm.value_or(modules - 1);
    std::uint32_t const parts = problem_.global_batch / options_.microbatch;
    for (std::uint32_t llm_dp = 1; llm_dp <= parts; ++llm_dp) {
      if (parts % llm_dp != 0) { continue; }
      std::uint32_t const microbatches = parts / llm_dp;
      std::vector<std::vector<price>> prices(modules);
      for (std::size_t module = 0; module < modules; ++module) {
        auto const& of = problem_.modules[module];
        auto const& kind = problem_.kinds[kinds[module]];
        bool const is_llm = module == llm;
        bool const is_last = module + 1 == modules;
        for (auto const& degree : of.degrees) {
          std::uint32_t const group = degree.tp * degree.sp * degree.ep;
          for (std::uint32_t pp = 1; pp <= of.layers; ++pp) {
            std::uint32_t const vpp = pp == 1 ? 1 : problem_.roles[module].virtual_stages;
            if (vpp > 1 && of.layers % (pp * vpp) != 0) { continue; }
            for (std::uint32_t dp = 1; group * pp * dp <= kind.gpus && dp <= parts; ++dp) {
              bool const bound = is_llm || options_.limits.has_one_group;
              if (parts % dp != 0 || kind.gpus_per_node % group != 0 || (bound && dp != llm_dp) ||
                  (is_last && std::uint64_t{dp} * microbatches > problem_.global_batch) ||
                  (!is_llm && options_.limits.has_one_stage && pp > 1)) {
                continue;
              }
              prices[module].push_back(orchestrations::price_of(problem_, module, kinds[module],
                                                                degree, pp, dp, microbatches));
            }
          }
        }
      }
      std::vector<std::uint64_t> free;
      for (auto const& kind : problem_.kinds) { free.push_back(kind.gpus); }
      std::vector<price const*> chosen(modules);
      std::function<void(std::size_t)> const choose = [&](std::size_t module) {
        if (module == modules) {
          offer(kinds, chosen, microbatches);
          return;
        }
        for (price const& each : prices[module]) {
          std::uint64_t& left = free[kinds[module]];
          std::uint64_t const gpus = each.layout.gpus();
          if (gpus > left || (options_.limits.has_one_group && module > 0 &&
                              each.layout.group() != chosen[0]->layout.group())) {
            continue;
          }
          chosen[module] = &each;
          left -= gpus;
          choose(module + 1);
          left += gpus;
        }
      };
      choose(0);
    }
  }

  void offer(std::vector<std::size_t> const& kinds, std::vector<price const*> const& chosen,
             std::uint32_t microbatches)
  {
    using ballast::uint128;
    uint128 step = 0;
    uint128 slowest = 0;
    for (auto const* const each : chosen) {
      step += each->once;
      slowest = std::max(slowest, each->microbatch);
    }
    step += slowest * (microbatches - 1);
    if (step >= static_cast<uint128>(ballast::no_cost)) { return; }
    ballast::model_layout found;
    found.step = static_cast<ballast::time_units>(step);
    found.microbatches = microbatches;
    found.virtual_stages = static_cast<std::uint32_t>(chosen.back()->unit.virtual_stages);
    for (auto const* const each : chosen) { found.modules.push_back(each->layout); }
    if (problem_.kinds.size() > 1) { found.kinds = kinds; }
    auto const key = [](ballast::model_layout const& of) {
      return std::tuple(of.step, of.gpus(), of.modules, of.kinds);
    };
    if (best_ && key(found) >= key(*best_)) { return; }
    std::vector<chained_unit> units;
    for (auto const* const each : chosen) { units.push_back(each->unit); }
    auto const& peaks = orchestrations::simulated_peaks_of(units, microbatches);
    for (std::size_t each = 0; each < chosen.size(); ++each) {
      uint128 const bytes =
          chosen[each]->state +
          orchestrations::up(chosen[each]->kept * (chosen[each]->unit.backward ? peaks[each] : 1),
                             chosen[each]->unit.backward ? chosen[each]->unit.virtual_stages : 1);
      if (bytes > problem_.kinds[kinds[each]].memory_bytes) { return; }
      found.memory_bytes = std::max(found.memory_bytes, static_cast<std::uint64_t>(bytes));
    }
    best_ = found;
  }

  ballast::layout_problem const& problem_;
  ballast::orchestrate_options const& options_;
  std::optional<ballast::model_layout> best_;
};

}  // namespace ballast_test
