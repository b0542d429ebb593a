// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_SEARCH_LAYOUTS_HPP
#define BALLAST_PARALLELISM_SEARCH_LAYOUTS_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/detail/layout_search.hpp>
#include <ballast/parallelism/detail/least_overrun.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// The best layouts of a model, and how many the search has priced for it.
struct layout_ranking {
  std::vector<model_layout> layouts;  ///< best first
  std::uint64_t evaluated = 0;
};

namespace detail {

/// Why no layout of a problem fits.
[[nodiscard]] inline tl::unexpected<error> no_layout_fits(layout_problem const& problem,
                                                          overrun const& closest)
{
  auto const& modules = problem.modules;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& degrees = modules[module].degrees;
    bool const has_degree =
        std::any_of(degrees.begin(), degrees.end(), [&problem](profiled_degree const& each) {
          return each.tp <= problem.gpus && problem.gpus_per_node % each.tp == 0;
        });
    if (!has_degree) {
      return fail(error_code::infeasible, module, "module ", modules[module].name,
                  " was measured at no tensor-parallel degree that divides the ",
                  problem.gpus_per_node, " GPUs of a node and the job's ", problem.gpus,
                  " have room for; measure tp 1");
    }
  }
  if (closest.bytes == overrun::no_layout) {
    return fail(error_code::infeasible, 0, "no layout of ", modules.size(),
                " modules uses exactly ", problem.gpus,
                " GPUs with groups of tp GPUs inside nodes; use another number of GPUs");
  }
  std::string layout;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const [tp, pp, dp] = closest.modules[module];
    layout +=
        concat(module == 0 ? "" : ", ", modules[module].name, " tp ", tp, " pp ", pp, " dp ", dp);
  }
  return fail(error_code::infeasible, closest.module, "no layout fits into memory: the closest (",
              layout, ") needs ", closest.bytes, " bytes more than the ", problem.memory_bytes,
              " of a GPU for module ", modules[closest.module].name,
              "; use more GPUs or larger ones");
}

}  // namespace detail

/// Finds the layouts with the shortest steps: tp, pp and dp of every module and the number of
/// microbatches, as `price_layout` prices them, that use all GPUs.
///
/// Ensures     (1) the `best` of all layouts, each with its best number of microbatches: no
///                 feasible layout that is not returned has a shorter step than one that is
///             (2) ordered by step, then by the numbers of the modules, then of microbatches
///             (3) the same on every machine
/// Errors      those of check_layout_problem; out_of_range: best is 0; infeasible: no layout fits.
///             Then `position` is the module that was measured at no degree that can be used, or
///             that lacks memory in the layout that comes closest, and the sentence says how much.
/// Complexity  branch and bound: milliseconds for two modules on a thousand GPUs and batches of
///             thousands (docs/parallelism.md); all layouts at worst.
/// Source      the problem and its prices: H. An et al., "DFLOP: A Data-driven Framework for
///             Multimodal LLM Training Pipeline Optimization", arXiv:2603.25120, 2026, Algorithm 1
///             and Equation 1.
///
///     auto const found = search_layouts({.modules = profiles, .sizes = sizes,
///                                        .global_batch = 2048, .gpus = 1024,
///                                        .memory_bytes = std::uint64_t{80} << 30});
[[nodiscard]] inline result<layout_ranking> search_layouts(layout_problem const& problem,
                                                           std::size_t best = 1)
{
  if (auto checked = check_layout_problem(problem); !checked) {
    return tl::unexpected(checked.error());
  }
  if (best == 0) {
    return fail(error_code::out_of_range, 0, "the best 0 layouts are none; ask for 1 at least");
  }
  detail::layout_prices prices(problem);
  detail::overrun const closest = detail::least_overrun(problem, prices.memory).find();
  if (closest.bytes != 0) { return detail::no_layout_fits(problem, closest); }

  detail::layout_search search(problem, best, prices);
  search.run();
  if (search.best().empty()) {
    return fail(error_code::infeasible, 0,
                "every layout that fits takes 2^63 picoseconds or more; check the profile's units");
  }
  return layout_ranking{std::move(search.best()), search.evaluated()};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_SEARCH_LAYOUTS_HPP
