// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

#include <functional>

namespace ballast::inline v0::detail {

[[nodiscard]] inline bool has_same_modules(model_layout const& a, model_layout const& b)
{
  return a.modules == b.modules && a.kinds == b.kinds && a.bags == b.bags;
}

/// Whether the groups of all replicas lie inside nodes, and take the GPUs that there are.
[[nodiscard]] inline bool fits_replicas(assigned_job const& job, model_layout const& layout)
{
  for (std::size_t kind = 0; kind < job.kinds.size(); ++kind) {
    std::vector<module_layout> replicas;
    std::uint64_t gpus = 0;
    for (std::size_t module = 0; module < layout.modules.size(); ++module) {
      std::uint32_t const count = job.assigned[module] == kind ? layout.modules[module].dp : 0;
      for (std::uint32_t each = 0; each < count; ++each) {
        replicas.push_back(layout.replica(module, each));
        gpus += replicas.back().gpus();
      }
    }
    auto const& of_kind = job.kinds[kind];
    bool const is_enough = gpus == of_kind.gpus || (job.may_leave_gpus && gpus < of_kind.gpus);
    if (!is_enough || !fits_nodes(span_of(replicas), of_kind.gpus, of_kind.gpus_per_node)) {
      return false;
    }
  }
  return true;
}

/// The replicas of a module after one of them has changed: by their tp, largest first.
[[nodiscard]] inline std::vector<std::vector<std::uint32_t>> other_replicas(
    assigned_job const& job, model_layout const& layout, std::size_t module)
{
  std::vector<std::vector<std::uint32_t>> all;
  module_layout const& own = layout.modules[module];
  if (own.is_sharded || own.sp * own.ep != 1) { return all; }
  auto const tps =
      layout.has_bags(module) ? layout.bags[module] : std::vector<std::uint32_t>(own.dp, own.tp);
  // In place of some from `at` on, so many of this tp.
  auto const replace = [&](std::size_t at, std::size_t count, std::size_t by, std::uint32_t tp) {
    bool const is_measured = job.modules[module].find(parallel_degree{.tp = tp}) != nullptr;
    if (!is_measured || job.kind(module).gpus_per_node % tp != 0) { return; }
    auto others = tps;
    auto const first = others.begin() + static_cast<std::ptrdiff_t>(at);
    others.insert(others.erase(first, first + static_cast<std::ptrdiff_t>(count)), by, tp);
    std::sort(others.begin(), others.end(), std::greater<>());
    if (!others.empty()) { all.push_back(std::move(others)); }
  };
  for (std::size_t at = 0; at < tps.size(); ++at) {
    std::uint32_t const tp = tps[at];
    if (at > 0 && tps[at - 1] == tp) { continue; }  // alike
    if (at + 1 < tps.size() && tps[at + 1] == tp) { replace(at, 2, 1, 2 * tp); }
    if (tp % 2 == 0) {
      replace(at, 1, 2, tp / 2);
      replace(at, 1, 1, tp / 2);
    }
    replace(at, 1, 1, 2 * tp);
    replace(at, 1, 0, tp);
  }
  for (profiled_degree const& each : job.modules[module].degrees) {
    if (each.sp * each.ep == 1) { replace(0, 0, 1, each.tp); }
  }
  return all;
}

/// The layouts that fit in which replicas of one module have changed, or of two, of which one gives
/// the other GPUs, and those of unequal replicas with a microbatch more or fewer. Prices are those of
/// replicas that all have the least tp.
[[nodiscard]] inline std::vector<model_layout> other_bags(layout_problem const& problem,
                                                          model_layout const& layout)
{
  layout_problem priced_by = problem;
  priced_by.may_leave_gpus = true;  // the priced ones are fewer
  assigned_job const job(problem, layout);
  std::vector<model_layout> all;
  auto const add = [&](model_layout other) {
    if (!fits_replicas(job, other)) { return; }
    auto const priced = price_layout(priced_by, span_of(other.modules), other.microbatches,
                                     other.virtual_stages, span_of(other.kinds));
    if (!priced) { return; }
    other.step = priced->step;
    other.memory_bytes = priced->memory_bytes;
    all.push_back(std::move(other));
  };
  for (std::uint32_t const count : {layout.microbatches - 1, layout.microbatches + 1}) {
    model_layout other = layout;
    other.microbatches = count;
    if (!layout.bags.empty()) { add(std::move(other)); }
  }
  auto const with = [](model_layout other, std::size_t module, std::vector<std::uint32_t> tps) {
    other.modules[module].tp = tps.back();
    other.modules[module].dp = static_cast<std::uint32_t>(tps.size());
    other.bags.resize(other.modules.size());
    other.bags[module].clear();
    if (tps.front() != tps.back()) { other.bags[module] = std::move(tps); }
    auto const is_uniform = [](auto const& each) { return each.empty(); };
    if (std::all_of(other.bags.begin(), other.bags.end(), is_uniform)) { other.bags.clear(); }
    return other;
  };
  std::uint64_t const gpus = layout.gpus();
  std::vector<std::pair<std::size_t, model_layout>> changed;  // and the module
  for (std::size_t module = 0; module < layout.modules.size(); ++module) {
    for (auto& tps : other_replicas(job, layout, module)) {
      model_layout other = with(layout, module, std::move(tps));
      add(other);
      if (other.gpus() != gpus) { changed.emplace_back(module, std::move(other)); }
    }
  }
  for (auto const& [one, first] : changed) {
    for (auto const& [other, second] : changed) {
      if (one >= other || first.gpus() + second.gpus() != 2 * gpus) { continue; }
      module_layout const& own = second.modules[other];
      add(with(first, other,
               second.has_bags(other) ? second.bags[other]
                                      : std::vector<std::uint32_t>(own.dp, own.tp)));
    }
  }
  return all;
}

}  // namespace ballast::inline v0::detail
