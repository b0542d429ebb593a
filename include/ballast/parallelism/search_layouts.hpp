// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

#include <functional>

namespace ballast::inline v0 {

/// The best layouts of a model, and what the search did for them.
///
/// Units       picoseconds.
struct layout_ranking {
  std::vector<simulated_layout> layouts;  ///< best first
  /// No layout that fits has a shorter simulated step, with any number of microbatches.
  time_units lower_bound = 0;
  /// No step of the best layout is shorter, however samples are dealt and microbatches ordered: the
  /// work of each module is shared by its replicas.
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

/// What a search for layouts may do.
struct layout_search_options {
  static constexpr std::uint32_t most_gpus = std::uint32_t{1} << 20;
  static constexpr std::uint64_t until_proven = ~std::uint64_t{0};

  std::size_t best = 1;  ///< layouts to find, each with its best numbers of the following
  /// Numbers of virtual stages that each stage of the last module may have, beside 1, where that
  /// has several stages and all of them equally many layers; increasing, from 2.
  std::vector<std::uint32_t> virtual_stages{};
  layout_limits limits{};    ///< the LLM is the last module
  sample_dealing dealing{};  ///< with which steps are simulated
  /// What a batch takes with a layout in the end, such as scheduled_steps() says; an error leaves the
  /// layout out. None: what simulate_layout says.
  std::function<result<time_units>(model_layout const&, std::span<tokens const> batch)> step{};
  /// How many pairs of a layout and its numbers it is asked about for the first batch: those of the
  /// shortest steps as dealt, up to four of a layout. For each further batch the better half is left.
  std::size_t most_steps = 8;
  /// Whether replicas of a module may have unequal tp where `step` is given: it is then asked about
  /// `most_steps` more layouts, in which a replica of a short one is split, joined to another, added
  /// or left out, or gives GPUs to another module.
  bool has_unequal_replicas = false;
  /// Schedules with split backwards that are tried beside whole ones, where samples are as dealt:
  /// without `step`.
  std::vector<layout_schedule> schedules{};
  /// With how many pairs of a layout and its numbers: the most likely ones, first by rules, then,
  /// those of the shortest steps first, planned. That may be two fifths of the work that the search
  /// has done, and 2^26.
  std::size_t most_scheduled = 16;
  /// What it may compute, in tasks that are simulated or bounded: the most likely layouts come
  /// first. 2^30 take about two seconds; `until_proven` takes what a proof takes.
  std::uint64_t most_work = std::uint64_t{1} << 30;
  /// Is told what is known so far, whenever a shorter step is found and, beside that, each 2^28 of
  /// the work; `layouts` may then be none, and `is_proven` is not said.
  std::function<void(layout_ranking const&)> progress{};
};

namespace detail {

/// What search_layouts() does.
[[nodiscard]] BALLAST_ONCE result<layout_ranking> find_layouts(
    layout_problem const& problem, std::span<tokens const> batches,
    layout_search_options const& options);

}  // namespace detail

/// Finds the layouts with the shortest steps in simulation, as samples are dealt or, where `step` is
/// given, as the scheduler that will run deals and orders them: degree, pp and dp of every module, the
/// number of microbatches and, where asked for, of virtual stages, of all that price_layout accepts
/// and that hold the batches, as dealt_memory has it, within the limits that are given. A layout's
/// memory_bytes are the larger of
/// both.
///
/// Shapes      batches[n x global_batch x modules], as simulate_layout takes them; n >= 1.
/// Ensures     (1) where is_proven: the `best` of all layouts, each with its best number of
///                 microbatches and virtual stages, by the steps of simulate_layout; where not, no
///                 layout has a step below lower_bound. With options.schedules, each with its best
///                 schedule too. With options.step, steps are what it
///                 says, lower_bound holds for all dealings and orders, and only a step that is as
///                 short is proven
///             (2) ordered by simulated step, then by price, then by the numbers of the modules,
///                 then of microbatches, then of virtual stages, then the schedule
///             (3) the same on every machine
/// Errors      those of check_layout_problem, and of simulate_layout for the batches; out_of_range:
///             more than most_gpus, best is 0, virtual stages are not increasing from 2, or there are
///             both `step` and `schedules`; infeasible: no layout fits.
///             Then `position` is the module that was measured at no degree that can be used, or
///             that lacks memory in the layout that comes closest, and the sentence says how much.
///             Or most_work ended before a layout was simulated; or that of options.step, where it
///             refuses all layouts that it is asked about.
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
  return detail::find_layouts(problem, batches, options);
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/parallelism/detail/layout_search.hpp>
#endif
