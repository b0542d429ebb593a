// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SHORTFALL_HPP
#define BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SHORTFALL_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/parallelism/detail/unit_options.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ballast::inline v0::detail {

/// What no orchestration of a problem has, once it is known that there is none: memory for a
/// module, however many GPUs it gets; else GPUs for all modules.
class orchestration_shortfall {
 public:
  explicit orchestration_shortfall(unit_options const& options) : options_(options)
  {
    for (unit_case const& each : options.cases()) { look_at(each); }
  }

  [[nodiscard]] tl::unexpected<error> sentence() const
  {
    auto const& problem = options_.problem();
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      auto const& of = problem.modules[module];
      bool const has_degree = std::any_of(
          of.degrees.begin(), of.degrees.end(),
          [&](orchestrated_degree const& each) { return options_.has_degree(module, each.tp); });
      if (!has_degree) {
        return fail(error_code::infeasible, module, "module ", of.name,
                    " has times at no tensor-parallel degree that ", "can be used on nodes of ",
                    options_.kind(module).gpus_per_node, " GPUs; give a divisor of these");
      }
    }
    if (gpus_.lacking == nothing && memory_.lacking == nothing) {
      return fail(error_code::infeasible, 0,
                  "the modules have no tensor-parallel degree or number of stages that they may "
                  "have; give more of them times, or ask for less");
    }
    if (gpus_.lacking == nothing) {
      auto const& of = problem.modules[memory_.module];
      return fail(error_code::infeasible, memory_.module,
                  "no orchestration fits into memory: module ", of.name, " needs ", memory_.lacking,
                  " bytes more than the ", options_.kind(memory_.module).memory_bytes,
                  " of a GPU where it comes closest (", text(memory_.layouts[memory_.module]),
                  "); use larger GPUs, or smaller microbatches");
    }
    if (gpus_.lacking == 0) {
      return fail(error_code::infeasible, 0,
                  "every orchestration that fits takes 2^63 picoseconds or more; check the times");
    }
    std::string layouts;
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      if (problem.modules[module].kind != gpus_.kind) { continue; }
      layouts += (layouts.empty() ? "" : ", ") + problem.modules[module].name + " " +
                 text(gpus_.layouts[module]);
    }
    std::string const of_kind = problem.kinds.size() == 1 ? "" : concat(" of kind ", gpus_.kind);
    std::uint64_t const there = problem.kinds[gpus_.kind].gpus;
    return fail(error_code::infeasible, gpus_.module,
                "no orchestration has GPUs enough: the closest (", layouts, ") needs ",
                gpus_.lacking, " more than the ", there, of_kind, "; use more GPUs or larger ones");
  }

 private:
  static constexpr std::uint64_t nothing = std::numeric_limits<std::uint64_t>::max();

  struct closest {
    std::uint64_t lacking = nothing;
    std::size_t module = 0;
    std::size_t kind = 0;
    std::vector<module_layout> layouts;
  };

  [[nodiscard]] static std::string text(module_layout const& layout)
  {
    return concat("tp ", layout.tp, " pp ", layout.pp, " dp ", layout.dp);
  }

  /// The smallest layout of each module that memory suffices for, and where there is none, the one
  /// that lacks least.
  void look_at(unit_case const& of)
  {
    auto const& problem = options_.problem();
    closest lacks_memory{0, 0, 0, {}};
    closest smallest{0, 0, 0, {}};
    std::vector<std::uint64_t> wanted(problem.kinds.size(), 0);
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      std::uint64_t const memory = options_.kind(module).memory_bytes;
      std::uint64_t least = nothing;
      std::uint64_t gpus = nothing;
      module_layout layout;
      options_.each(module, of, [&](unit_option const& option) {
        std::uint64_t const lacking = option.bytes > memory ? option.bytes - memory : 0;
        if (lacking < least || (lacking == least && option.gpus < gpus)) {
          least = lacking;
          gpus = option.gpus;
          layout = option.layout;
        }
      });
      if (least == nothing) { return; }  // the module cannot be as this case has it
      if (least > lacks_memory.lacking) {
        lacks_memory.lacking = least;
        lacks_memory.module = module;
      }
      lacks_memory.layouts.push_back(layout);
      wanted[problem.modules[module].kind] += gpus;
    }
    if (lacks_memory.lacking > 0) {
      if (lacks_memory.lacking < memory_.lacking) { memory_ = lacks_memory; }
      return;
    }
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
      if (problem.modules[module - 1].kind == smallest.kind) { smallest.module = module - 1; }
    }
    smallest.layouts = lacks_memory.layouts;
    gpus_ = smallest;
  }

  unit_options const& options_;
  closest memory_;
  closest gpus_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SHORTFALL_HPP
