// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_ORCHESTRATE_HPP
#define BALLAST_PARALLELISM_ORCHESTRATE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/parallelism/detail/orchestration_search.hpp>
#include <ballast/parallelism/detail/orchestration_shortfall.hpp>
#include <ballast/parallelism/detail/unit_options.hpp>
#include <ballast/parallelism/disttrain_makespan.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// All ways to give each module of a sound problem one of its kinds, in increasing order.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> kind_assignments(
    orchestration_problem const& problem)
{
  std::vector<std::vector<std::size_t>> all{{}};
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    std::vector<std::vector<std::size_t>> longer;
    for (auto const& before : all) {
      for (std::size_t const kind : kinds_of(problem, module)) {
        longer.push_back(before);
        longer.back().push_back(kind);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// What a step takes at least where modules get GPUs of given kinds: in every case of the batch,
/// each module takes the least of its layouts once, and the slowest one sets the pace.
class assignment_bounds {
 public:
  static constexpr uint128 none = static_cast<uint128>(no_cost) * no_cost;

  assignment_bounds(orchestration_problem const& problem, unit_restrictions asked)
      : modules_(problem.modules.size())
  {
    asked.most_gpus = nullptr;  // no bound needs them
    for (std::size_t kind = 0; kind < problem.kinds.size(); ++kind) {
      unit_options const options(problem, std::vector<std::size_t>(modules_, kind), asked);
      for (unit_case const& of : options.cases()) {
        if (kind == 0) { microbatches_.push_back(options.microbatches(of)); }
        for (std::size_t module = 0; module < modules_; ++module) {
          unit_time least{no_cost, no_cost};
          options.each(module, of, [&](unit_option const& option) {
            ++evaluated_;
            if (!options.fits(module, option)) { return; }
            least.microbatch = std::min(least.microbatch, option.time().microbatch);
            least.once = std::min(least.once, option.time().once);
          });
          least_.push_back(least);
        }
      }
    }
  }

  /// `none` where a module has no layout that fits.
  [[nodiscard]] uint128 of(std::vector<std::size_t> const& kinds) const
  {
    uint128 least = none;
    std::size_t const cases = microbatches_.size();
    for (std::size_t number = 0; number < cases; ++number) {
      time_units slowest = 0;
      uint128 once = 0;
      for (std::size_t module = 0; module < modules_; ++module) {
        unit_time const& each = least_[(kinds[module] * cases + number) * modules_ + module];
        slowest = std::max(slowest, each.microbatch);
        once += static_cast<uint128>(each.once);
      }
      if (slowest == no_cost) { continue; }
      least = std::min(least, static_cast<uint128>(slowest) * (microbatches_[number] - 1) + once);
    }
    return least;
  }

  [[nodiscard]] std::uint64_t evaluated() const noexcept { return evaluated_; }

 private:
  std::size_t modules_;
  std::vector<std::uint32_t> microbatches_;  // of each case
  std::vector<unit_time> least_;             // of each kind, case and module
  std::uint64_t evaluated_ = 0;
};

/// The best orchestration over all assignments of kinds. Those with the least bounds come first,
/// and none is searched whose bound is longer than the best step.
[[nodiscard]] inline std::optional<orchestration> find_orchestration(
    orchestration_problem const& problem, unit_restrictions const& asked)
{
  struct candidate {
    uint128 bound;
    std::vector<std::size_t> kinds;
  };
  std::vector<candidate> candidates;
  for (auto& kinds : kind_assignments(problem)) { candidates.push_back({0, std::move(kinds)}); }
  std::uint64_t evaluated = 0;
  if (candidates.size() > 1) {
    assignment_bounds const bounds(problem, asked);
    for (candidate& each : candidates) { each.bound = bounds.of(each.kinds); }
    std::sort(candidates.begin(), candidates.end(), [](candidate const& a, candidate const& b) {
      return precedes(a.bound, b.bound, a.kinds, b.kinds);
    });
    evaluated = bounds.evaluated();
  }
  std::optional<orchestration> best;
  for (candidate const& each : candidates) {
    bool const is_longer = best && each.bound > static_cast<uint128>(best->layout.step);
    if (is_longer || each.bound == assignment_bounds::none) { break; }
    unit_options const options(problem, each.kinds, asked);
    orchestration_search search(options, std::move(best));
    search.run();
    best = search.best();
    evaluated += search.evaluated();
  }
  if (best) { best->evaluated = evaluated; }
  return best;
}

[[nodiscard]] inline result<orchestration> best_orchestration(orchestration_problem const& problem,
                                                              unit_restrictions const& asked)
{
  if (auto found = find_orchestration(problem, asked)) { return *std::move(found); }
  std::optional<orchestration_shortfall> closest;
  for (auto const& kinds : kind_assignments(problem)) {
    orchestration_shortfall shortfall(unit_options(problem, kinds, asked));
    if (!closest || shortfall.is_closer_than(*closest)) { closest.emplace(std::move(shortfall)); }
  }
  return closest->sentence();
}

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
  return policy(problem);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_ORCHESTRATE_HPP
