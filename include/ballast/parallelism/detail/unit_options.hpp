// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_UNIT_OPTIONS_HPP
#define BALLAST_PARALLELISM_DETAIL_UNIT_OPTIONS_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/unit_prices.hpp>
#include <ballast/parallelism/disttrain_makespan.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// Which layouts of units are looked at: all, unless something is asked for.
struct unit_restrictions {
  bool has_one_degree = false;  ///< all modules have the same tp, and the same dp
  bool has_one_stage = false;   ///< modules other than the LLM have one stage
  std::uint32_t tp = 0;         ///< of all modules; 0: any
  std::uint32_t pp = 0;         ///< of the LLM; 0: any
};

/// A layout of one module and its price.
struct unit_option {
  module_layout layout{};
  unit_time time{};
  std::uint64_t gpus = 0;
  std::uint64_t bytes = 0;
};

/// How an orchestration cuts the batch, and, where modules share it, its tp; 0: each has its own.
struct unit_case {
  std::uint32_t llm_dp = 1;
  std::uint32_t tp = 0;
};

/// Lists the layouts of the modules of a sound problem.
class unit_options {
 public:
  unit_options(orchestration_problem const& problem, unit_restrictions const& asked)
      : problem_(problem), asked_(asked)
  {
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      prices_.emplace_back(problem, module, passes_of(problem, module));
      stages_.push_back(stages_of(module));
    }
    std::uint32_t const whole = problem.global_batch / problem.microbatch;
    for (std::uint32_t dp = 1; std::uint64_t{dp} * dp <= whole; ++dp) {
      if (whole % dp != 0) { continue; }
      replicas_.push_back(dp);
      if (whole / dp != dp) { replicas_.push_back(whole / dp); }
    }
    std::sort(replicas_.begin(), replicas_.end());
  }

  /// Whether tp GPUs of the module lie inside a node.
  [[nodiscard]] bool has_degree(std::size_t module, std::uint32_t tp) const noexcept
  {
    return kind(module).gpus_per_node % tp == 0 && (asked_.tp == 0 || asked_.tp == tp);
  }

  /// Ordered by dp, then by the degrees of the LLM.
  [[nodiscard]] std::vector<unit_case> cases() const
  {
    std::vector<unit_case> all;
    for (std::uint32_t const dp : replicas_) {
      if (!asked_.has_one_degree) {
        all.push_back({dp, 0});
        continue;
      }
      for (orchestrated_degree const& each : problem_.modules[problem_.llm].degrees) {
        all.push_back({dp, each.tp});
      }
    }
    return all;
  }

  /// The microbatches of each replica of the LLM.
  [[nodiscard]] std::uint32_t microbatches(unit_case const& of) const noexcept
  {
    return problem_.global_batch / problem_.microbatch / of.llm_dp;
  }

  /// Visits the layouts of a module that can be in an orchestration of this case, but for those
  /// that a layout with fewer stages betters in all respects. They may have more GPUs than there
  /// are, or need more memory.
  template <class Visit>
  void each(std::size_t module, unit_case const& of, Visit visit) const
  {
    bool const is_bound = module == problem_.llm || asked_.has_one_degree;
    auto const& degrees = problem_.modules[module].degrees;
    std::uint32_t const samples = of.llm_dp * problem_.microbatch;
    for (std::size_t degree = 0; degree < degrees.size(); ++degree) {
      std::uint32_t const tp = degrees[degree].tp;
      if (!has_degree(module, tp) || (of.tp != 0 && of.tp != tp)) { continue; }
      for (std::uint32_t const pp : stages_[module]) {
        auto const visit_replicas = [&](std::uint32_t dp) {
          module_layout const layout{tp, pp, dp};
          auto const [time, bytes] = prices_[module].price(degree, layout, samples);
          visit(unit_option{layout, time, layout.gpus(), bytes});
        };
        if (is_bound) {
          visit_replicas(of.llm_dp);
          continue;
        }
        for (std::uint32_t const dp : replicas_) { visit_replicas(dp); }
      }
    }
  }

  /// Whether a unit has GPUs and memory for an option, and its times fit.
  [[nodiscard]] bool fits(std::size_t module, unit_option const& option) const noexcept
  {
    return option.gpus <= kind(module).gpus && option.bytes <= kind(module).memory_bytes &&
           option.time.microbatch != no_cost && option.time.once != no_cost;
  }

  [[nodiscard]] gpu_kind const& kind(std::size_t module) const noexcept
  {
    return problem_.kinds[problem_.modules[module].kind];
  }
  [[nodiscard]] orchestration_problem const& problem() const noexcept { return problem_; }

 private:
  /// Of numbers of stages whose largest has equally many layers, the smallest is enough: the others
  /// take more GPUs, and no less of time and memory.
  [[nodiscard]] std::vector<std::uint32_t> stages_of(std::size_t module) const
  {
    unit_prices const& prices = prices_[module];
    std::uint32_t const wanted = module == problem_.llm ? asked_.pp : asked_.has_one_stage ? 1 : 0;
    std::vector<std::uint32_t> stages;
    if (wanted != 0) {
      if (prices.has_stages(wanted)) { stages.push_back(wanted); }
      return stages;
    }
    stages.push_back(1);
    std::uint32_t fewest = problem_.modules[module].layers + 1;
    for (std::uint32_t pp = 2; prices.has_stages(pp); ++pp) {
      std::uint32_t const layers = prices.layers_of_stage(pp);
      if (layers < fewest) { stages.push_back(pp); }
      fewest = std::min(fewest, layers);
    }
    return stages;
  }

  orchestration_problem const& problem_;
  unit_restrictions asked_;
  std::vector<unit_prices> prices_;
  std::vector<std::vector<std::uint32_t>> stages_;  // of each module, increasing
  std::vector<std::uint32_t> replicas_;             // divisors of the batch, increasing
};

/// Keeps of a module's options those that another one does not replace: one with no more GPUs and
/// no longer times, and of equals the smaller numbers.
///
/// Ensures     (1) ordered by the time they take once, then by GPUs, then by their numbers
///             (2) of the best orchestrations of all options, the first is one of what is kept
/// Complexity  O(n log n + n k) for k that are kept.
inline void keep_front(std::vector<unit_option>& options)
{
  std::sort(options.begin(), options.end(), [](unit_option const& a, unit_option const& b) {
    return precedes(a.time.once, b.time.once, a.gpus, b.gpus, a.layout, b.layout);
  });
  struct step {
    std::uint64_t gpus;
    time_units microbatch;
  };
  std::vector<step> stairs;  // of what is kept: more GPUs, shorter times
  std::size_t kept = 0;
  for (unit_option const& option : options) {
    auto const [gpus, microbatch] = step{option.gpus, option.time.microbatch};
    auto const after =
        std::upper_bound(stairs.begin(), stairs.end(), gpus,
                         [](std::uint64_t own, step const& other) { return own < other.gpus; });
    bool const has_fewer = after != stairs.begin();
    if (has_fewer && (after - 1)->microbatch <= microbatch) { continue; }
    auto const first = has_fewer && (after - 1)->gpus == gpus ? after - 1 : after;
    auto const last = std::find_if(after, stairs.end(), [own = microbatch](step const& other) {
      return other.microbatch < own;
    });
    stairs.insert(stairs.erase(first, last), {gpus, microbatch});
    options[kept++] = option;
  }
  options.resize(kept);
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_UNIT_OPTIONS_HPP
