// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <functional>
#include <tuple>

namespace ballast_test {

/// Every layout that fits, on each assignment of kinds of GPUs, each with its cheapest number of
/// microbatches or, if asked for, with every one of them, the lowest price first, and with each of
/// these numbers of virtual stages too: loops over all numbers, without a bound.
inline std::vector<ballast::model_layout> all_layouts(
    ballast::layout_problem const& problem, bool with_all_counts = false,
    std::vector<std::uint32_t> const& virtual_stages = {})
{
  std::size_t const modules = problem.modules.size();
  std::vector<ballast::model_layout> all;
  ballast::detail::price_list list(problem);
  for (auto const& kinds : ballast::detail::kind_assignments(problem)) {
    ballast::detail::assigned_job const job(problem, kinds);
    ballast::detail::layout_prices prices(job, list);
    std::vector<ballast::detail::chosen_layout> chosen(modules);
    std::vector<std::uint32_t> left;
    for (auto const& kind : problem.kinds) { left.push_back(kind.gpus); }
    auto const price = [&] {
      std::size_t const first = all.size();
      ballast::model_layout best;
      best.step = ballast::no_cost;
      for (auto const& each : chosen) { best.modules.push_back(each.layout); }
      if (!ballast::detail::fits_kinds(job, best.modules)) { return; }
      if (problem.kinds.size() > 1) { best.kinds = kinds; }
      best.virtual_stages = job.virtual_stages(modules - 1, chosen.back().layout.pp);
      std::uint32_t const most = problem.global_batch / chosen.back().layout.dp;
      for (std::uint32_t count = 1; count <= most; ++count) {
        std::uint64_t const bytes = prices.bytes(chosen, count);
        if (!prices.suffices()) { continue; }
        ballast::time_units const step = prices.step(chosen, count);
        if (step == ballast::no_cost || (!with_all_counts && step >= best.step)) { continue; }
        best.step = step;
        best.microbatches = count;
        best.memory_bytes = bytes;
        if (with_all_counts) { all.push_back(best); }
      }
      if (!with_all_counts && best.step != ballast::no_cost) { all.push_back(best); }
      std::size_t const plain = all.size();
      for (std::size_t at = first; at < plain; ++at) {
        std::uint32_t const layers = problem.modules.back().layers;
        std::uint32_t const pp = chosen.back().layout.pp;
        for (std::uint32_t const each : virtual_stages) {
          ballast::model_layout interleaved = all[at];
          interleaved.virtual_stages = each;
          interleaved.memory_bytes = prices.bytes(chosen, interleaved.microbatches, each);
          if (pp > 1 && each != all[at].virtual_stages && problem.modules.back().cuts.empty() &&
              layers % (pp * each) == 0 && prices.suffices()) {
            all.push_back(interleaved);
          }
        }
      }
    };
    std::function<void(std::size_t)> const place = [&](std::size_t module) {
      if (module == modules) {
        bool const uses_all = std::count(left.begin(), left.end(), 0U) == std::ssize(left);
        if (uses_all || problem.may_leave_gpus) { price(); }
        return;
      }
      auto const& profile = problem.modules[module];
      std::uint32_t& free = left[kinds[module]];
      for (std::size_t degree = 0; degree < profile.degrees.size(); ++degree) {
        auto const& of = profile.degrees[degree];
        std::uint32_t const group = of.tp * of.sp * of.ep;
        if (problem.kinds[kinds[module]].gpus_per_node % group != 0) { continue; }
        for (std::uint32_t pp = 1; pp <= profile.layers && group * pp <= free; ++pp) {
          std::uint32_t const parts =
              problem.roles.empty() || pp == 1 ? 1 : problem.roles[module].virtual_stages;
          if (parts > 1 && profile.layers % (pp * parts) != 0) { continue; }
          std::uint32_t const there = free;
          for (std::uint32_t dp = 1; group * pp * dp <= there; ++dp) {
            auto const asked = problem.roles.empty() ? ballast::weight_sharding::whole
                                                     : problem.roles[module].weights;
            free = there - group * pp * dp;
            if (asked != ballast::weight_sharding::sharded) {
              chosen[module] = {degree, {of.tp, pp, dp, of.sp, of.ep, false}};
              place(module + 1);
            }
            if (asked != ballast::weight_sharding::whole) {
              chosen[module] = {degree, {of.tp, pp, dp, of.sp, of.ep, true}};
              place(module + 1);
            }
          }
          free = there;
        }
      }
    };
    place(0);
  }
  std::sort(all.begin(), all.end(), [](auto const& a, auto const& b) {
    return std::tie(a.step, a.modules, a.microbatches, a.virtual_stages, a.kinds) <
           std::tie(b.step, b.modules, b.microbatches, b.virtual_stages, b.kinds);
  });
  return all;
}

}  // namespace ballast_test
