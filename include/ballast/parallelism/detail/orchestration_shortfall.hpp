// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SHORTFALL_HPP
#define BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SHORTFALL_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/unit_options.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What no orchestration of a problem has on given kinds, once it is known that there is none:
/// memory for a module, however many of the GPUs of its kind it gets; else GPUs for all modules.
class orchestration_shortfall {
 public:
  explicit orchestration_shortfall(unit_options options) : options_(std::move(options))
  {
    for (bool const held : {true, false}) {
      only_held_ = held;
      for (unit_case const& each : options_.cases()) { look_at(each); }
      if (memory_.lacking != nothing) { return; }
    }
  }

  /// Fewer GPUs are missing, or none; else less memory. What has no layouts is the farthest.
  [[nodiscard]] bool is_closer_than(orchestration_shortfall const& other) const noexcept
  {
    return precedes(gpus_.lacking, other.gpus_.lacking, memory_.lacking, other.memory_.lacking);
  }

  /// The first module that has no degree on any of its kinds; else as many as there are.
  [[nodiscard]] std::size_t without_degree() const
  {
    auto const& problem = options_.problem();
    std::size_t module = 0;
    for (; module < problem.modules.size(); ++module) {
      auto const& degrees = problem.modules[module].degrees;
      auto const kinds = kinds_of(problem, module);
      bool const has_degree = std::any_of(kinds.begin(), kinds.end(), [&](std::size_t kind) {
        return std::any_of(degrees.begin(), degrees.end(), [&](orchestrated_degree const& each) {
          return options_.has_degree(kind, degree_of(each));
        });
      });
      if (!has_degree) { break; }
    }
    return module;
  }

  [[nodiscard]] tl::unexpected<error> sentence() const
  {
    auto const& problem = options_.problem();
    std::size_t const lacking = without_degree();
    if (lacking < problem.modules.size()) {
      std::string nodes;
      for (std::size_t const kind : kinds_of(problem, lacking)) {
        nodes += concat(nodes.empty() ? "" : " or ", problem.kinds[kind].gpus_per_node);
      }
      return fail(error_code::infeasible, lacking, "module ", problem.modules[lacking].name,
                  " has times at no parallel degree that can be used on nodes of ", nodes,
                  " GPUs; give a divisor of these");
    }
    if (gpus_.lacking == nothing && memory_.lacking == nothing) {
      return fail(error_code::infeasible, 0,
                  "the modules have no parallel degree or number of stages that they may "
                  "have; give more of them times, or ask for less");
    }
    if (gpus_.lacking == nothing) {
      auto const& of = problem.modules[memory_.module];
      return fail(error_code::infeasible, memory_.module,
                  "no orchestration fits into memory: module ", of.name, " needs ",
                  counted(memory_.lacking, "byte"), " more than the ",
                  options_.kind(memory_.module).memory_bytes, " of a GPU",
                  of_kind(options_.kinds()[memory_.module]), " where it comes closest (",
                  text_of(memory_.layouts[memory_.module]),
                  "); use larger GPUs, more of them, or smaller microbatches");
    }
    if (gpus_.lacking == 0) {
      return fail(error_code::infeasible, 0,
                  "every orchestration that fits takes 2^63 picoseconds or more; check the times");
    }
    std::string layouts;
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      if (options_.kinds()[module] != gpus_.kind) { continue; }
      layouts += (layouts.empty() ? "" : ", ") + problem.modules[module].name + " " +
                 text_of(gpus_.layouts[module]);
    }
    std::uint64_t const there = problem.kinds[gpus_.kind].gpus;
    return fail(error_code::infeasible, gpus_.module,
                "no orchestration has GPUs enough: the closest (", layouts, ") needs ",
                gpus_.lacking, " more than the ", there, of_kind(gpus_.kind),
                "; use more GPUs or larger ones");
  }

 private:
  static constexpr std::uint64_t nothing = std::numeric_limits<std::uint64_t>::max();

  struct closest {
    std::uint64_t lacking = nothing;
    std::size_t module = 0;
    std::size_t kind = 0;
    std::vector<module_layout> layouts;
  };

  [[nodiscard]] std::string of_kind(std::size_t kind) const
  {
    return options_.problem().kinds.size() == 1 ? "" : concat(" of kind ", kind);
  }

  /// An option, and what it lacks of memory.
  struct lacking_option {
    unit_option option{};
    std::uint64_t bytes = nothing;
  };

  /// Of each number of stages of a module, the option that lacks least, and of these the smallest.
  [[nodiscard]] std::map<std::uint32_t, lacking_option> const& closest_of(std::size_t module,
                                                                          std::uint64_t behind)
  {
    auto const [at, is_new] = closest_.try_emplace({module, behind});
    if (!is_new) { return at->second; }
    std::uint64_t const memory = options_.kind(module).memory_bytes;
    options_.each(module, case_, [&](unit_option const& option) {
      if (only_held_ && option.gpus > options_.kind(module).gpus) { return; }
      std::uint64_t const bytes = options_.bytes(module, option, behind, case_);
      std::uint64_t const lacking = bytes > memory ? bytes - memory : 0;
      lacking_option& best = at->second[option.layout.pp];
      if (best.bytes == nothing || precedes(lacking, best.bytes, option.gpus, best.option.gpus)) {
        best = {option, lacking};
      }
    });
    return at->second;
  }

  void look_at(unit_case const& of)
  {
    case_ = of;
    closest_.clear();
    std::size_t const modules = options_.problem().modules.size();
    look_at(modules, 0, closest{0, 0, 0, std::vector<module_layout>(modules)});
  }

  /// Tries all numbers of stages for the modules before `end`, where so many microbatches are on
  /// their way behind them. `so_far` is what those from `end` on lack of memory.
  void look_at(std::size_t end, std::uint64_t behind, closest so_far)
  {
    if (so_far.lacking > memory_.lacking) { return; }
    if (end == 0) {
      if (so_far.lacking < memory_.lacking) { memory_ = so_far; }
      if (so_far.lacking == 0) { count_gpus(so_far); }
      return;
    }
    std::size_t const module = end - 1;
    std::uint64_t const before = so_far.lacking;
    std::size_t const worst = so_far.module;
    for (auto const& [pp, best] : closest_of(module, behind)) {
      so_far.lacking = std::max(before, best.bytes);
      so_far.module = best.bytes >= so_far.lacking && best.bytes > 0 ? module : worst;
      so_far.layouts[module] = best.option.layout;
      look_at(module, options_.depth(module, pp, behind, case_), so_far);
    }
  }

  /// Compares the GPUs of layouts for which memory suffices.
  void count_gpus(closest const& fitting)
  {
    auto const& problem = options_.problem();
    std::vector<std::uint64_t> wanted(problem.kinds.size(), 0);
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      wanted[options_.kinds()[module]] += fitting.layouts[module].gpus();
    }
    closest smallest{0, 0, 0, fitting.layouts};
    for (std::size_t kind = 0; kind < wanted.size(); ++kind) {
      std::uint64_t const there = problem.kinds[kind].gpus;
      std::uint64_t const lacking = wanted[kind] > there ? wanted[kind] - there : 0;
      if (lacking > smallest.lacking) {
        smallest.lacking = lacking;
        smallest.kind = kind;
      }
    }
    if (smallest.lacking >= gpus_.lacking) { return; }
    for (std::size_t module = problem.modules.size(); module > 0; --module) {
      if (options_.kinds()[module - 1] == smallest.kind) { smallest.module = module - 1; }
    }
    gpus_ = smallest;
  }

  unit_options options_;
  unit_case case_;
  bool only_held_ = true;  // layouts of no more GPUs than their kind has
  std::map<std::pair<std::size_t, std::uint64_t>, std::map<std::uint32_t, lacking_option>>
      closest_;  // of each module and number of microbatches behind it, by its stages
  closest memory_;
  closest gpus_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SHORTFALL_HPP
