// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_SEARCH_LAYOUTS_HPP
#define BALLAST_PARALLELISM_SEARCH_LAYOUTS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/detail/layout_search.hpp>
#include <ballast/parallelism/detail/least_overrun.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
#include <ballast/parallelism/simulated_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// What a search for layouts may do.
struct layout_search_options {
  static constexpr std::uint32_t most_gpus = std::uint32_t{1} << 20;

  std::size_t best = 1;  ///< layouts to find, each with its best numbers of the following
  /// Numbers of virtual stages that each stage of the last module may have, beside 1, where that
  /// has several stages and all of them equally many layers; increasing, from 2.
  std::vector<std::uint32_t> virtual_stages{};
  /// What it may compute, in tasks that are simulated or bounded: 2^27 take a sixth of a second,
  /// and the most likely layouts are among what is tried then.
  std::uint64_t most_work = std::uint64_t{1} << 36;
};

/// The best layouts of a model, and what the search did for them.
///
/// Units       picoseconds.
struct layout_ranking {
  std::vector<simulated_layout> layouts;  ///< best first
  /// No layout that fits has a shorter simulated step, with any number of microbatches.
  time_units lower_bound = 0;
  /// No step of the best layout is shorter, however samples are dealt and microbatches ordered.
  time_units any_dealing = 0;
  bool is_proven = false;       ///< whether `layouts` are the best of all
  bool is_out_of_work = false;  ///< whether most_work has ended the search
  std::uint64_t listed = 0;     ///< layouts that were not ruled out by their work alone
  std::uint64_t bounded = 0;    ///< layouts with a number of microbatches that were looked at
  std::uint64_t simulated = 0;  ///< of these, those that no bound ruled out

  /// How far the best layout can be from the best of all.
  [[nodiscard]] double gap() const noexcept
  {
    return layouts.empty() ? 0 : gap_above(ratio{layouts.front().simulated}, ratio{lower_bound});
  }
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
          std::uint64_t const group = degree_of(each).gpus();
          return group <= problem.gpus && problem.gpus_per_node % group == 0;
        });
    if (!has_degree) {
      return fail(error_code::infeasible, module, "module ", modules[module].name,
                  " was measured at no parallel degree whose GPUs divide the ",
                  counted(problem.gpus_per_node, "GPU"), " of a node and the job's ", problem.gpus,
                  " have room for; measure tp 1");
    }
  }
  if (closest.bytes == overrun::no_layout) {
    return fail(error_code::infeasible, 0,
                closest.is_certain ? "no layout of " : "no layout that was tried of ",
                counted(modules.size(), "module"), " uses exactly ", counted(problem.gpus, "GPU"),
                " with groups of tp x sp x ep GPUs inside nodes; use another number of GPUs");
  }
  std::string layout;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    layout += concat(module == 0 ? "" : ", ", modules[module].name, " ",
                     text_of(closest.modules[module]));
  }
  return fail(error_code::infeasible, closest.module, "no layout fits into memory: the closest (",
              layout, ") needs ", counted(closest.bytes, "byte"), " more than the ",
              problem.memory_bytes, " of a GPU for module ", modules[closest.module].name,
              "; use more GPUs or larger ones",
              closest.is_certain ? "" : ", and not all layouts were tried");
}

}  // namespace detail

/// Finds the layouts with the shortest steps in simulation: degree, pp and dp of every module, the
/// number of microbatches and, where asked for, of virtual stages, of all that price_layout accepts
/// and that hold the batches, as dealt_memory has it. A layout's memory_bytes are the larger of
/// both.
///
/// Shapes      batches[n x global_batch x modules], as simulate_layout takes them; n >= 1.
/// Ensures     (1) where is_proven: the `best` of all layouts, each with its best number of
///                 microbatches and virtual stages, by the steps of simulate_layout; where not, no
///                 layout has a step below lower_bound
///             (2) ordered by simulated step, then by price, then by the numbers of the modules,
///                 then of microbatches, then of virtual stages
///             (3) the same on every machine
/// Errors      those of check_layout_problem, and of simulate_layout for the batches; out_of_range:
///             more than most_gpus, best is 0, or virtual stages are not increasing from 2; infeasible: no layout fits.
///             Then `position` is the module that was measured at no degree that can be used, or
///             that lacks memory in the layout that comes closest, and the sentence says how much.
///             Or most_work ended before a layout was simulated.
/// Complexity  most_work at worst; docs/parallelism.md says what it takes for models of today.
/// Source      the problem and its prices: H. An et al., "DFLOP: A Data-driven Framework for
///             Multimodal LLM Training Pipeline Optimization", arXiv:2603.25120, 2026, Algorithm 1
///             and Equation 1, which returns the layout with the lowest price.
///
///     auto const found = search_layouts({.modules = profiles, .sizes = sizes,
///                                        .global_batch = 2048, .gpus = 1024,
///                                        .memory_bytes = std::uint64_t{80} << 30}, batches);
[[nodiscard]] inline result<layout_ranking> search_layouts(
    layout_problem const& problem, std::span<tokens const> batches,
    layout_search_options const& options = {})
{
  if (auto checked = check_layout_problem(problem); !checked) {
    return tl::unexpected(checked.error());
  }
  if (auto checked = detail::check_batches(problem, batches); !checked) {
    return tl::unexpected(checked.error());
  }
  if (problem.gpus > layout_search_options::most_gpus) {
    return fail(error_code::out_of_range, 0, "layouts on ", detail::counted(problem.gpus, "GPU"),
                " are too many; ", "search those of at most ", layout_search_options::most_gpus);
  }
  if (options.best == 0) {
    return fail(error_code::out_of_range, 0, "the best 0 layouts are none; ask for 1 at least");
  }
  for (std::size_t at = 0; at < options.virtual_stages.size(); ++at) {
    std::uint32_t const least = at == 0 ? 2 : options.virtual_stages[at - 1] + 1;
    if (options.virtual_stages[at] < least) {
      return fail(error_code::out_of_range, at, "a stage may have ", options.virtual_stages[at],
                  " virtual ones; give numbers from 2 on, in increasing order, once each");
    }
  }
  detail::layout_prices prices(problem);
  detail::overrun const closest = detail::least_overrun(problem, prices.memory).find();
  if (closest.bytes != 0) { return detail::no_layout_fits(problem, closest); }

  detail::layout_search search(problem, batches, prices, options.best,
                               detail::span_of(options.virtual_stages), options.most_work);
  search.run();
  if (search.best().empty() && search.is_spent()) {
    return fail(error_code::infeasible, 0, "work of ", options.most_work,
                " ended before a layout was simulated; allow more");
  }
  if (search.best().empty() && search.has_overrun()) {
    return fail(error_code::infeasible, 0, "no layout that was tried holds the microbatches into ",
                "which the batches are dealt; use more GPUs or larger ones");
  }
  if (search.best().empty()) {
    return fail(error_code::infeasible, 0, "every layout that fits takes 2^53 picoseconds or more ",
                "on some stage", problem.bytes_per_second == 0 ? "" : " or between two",
                "; check the ",
                problem.bytes_per_second == 0 ? "" : "bandwidth, in bytes per second, and the ",
                "profile's units");
  }
  layout_ranking ranking{std::move(search.best())};
  ranking.lower_bound = search.least_step();
  ranking.any_dealing = search.bound_of(ranking.layouts.front().layout);
  ranking.is_proven = search.is_proven();
  ranking.is_out_of_work = search.is_spent() && !search.is_proven();
  ranking.listed = search.layouts();
  ranking.bounded = search.bounded();
  ranking.simulated = search.simulated();
  return ranking;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_SEARCH_LAYOUTS_HPP
