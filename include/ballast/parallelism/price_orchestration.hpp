// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_PRICE_ORCHESTRATION_HPP
#define BALLAST_PARALLELISM_PRICE_ORCHESTRATION_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/unit_prices.hpp>
#include <ballast/parallelism/disttrain_makespan.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// Prices units that the caller has chosen, as `orchestrate` prices its own.
///
/// Shapes      one layout for each module, and one kind, or none where each module has but one.
/// Errors      those of check_orchestration_problem; infeasible, position of the module: its degree,
///             pp, dp or kind is none that it can have, or a GPU would lack memory; position 0 also:
///             the modules get more GPUs of a kind than there are, or a step takes 2^63 picoseconds
///             or more.
/// Complexity  O(modules), and that of check_orchestration_problem.
[[nodiscard]] inline result<model_layout> price_orchestration(
    orchestration_problem const& problem, std::span<module_layout const> modules,
    std::span<std::size_t const> kinds = {})
{
  if (auto checked = check_orchestration_problem(problem); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const refuse = [](std::size_t position, std::string const& why) {
    return fail(error_code::infeasible, position, why);
  };
  if (modules.size() != problem.modules.size()) {
    return refuse(0, detail::concat("layouts of ", detail::counted(modules.size(), "module"),
                                    " were given for ", problem.modules.size()));
  }
  if (!kinds.empty() && kinds.size() != modules.size()) {
    return refuse(
        0, detail::concat("kinds of GPUs were given for ", detail::counted(kinds.size(), "module"),
                          " of ", modules.size()));
  }
  std::vector<std::size_t> assigned(kinds.begin(), kinds.end());
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const allowed = detail::kinds_of(problem, module);
    if (kinds.empty()) { assigned.push_back(allowed.front()); }
    if (kinds.empty() ? allowed.size() > 1
                      : !std::binary_search(allowed.begin(), allowed.end(), kinds[module])) {
      return refuse(module,
                    detail::concat("module ", problem.modules[module].name,
                                   kinds.empty() ? " may get GPUs of several kinds; say which"
                                                 : " may not get GPUs of the given kind"));
    }
  }
  std::uint32_t const parts = problem.global_batch / problem.microbatch;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    if (modules[module].dp == 0 || parts % modules[module].dp != 0) {
      auto const why = detail::concat("module ", of.name, " cannot have dp ", modules[module].dp,
                                      "; give a divisor of the ",
                                      detail::counted(parts, "microbatch"), " of a batch");
      return refuse(module, why);
    }
  }
  std::uint32_t const llm_dp = modules[problem.llm].dp;
  model_layout priced;
  priced.modules.assign(modules.begin(), modules.end());
  priced.microbatches = parts / llm_dp;
  std::vector<detail::unit_prices> all_prices;
  std::vector<detail::unit_price> priced_units;
  std::vector<unit_time> times;
  std::vector<std::uint64_t> wanted(problem.kinds.size(), 0);
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    module_layout const& layout = modules[module];
    auto const degree = std::find_if(of.degrees.begin(), of.degrees.end(),
                                     [&layout](orchestrated_degree const& each) {
                                       return degree_of(each) == degree_of(layout);
                                     });
    auto const& kind = problem.kinds[assigned[module]];
    std::uint32_t const per_node = kind.gpus_per_node;
    if (degree == of.degrees.end() || per_node % layout.group() != 0) {
      return refuse(module,
                    detail::concat("module ", of.name, " cannot have ", text_of(degree_of(layout)),
                                   "; give a degree with times that divides the ",
                                   detail::counted(per_node, "GPU"), " of a node"));
    }
    detail::unit_prices const prices(problem, module, kind, detail::passes_of(problem, module));
    if (!prices.has_stages(layout.pp)) {
      auto const why =
          detail::concat("module ", of.name, " of ", detail::counted(of.layers, "layer"),
                         " cannot have ", detail::counted(layout.pp, "stage"),
                         "; give each a layer at least, and each virtual one");
      return refuse(module, why);
    }
    priced_units.push_back(prices.price(static_cast<std::size_t>(degree - of.degrees.begin()),
                                        layout, llm_dp * problem.microbatch));
    times.push_back(priced_units.back().time);
    all_prices.push_back(prices);
    wanted[assigned[module]] += layout.gpus();
  }
  std::uint64_t behind = 0;
  std::vector<std::uint64_t> bytes(modules.size());
  for (std::size_t module = modules.size(); module-- > 0;) {
    std::uint32_t const pp = modules[module].pp;
    bytes[module] = all_prices[module].bytes(priced_units[module], pp, behind, priced.microbatches);
    behind = all_prices[module].depth(pp, behind, priced.microbatches);
    priced.memory_bytes = std::max(priced.memory_bytes, bytes[module]);
  }
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    std::uint64_t const memory = problem.kinds[assigned[module]].memory_bytes;
    if (bytes[module] > memory) {
      return refuse(module,
                    detail::concat("a GPU of module ", of.name, " would hold ",
                                   detail::counted(bytes[module], "byte"), ", and has ", memory));
    }
  }
  for (std::size_t kind = 0; kind < wanted.size(); ++kind) {
    if (wanted[kind] > problem.kinds[kind].gpus) {
      return refuse(
          0, detail::concat("the modules get ", detail::counted(wanted[kind], "GPU"), " of kind ",
                            kind, ", and there are ", problem.kinds[kind].gpus));
    }
  }
  priced.step = disttrain_makespan(detail::span_of(times), priced.microbatches);
  if (priced.step == no_cost) {
    return refuse(0, "a step takes 2^63 picoseconds or more; check the times");
  }
  return priced;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_PRICE_ORCHESTRATION_HPP
