// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

namespace ballast::inline v0 {

namespace detail {

/// What `best_units` does.
[[nodiscard]] BALLAST_ONCE result<orchestration> best_orchestration(
    orchestration_problem const& problem, unit_restrictions const& asked);

}  // namespace detail

/// What chooses units for a sound problem.
template <class Policy>
concept orchestration_policy =
    std::copy_constructible<Policy> &&
    requires(Policy const& policy, orchestration_problem const& problem) {
      { policy(problem) } -> std::same_as<result<orchestration>>;
    };

/// The best of all orchestrations, or of those that are asked for.
///
/// Ensures     (1) no other one has a shorter step; of equal steps it has the fewest GPUs, and of
///                 equally many the smallest numbers (tp, pp, dp of the first module, then the
///                 next), then the smallest kinds
/// Complexity  a sweep over Pareto fronts: milliseconds for three modules on a thousand GPUs
///             (docs/orchestration.md); as many sweeps as there are assignments of kinds whose
///             bound is no longer than the best step.
struct best_units {
  unit_restrictions asked{};

  [[nodiscard]] result<orchestration> operator()(orchestration_problem const& problem) const
  {
    return detail::best_orchestration(problem, asked);
  }
};

/// Chooses how many GPUs of which kind each module gets and how it is spread over them, degree, pp
/// and dp.
///
/// A stage of a module takes, for a microbatch of `microbatch` samples in each of the LLM's
/// replicas,
///
///     t = dp_LLM microbatch (forward + backward) (layers of the stage / layers) / dp
///
/// and what its boundaries take; the step is that of `disttrain_makespan`. Frozen modules compute
/// forward only, or pass the gradient through to what is trained before them.
///
/// Ensures     (1) every group is of one of the module's degrees and inside a node; a stage, virtual
///                 ones too, has a layer at least; dp divides the microbatches of the batch
///             (2) no kind has fewer GPUs than its modules get; what does not help stays unused
///             (3) every GPU has memory: its stage's weights and gradients, its share among
///                 replicas of the optimiser, and the activations that it keeps while the modules
///                 run as one pipeline, by `interleaved_one_forward_one_backward` (1F1B where no
///                 stage has virtual ones): those of the microbatches that are on their way from it
///                 to the end of the last module, and back
///             (4) the same on every machine
/// Errors      those of check_orchestration_problem; infeasible: none fits. Then `position` is the
///             module that lacks memory or GPUs, and the sentence says how much.
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025, section
///             4.
///
///     auto const found = orchestrate(problem);  // tp, pp, dp of every module
///     auto const alike = orchestrate(problem, best_units{{.has_one_degree = true}});
template <orchestration_policy Policy = best_units>
[[nodiscard]] result<orchestration> orchestrate(orchestration_problem const& problem,
                                                Policy const& policy = {})
{
  if (auto checked = check_orchestration_problem(problem); !checked) {
    return tl::unexpected(checked.error());
  }
  auto found = policy(problem);
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  return found;
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED
#include <ballast/parallelism/detail/orchestration_search.hpp>
#endif
