// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_UNIT_OPTIONS_HPP
#define BALLAST_PARALLELISM_DETAIL_UNIT_OPTIONS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/unit_prices.hpp>
#include <ballast/parallelism/disttrain_makespan.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// A layout of one module and its price.
struct unit_option {
  module_layout layout{};
  unit_price price{};
  std::uint64_t gpus = 0;
  std::int64_t room = -1;  ///< see unit_prices

  [[nodiscard]] unit_time const& time() const noexcept { return price.time; }
};

/// How an orchestration cuts the batch, and, where modules share it, its degree; of tp 0: each has
/// its own.
struct unit_case {
  std::uint32_t llm_dp = 1;
  parallel_degree degree{0};
};

/// Lists the layouts of the modules of a sound problem, each on GPUs of a given kind.
class unit_options {
 public:
  unit_options(orchestration_problem const& problem, std::vector<std::size_t> kinds,
               unit_restrictions asked)
      : problem_(problem), kinds_(std::move(kinds)), asked_(std::move(asked))
  {
    if (asked_.most_gpus) { most_gpus_ = asked_.most_gpus(kinds_); }
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      prices_.emplace_back(problem, module, kind(module), passes_of(problem, module));
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

  /// Whether a module may have a degree on GPUs of a kind: they then lie inside a node.
  [[nodiscard]] bool has_degree(std::size_t kind, parallel_degree const& degree) const noexcept
  {
    return problem_.kinds[kind].gpus_per_node % degree.gpus() == 0 &&
           (asked_.tp == 0 || asked_.tp == degree.tp);
  }

  /// Ordered by dp, then by the degrees of the LLM.
  [[nodiscard]] std::vector<unit_case> cases() const
  {
    std::vector<unit_case> all;
    for (std::uint32_t const dp : replicas_) {
      if (!asked_.has_one_degree) {
        all.push_back({dp});
        continue;
      }
      for (orchestrated_degree const& each : problem_.modules[problem_.llm].degrees) {
        all.push_back({dp, degree_of(each)});
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
      parallel_degree const parallel = degree_of(degrees[degree]);
      if (!has_degree(kinds_[module], parallel) || (of.degree.tp != 0 && of.degree != parallel)) {
        continue;
      }
      for (std::uint32_t const pp : stages_[module]) {
        auto const visit_replicas = [&](std::uint32_t dp) {
          module_layout const layout = layout_at(parallel, pp, dp);
          unit_price const price = prices_[module].price(degree, layout, samples);
          visit(unit_option{layout, price, layout.gpus(),
                            prices_[module].room(price, pp, microbatches(of))});
        };
        if (is_bound) {
          visit_replicas(of.llm_dp);
          continue;
        }
        for (std::uint32_t const dp : replicas_) { visit_replicas(dp); }
      }
    }
  }

  /// Whether a unit has GPUs and, with nothing behind it, memory for an option, and its times fit.
  [[nodiscard]] bool fits(std::size_t module, unit_option const& option) const noexcept
  {
    return option.gpus <= most_gpus(module) && option.room >= 0 &&
           option.time().microbatch != no_cost && option.time().once != no_cost;
  }

  /// What the fullest GPU of an option holds.
  [[nodiscard]] std::uint64_t bytes(std::size_t module, unit_option const& option,
                                    std::uint64_t behind, unit_case const& of) const noexcept
  {
    return prices_[module].bytes(option.price, option.layout.pp, behind, microbatches(of));
  }

  /// The microbatches on their way behind the module before one that has pp stages.
  [[nodiscard]] std::uint64_t depth(std::size_t module, std::uint32_t pp, std::uint64_t behind,
                                    unit_case const& of) const noexcept
  {
    return prices_[module].depth(pp, behind, microbatches(of));
  }

  [[nodiscard]] gpu_kind const& kind(std::size_t module) const noexcept
  {
    return problem_.kinds[kinds_[module]];
  }
  /// Of each module, the number of its kind.
  [[nodiscard]] std::vector<std::size_t> const& kinds() const noexcept { return kinds_; }
  [[nodiscard]] orchestration_problem const& problem() const noexcept { return problem_; }

 private:
  [[nodiscard]] std::uint64_t most_gpus(std::size_t module) const noexcept
  {
    std::uint64_t const all = kind(module).gpus;
    return most_gpus_.empty() ? all : std::min(all, most_gpus_[module]);
  }

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
  std::vector<std::size_t> kinds_;
  unit_restrictions asked_;
  std::vector<std::uint64_t> most_gpus_;  // that are asked for; empty: all
  std::vector<unit_prices> prices_;
  std::vector<std::vector<std::uint32_t>> stages_;  // of each module, increasing
  std::vector<std::uint32_t> replicas_;             // divisors of the batch, increasing
};

/// Keeps of a module's options those that another one does not replace: one with no more GPUs, no
/// longer times, room for no fewer microbatches behind it and, unless no module is before it, no
/// more stages.
///
/// Ensures     (1) ordered by the time they take once, then by GPUs, then by their numbers
///             (2) of the best orchestrations of all options, the first is one of what is kept
/// Complexity  O(n log n + n k) for k that are kept.
inline void keep_useful(std::vector<unit_option>& options, bool is_first)
{
  std::sort(options.begin(), options.end(), [](unit_option const& a, unit_option const& b) {
    return precedes(a.time().once, b.time().once, a.gpus, b.gpus, a.layout, b.layout);
  });
  std::size_t kept = 0;
  for (unit_option const& option : options) {
    auto const end = options.begin() + static_cast<std::ptrdiff_t>(kept);
    bool const is_replaced = std::any_of(options.begin(), end, [&](unit_option const& other) {
      return other.gpus <= option.gpus && other.time().microbatch <= option.time().microbatch &&
             other.room >= option.room && (is_first || other.layout.pp <= option.layout.pp);
    });
    if (!is_replaced) { options[kept++] = option; }
  }
  options.resize(kept);
}

/// The options of a module that can be in the best orchestration of a case.
struct useful_options {
  std::vector<unit_option> all;
  std::vector<std::uint32_t> stages;  ///< that they have, increasing
  time_units least_once = no_cost;
  time_units least_microbatch = no_cost;

  void keep_useful_only(bool is_first)
  {
    keep_useful(all, is_first);
    for (unit_option const& each : all) {
      stages.push_back(each.layout.pp);
      least_once = std::min(least_once, each.time().once);
      least_microbatch = std::min(least_microbatch, each.time().microbatch);
    }
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_UNIT_OPTIONS_HPP
