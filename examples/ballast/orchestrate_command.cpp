// SPDX-License-Identifier: Apache-2.0
#include "orchestrate_command.hpp"
#include "../common/baselines/orchestrations.hpp"

#include "module_inputs.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/orchestrate.hpp>

#include <fmt/format.h>

#include <chrono>

namespace cli {
namespace {

/// What options that only this command has say of single modules.
outcome<void> read_modules(orchestrate_run& run)
{
  orchestrate_options const& options = run.options;
  auto& modules = run.modules;
  run.llm = modules.size() - 1;
  if (!options.llm.empty()) {
    auto const llm = find_module("--llm", options.llm, modules);
    if (!llm) { return tl::unexpected(llm.error()); }
    run.llm = *llm;
  }
  auto const boundaries = read_module_values("--boundary-bytes", options.boundary_bytes, modules);
  if (!boundaries) { return tl::unexpected(boundaries.error()); }
  for (auto const& [module, text] : *boundaries) {
    auto const bytes = read_bytes("--boundary-bytes", text);
    if (!bytes) { return tl::unexpected(bytes.error()); }
    // The profile has them of a token or item.
    auto const size =
        static_cast<std::uint64_t>(std::max<ballast::tokens>(run.mean_sizes[module], 1));
    modules[module].boundary_bytes = (*bytes + size - 1) / size;
  }
  if (!options.boundary_bytes.empty() && options.between_nodes_gb_per_s == 0) {
    return usage(
        "--boundary-bytes: sending takes no time without --between-nodes-bandwidth; give it too");
  }
  auto const virtual_stages =
      read_module_values("--virtual-stages", options.virtual_stages, modules);
  if (!virtual_stages) { return tl::unexpected(virtual_stages.error()); }
  for (auto const& [module, text] : *virtual_stages) {
    auto const stages = whole_number(text);
    std::uint32_t const layers = modules[module].layers;
    if (!stages || *stages == 0 || *stages > layers) {
      return usage(
          fmt::format("--virtual-stages: '{}' is no number of virtual stages from 1 to the "
                      "{} layers of the module",
                      text, layers));
    }
    run.roles[module].virtual_stages = *stages;
  }
  return {};
}

/// What a policy finds, among the others; nothing where none of its kind fits.
void add_baseline(orchestrate_run& run, std::string name,
                  ballast::result<ballast::orchestration> const& found)
{
  if (found) { run.layouts.push_back({std::move(name), found->layout, found->simulated}); }
}

}  // namespace

outcome<orchestrate_run> run_orchestrate(orchestrate_options const& options)
{
  orchestrate_run run;
  run.options = options;
  if (auto const done = read_model(run, options); !done) { return tl::unexpected(done.error()); }
  run.problem.may_leave_gpus = true;
  run.problem.state.is_optimizer_shared = true;
  for (std::size_t module = 0; module < run.modules.size(); ++module) {
    ballast::uint128 total = 0;
    for (std::size_t at = module; at < run.sizes.size(); at += run.modules.size()) {
      total += static_cast<ballast::uint128>(run.sizes[at]);
    }
    run.mean_sizes.push_back(static_cast<ballast::tokens>((total + run.rows - 1) / run.rows));
  }
  if (auto const done = read_modules(run); !done) { return tl::unexpected(done.error()); }
  if (options.global_batch % options.microbatch != 0) {
    return usage(
        fmt::format("--microbatch: a batch of {} samples is no whole number of "
                    "microbatches of {}; give a divisor of the batch",
                    options.global_batch, options.microbatch));
  }

  auto const start = std::chrono::steady_clock::now();
  ballast::orchestrate_options const asked{.llm = run.llm, .microbatch = options.microbatch};
  auto const found = ballast::orchestrate(run.problem, {}, asked);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!found) {
    if (found.error().code != ballast::error_code::infeasible) {
      return bad_data(found.error().message);
    }
    run.why_none = found.error().message;
    return run;
  }
  run.evaluated = found->evaluated;
  auto const limited = [&](ballast::layout_limits const& limits) {
    auto options_of_baseline = asked;
    options_of_baseline.limits = limits;
    return ballast::orchestrate(run.problem, {}, options_of_baseline);
  };
  add_baseline(run, "homogeneous", limited(baselines::homogeneous()));
  add_baseline(run, "by_flops", baselines::by_flops{}(run.problem, asked));
  add_baseline(run, "monolithic", limited(baselines::monolithic()));
  std::ranges::sort(run.layouts, {}, [](policy_layout const& each) {
    return std::pair(each.layout.step, std::string_view(each.policy));
  });
  run.layouts.insert(run.layouts.begin(), {"best", found->layout, found->simulated});
  return run;
}

}  // namespace cli
