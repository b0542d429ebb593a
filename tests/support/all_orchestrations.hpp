// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_ALL_ORCHESTRATIONS_HPP
#define BALLAST_TESTS_SUPPORT_ALL_ORCHESTRATIONS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <vector>

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
  uint128 bytes;
};

/// The formulas as docs/orchestration.md has them, module by module.
inline price price_of(ballast::orchestration_problem const& problem, std::size_t module,
                      ballast::orchestrated_degree const& degree, std::uint32_t pp,
                      std::uint32_t dp, std::uint32_t samples)
{
  auto const& of = problem.modules[module];
  auto const& kind = problem.kinds[of.kind];
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

  price result{{degree.tp, pp, dp}, 0, 0, std::uint64_t{degree.tp} * pp * dp, 0};
  result.microbatch = up(positive(of_sample) * samples * layers * positive(kind.speed.denominator),
                         uint128{of.layers} * dp * positive(kind.speed.numerator));
  if (kind.bytes_per_second > 0 && (pp > 1 || problem.modules.size() > 1)) {
    result.microbatch += up(uint128{of.boundary_bytes} * (forward_only ? 1 : 2) * samples * second,
                            uint128{kind.bytes_per_second} * degree.tp * dp);
  }
  result.once = up(result.microbatch * pp, vpp);
  auto const of_stage = [&](std::uint64_t bytes) { return up(uint128{bytes} * layers, of.layers); };
  result.bytes = of_stage(degree.weight_bytes);
  if (of.is_trained) {
    uint128 const sent = of_stage(degree.weight_bytes) + of_stage(degree.gradient_bytes);
    if (kind.bytes_per_second > 0) {
      result.once += up(sent * (dp - 1) * second, uint128{kind.bytes_per_second} * dp);
    }
    result.bytes = sent + up(of_stage(degree.optimizer_bytes), dp);
  }
  uint128 const held = uint128{degree.activation_bytes} * ((samples + dp - 1) / dp);
  if (forward_only) {
    result.bytes += up(held, of.layers);
  } else {
    // pp microbatches, and of virtual stages pp - 1 chunks more, of which a stage has vpp
    std::uint32_t const chunks = vpp > 1 ? pp * vpp + pp - 1 : pp;
    result.bytes += up(held * layers * chunks, uint128{of.layers} * vpp);
  }
  return result;
}

}  // namespace orchestrations

/// The best of all orchestrations: loops over all numbers, without a front or a bound.
inline std::optional<ballast::model_layout> best_of_all_orchestrations(
    ballast::orchestration_problem const& problem, allowed_orchestrations const& allowed = {})
{
  using ballast::uint128;
  using orchestrations::price;
  std::size_t const modules = problem.modules.size();
  std::uint32_t const parts = problem.global_batch / problem.microbatch;
  std::optional<ballast::model_layout> best;
  std::uint64_t best_gpus = 0;
  for (std::uint32_t llm_dp = 1; llm_dp <= parts; ++llm_dp) {
    if (parts % llm_dp != 0) { continue; }
    std::uint32_t const microbatches = parts / llm_dp;
    std::vector<std::vector<price>> prices(modules);
    for (std::size_t module = 0; module < modules; ++module) {
      auto const& of = problem.modules[module];
      auto const& kind = problem.kinds[of.kind];
      for (auto const& degree : of.degrees) {
        for (std::uint32_t pp = 1; pp * (pp == 1 ? 1 : of.virtual_stages) <= of.layers; ++pp) {
          for (std::uint32_t dp = 1; degree.tp * pp * dp <= kind.gpus && dp <= parts; ++dp) {
            bool const is_llm = module == problem.llm;
            bool const bound = is_llm || allowed.one_degree;
            if (parts % dp != 0 || kind.gpus_per_node % degree.tp != 0 || (bound && dp != llm_dp) ||
                (!is_llm && allowed.one_stage && pp > 1)) {
              continue;
            }
            price const each = orchestrations::price_of(problem, module, degree, pp, dp,
                                                        llm_dp * problem.microbatch);
            if (each.bytes <= kind.memory_bytes) { prices[module].push_back(each); }
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
          std::uint64_t& left = free[problem.modules[module].kind];
          if (each.gpus > left ||
              (allowed.one_degree && module > 0 && each.layout.tp != chosen[0]->layout.tp)) {
            continue;
          }
          chosen[module] = &each;
          left -= each.gpus;
          choose(module + 1);
          left += each.gpus;
        }
        return;
      }
      uint128 step = 0;
      uint128 slowest = 0;
      std::uint64_t gpus = 0;
      for (price const* const each : chosen) {
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
      for (price const* const each : chosen) {
        found.modules.push_back(each->layout);
        found.memory_bytes = std::max(found.memory_bytes, static_cast<std::uint64_t>(each->bytes));
      }
      if (best &&
          std::tie(time, gpus, found.modules) >= std::tie(best->step, best_gpus, best->modules)) {
        return;
      }
      best = found;
      best_gpus = gpus;
    };
    choose(0);
  }
  return best;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_ALL_ORCHESTRATIONS_HPP
