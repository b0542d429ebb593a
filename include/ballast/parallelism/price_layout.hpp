// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_PRICE_LAYOUT_HPP
#define BALLAST_PARALLELISM_PRICE_LAYOUT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/fits_nodes.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// The step and the memory of one layout, as the search prices them: for module m of layout tp, pp,
/// dp on groups of G = tp sp ep GPUs, where a global batch of B samples is divided into N microbatches of each replica of the last
/// module,
///
///     time of a stage     FLOP of B / (N dp) samples / (T(shape, group) G pp)
///     step                (N + sum of pp - 1) (longest time of a stage)
///     memory of a GPU     state(layers / pp, group) + d activations(layers / pp, group, shape),
///
/// and, with a bandwidth, what transfers between modules and the all-reduce of gradients add to a
/// step of equal microbatches (docs/parallelism.md),
///
/// where d are the stages from the module's first to the pipeline's last, or N if these are fewer,
/// the shape is that of the B / (N dp) samples, rounded up, and layers / pp are rounded up. Where
/// each stage of the last module has virtual ones, d is what interleaved 1F1B keeps; the price of a
/// step does not know them.
///
/// Ensures     (1) whole picoseconds and bytes, the same on every machine
/// Errors      those of check_layout_problem; infeasible, position of the module: its degree was not
///             measured or its group does not divide the GPUs of a node, or it has more stages than layers,
///             or, the last one, virtual stages that do not divide its layers, or on one stage; or
///             with position 0: another number of modules or of GPUs than the problem has,
///             groups of GPUs that do not all lie inside nodes, no microbatch or more than the
///             last module's replicas have samples, more memory than a GPU has, or a step of 2^63
///             ps and more.
/// Complexity  O(sizes modules).
/// Source      H. An et al., arXiv:2603.25120, 2026, Algorithm 1 and Equation 1.
[[nodiscard]] inline result<model_layout> price_layout(layout_problem const& problem,
                                                       std::span<module_layout const> modules,
                                                       std::uint32_t microbatches,
                                                       std::uint32_t virtual_stages = 1)
{
  if (auto checked = check_layout_problem(problem); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const refuse = [](std::size_t position, std::string const& why) {
    return fail(error_code::infeasible, position, why);
  };
  if (modules.size() != problem.modules.size()) {
    return refuse(0, detail::concat("a layout of ", detail::counted(modules.size(), "module"),
                                    " was given for ", problem.modules.size()));
  }
  std::uint64_t gpus = 0;
  std::vector<detail::chosen_layout> chosen;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    module_profile const& profile = problem.modules[module];
    module_layout const& layout = modules[module];
    profiled_degree const* const degree = find_degree(profile, degree_of(layout));
    if (degree == nullptr || problem.gpus_per_node % layout.group() != 0) {
      std::string const why =
          detail::concat("module ", profile.name, " cannot have ", text_of(degree_of(layout)),
                         "; give a measured one that divides the ",
                         detail::counted(problem.gpus_per_node, "GPU"), " of a node");
      return refuse(module, why);
    }
    if (layout.pp == 0 || layout.pp > profile.layers || layout.dp == 0) {
      return refuse(module, detail::concat("module ", profile.name, " of ",
                                           detail::counted(profile.layers, "layer"),
                                           " cannot have ", detail::counted(layout.pp, "stage"),
                                           " of ", detail::counted(layout.dp, "replica")));
    }
    gpus += layout.gpus();
    chosen.push_back({static_cast<std::size_t>(degree - profile.degrees.data()), layout});
  }
  if (gpus != problem.gpus || !detail::fits_nodes(modules, problem.gpus, problem.gpus_per_node)) {
    return refuse(
        0, detail::concat(
               "the modules take ", gpus, " of ", detail::counted(problem.gpus, "GPU"),
               ", and groups of tp x sp x ep GPUs lie inside nodes; give a layout that uses ",
               "all GPUs so"));
  }
  if (microbatches == 0 || std::uint64_t{microbatches} * modules.back().dp > problem.global_batch) {
    return refuse(
        0, detail::concat("a batch of ", detail::counted(problem.global_batch, "sample"),
                          " cannot give each of ", detail::counted(modules.back().dp, "replica"),
                          " ", detail::counted(microbatches, "microbatch")));
  }
  if (!detail::has_virtual_stages(problem.modules.back(), modules.back(), virtual_stages)) {
    auto const& last = problem.modules.back();
    return refuse(
        modules.size() - 1,
        detail::concat("module ", last.name, " of ", detail::counted(last.layers, "layer"),
                       " cannot have ", detail::counted(virtual_stages, "virtual stage"),
                       " on each of ", detail::counted(modules.back().pp, "stage"),
                       "; give 1, or what divides the layers of several stages"));
  }
  detail::layout_prices prices(problem);
  std::uint64_t const bytes = prices.bytes(chosen, microbatches, virtual_stages);
  if (bytes > problem.memory_bytes) {
    return refuse(0, detail::concat("a GPU would hold ", detail::counted(bytes, "byte"),
                                    ", and has ", problem.memory_bytes));
  }
  time_units const step = prices.step(chosen, microbatches);
  if (step == no_cost) {
    return refuse(0, "a step takes 2^63 picoseconds or more; check the profile's units");
  }
  return model_layout{{modules.begin(), modules.end()}, microbatches, step, bytes, virtual_stages};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_PRICE_LAYOUT_HPP
