// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_KIND_ASSIGNMENTS_HPP
#define BALLAST_PARALLELISM_DETAIL_KIND_ASSIGNMENTS_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/parallelism/detail/orchestration_search.hpp>
#include <ballast/parallelism/detail/orchestration_shortfall.hpp>
#include <ballast/parallelism/detail/unit_options.hpp>
#include <ballast/parallelism/disttrain_makespan.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_KIND_ASSIGNMENTS_HPP
