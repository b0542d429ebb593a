// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <functional>
#include <tuple>

namespace ballast_test {

/// Every layout that fits, each with its cheapest number of microbatches or, if asked for, with
/// every one of them, the lowest price first, and with each of these numbers of virtual stages too:
/// loops over all numbers, without a bound.
inline std::vector<ballast::model_layout> all_layouts(
    ballast::layout_problem const& problem, bool with_all_counts = false,
    std::vector<std::uint32_t> const& virtual_stages = {})
{
  std::size_t const modules = problem.modules.size();
  ballast::detail::layout_prices prices(problem);
  std::vector<ballast::model_layout> all;
  std::vector<ballast::detail::chosen_layout> chosen(modules);
  auto const price = [&] {
    std::size_t const first = all.size();
    ballast::model_layout best;
    best.step = ballast::no_cost;
    for (auto const& each : chosen) { best.modules.push_back(each.layout); }
    if (!ballast::detail::fits_nodes(best.modules, problem.gpus, problem.gpus_per_node)) { return; }
    std::uint32_t const most = problem.global_batch / chosen.back().layout.dp;
    for (std::uint32_t count = 1; count <= most; ++count) {
      std::uint64_t const bytes = prices.bytes(chosen, count);
      if (bytes > problem.memory_bytes) { continue; }
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
        if (pp > 1 && problem.modules.back().cuts.empty() && layers % (pp * each) == 0 &&
            interleaved.memory_bytes <= problem.memory_bytes) {
          all.push_back(interleaved);
        }
      }
    }
  };
  std::function<void(std::size_t, std::uint32_t)> const place = [&](std::size_t module,
                                                                    std::uint32_t left) {
    if (module == modules) {
      if (left == 0) { price(); }
      return;
    }
    auto const& profile = problem.modules[module];
    for (std::size_t degree = 0; degree < profile.degrees.size(); ++degree) {
      auto const& of = profile.degrees[degree];
      std::uint32_t const group = of.tp * of.sp * of.ep;
      if (problem.gpus_per_node % group != 0) { continue; }
      for (std::uint32_t pp = 1; pp <= profile.layers && group * pp <= left; ++pp) {
        for (std::uint32_t dp = 1; group * pp * dp <= left; ++dp) {
          chosen[module] = {degree, {of.tp, pp, dp, of.sp, of.ep}};
          place(module + 1, left - group * pp * dp);
        }
      }
    }
  };
  place(0, problem.gpus);
  std::sort(all.begin(), all.end(), [](auto const& a, auto const& b) {
    return std::tie(a.step, a.modules, a.microbatches, a.virtual_stages) <
           std::tie(b.step, b.modules, b.microbatches, b.virtual_stages);
  });
  return all;
}

}  // namespace ballast_test
