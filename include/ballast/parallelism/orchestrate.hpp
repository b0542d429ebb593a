// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

namespace ballast::inline v0 {

/// How `orchestrate` cuts the batch, and which layouts it looks at.
struct orchestrate_options {
  std::optional<std::size_t> llm{};  ///< which module is the LLM; none: the last
  std::uint32_t microbatch = 1;      ///< samples of a microbatch of one replica of the LLM
  layout_limits limits{};
};

/// The best layout by DistTrain's estimate, what it takes in the simulator, and how many layouts of
/// modules were priced for it.
///
/// Units       picoseconds; layout.step is the estimate.
struct orchestration {
  model_layout layout;
  time_units simulated = 0;
  std::uint64_t evaluated = 0;

  friend bool operator==(orchestration const&, orchestration const&) = default;
};

namespace detail {

/// What orchestrate() does.
[[nodiscard]] BALLAST_ONCE result<orchestration> best_orchestration(
    layout_problem const& problem, std::span<tokens const> batches,
    orchestrate_options const& options);

}  // namespace detail

/// Chooses how many GPUs of which kind each module gets and how it is spread over them, degree, pp
/// and dp, by DistTrain's closed form: milliseconds where `search_layouts` simulates for seconds.
///
/// The LLM sets how the batch is cut: each of its replicas takes `microbatch` samples at a time, and
/// the replicas of the other modules share these equally. A stage takes, for a microbatch, its share
/// of the module's time for as many mean samples as a replica has, and what its boundaries take; the
/// step is that of `disttrain_makespan`. GPUs that do not help stay unused, whatever
/// `may_leave_gpus` says.
///
/// Shapes      batches[n x global_batch x modules], of which the layout is simulated; none: the
///             problem's sizes, in turn.
/// Ensures     (1) no other layout has a shorter estimate; of equal ones it has the fewest GPUs, and
///                 of equally many the smallest numbers (tp, pp, dp of the first module, then the
///                 next), then the smallest kinds
///             (2) price_layout accepts it, where GPUs may stay unused: it lies inside nodes, no
///                 kind has fewer GPUs than its modules get, and every GPU has memory
///             (3) dp divides the microbatches of the batch, and the last module's dp gives each of
///                 its replicas a sample
///             (4) `simulated` is what simulate_layout says
///             (5) the same on every machine
/// Errors      those of check_layout_problem, and of simulate_layout for the batches; out_of_range:
///             the LLM is no module, the batch is no whole number of microbatches, or two degrees of
///             modules that may share a kind divide neither each other, so that groups of GPUs would
///             not fill nodes; infeasible: none fits. Then `position` is the module that lacks memory
///             or GPUs, and the sentence says how much.
/// Complexity  a sweep over Pareto fronts: milliseconds for three modules on a thousand GPUs
///             (docs/orchestration.md); as many sweeps as there are assignments of kinds whose
///             bound is no longer than the best step.
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025, section
///             4.
///
///     auto const found = orchestrate(problem);  // tp, pp, dp of every module
///     auto const alike = orchestrate(problem, {}, {.limits = {.has_one_group = true}});
[[nodiscard]] inline result<orchestration> orchestrate(layout_problem const& problem,
                                                       std::span<tokens const> batches = {},
                                                       orchestrate_options const& options = {})
{
  return detail::best_orchestration(problem, batches, options);
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/parallelism/detail/orchestration_search.hpp>
#endif
