// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/deal_samples.hpp>

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
/// a module whose weights are sharded takes what its gathers do not hide (docs/parallelism.md),
///
/// where d are the stages from the module's first to the pipeline's last, or N if these are fewer,
/// the shape is that of the B / (N dp) samples, rounded up, and layers / pp are rounded up. Where
/// each stage of the last module has virtual ones, d is what interleaved 1F1B keeps; the price of a
/// step does not know them.
///
/// Ensures     (1) whole picoseconds and bytes, the same on every machine
/// Errors      those of check_layout_problem; infeasible, position of the module: its degree was not
///             measured or its group does not divide the GPUs of a node, or it has more stages than layers,
///             or, the last one, virtual stages that do not divide its layers, or on one stage; or its
///             role does not have weights sharded, or whole; or
///             with position 0: another number of modules or of GPUs than the problem has,
///             groups of GPUs that do not all lie inside nodes, no microbatch or more than the
///             last module's replicas have samples, more memory than a GPU has, or a step of 2^63
///             ps and more; or a module's kind is none that it may have.
/// Complexity  O(sizes modules).
/// Source      H. An et al., arXiv:2603.25120, 2026, Algorithm 1 and Equation 1.
[[nodiscard]] inline result<model_layout> price_layout(layout_problem const& problem,
                                                       std::span<module_layout const> modules,
                                                       std::uint32_t microbatches,
                                                       std::uint32_t virtual_stages = 1,
                                                       std::span<std::size_t const> kinds = {})
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
  if (!kinds.empty() && kinds.size() != modules.size()) {
    return refuse(
        0, detail::concat("kinds of GPUs were given for ", detail::counted(kinds.size(), "module"),
                          " of ", modules.size()));
  }
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const allowed = detail::kinds_of(problem, module);
    if (kinds.empty() ? allowed.size() == 1
                      : std::binary_search(allowed.begin(), allowed.end(), kinds[module])) {
      continue;
    }
    return refuse(module, detail::concat("module ", problem.modules[module].name,
                                         kinds.empty() ? " may get GPUs of several kinds; say which"
                                                       : " may not get GPUs of the given kind"));
  }
  detail::assigned_job const job(problem, kinds);
  std::uint64_t gpus = 0;
  std::vector<detail::chosen_layout> chosen;
  for (std::size_t module = 0; module < modules.size(); ++module) {
    module_profile const& profile = problem.modules[module];
    module_layout const& layout = modules[module];
    profiled_degree const* const degree = profile.find(degree_of(layout));
    std::uint32_t const per_node = job.kind(module).gpus_per_node;
    if (degree == nullptr || per_node % layout.group() != 0) {
      std::string const why =
          detail::concat("module ", profile.name, " cannot have ", text_of(degree_of(layout)),
                         "; give a measured one that divides the ",
                         detail::counted(per_node, "GPU"), " of a node");
      return refuse(module, why);
    }
    auto const shardings = job.shardings(module);
    if (std::find(shardings.begin(), shardings.end(), layout.is_sharded) == shardings.end()) {
      return refuse(module, detail::concat("module ", profile.name, " is to have ",
                                           layout.is_sharded ? "whole" : "sharded",
                                           " weights; give a layout as its role says"));
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
  if (!detail::fits_kinds(job, modules)) {
    std::uint64_t there = 0;
    for (gpu_kind const& each : problem.kinds) { there += each.gpus; }
    return refuse(
        0, detail::concat(
               "the modules take ", gpus, " of ", detail::counted(there, "GPU"),
               problem.kinds.size() == 1 ? "" : ", and no more of a kind than there are",
               ", and groups of tp x sp x ep GPUs lie inside nodes; give a layout that uses ",
               problem.may_leave_gpus ? "GPUs so" : "all GPUs so"));
  }
  if (microbatches == 0 || std::uint64_t{microbatches} * modules.back().dp > problem.global_batch) {
    return refuse(
        0, detail::concat("a batch of ", detail::counted(problem.global_batch, "sample"),
                          " cannot give each of ", detail::counted(modules.back().dp, "replica"),
                          " ", detail::counted(microbatches, "microbatch")));
  }
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    std::uint32_t const parts = module + 1 == modules.size()
                                    ? virtual_stages
                                    : job.virtual_stages(module, modules[module].pp);
    if (detail::has_virtual_stages(of, modules[module], parts)) { continue; }
    return refuse(module,
                  detail::concat("module ", of.name, " of ", detail::counted(of.layers, "layer"),
                                 " cannot have ", detail::counted(parts, "virtual stage"),
                                 " on each of ", detail::counted(modules[module].pp, "stage"),
                                 "; give 1, or what divides the layers of several stages"));
  }
  detail::price_list list(problem);
  detail::layout_prices prices(job, list);
  std::uint64_t const bytes = prices.bytes(chosen, microbatches, virtual_stages);
  if (auto const lacking = prices.lacking()) {
    return refuse(0, detail::concat("a GPU of module ", problem.modules[lacking->module].name,
                                    " would hold ", detail::counted(lacking->bytes, "byte"),
                                    ", and has ", job.kind(lacking->module).memory_bytes));
  }
  time_units const step = prices.step(chosen, microbatches);
  if (step == no_cost) {
    return refuse(0, "a step takes 2^63 picoseconds or more; check the profile's units");
  }
  return model_layout{{modules.begin(), modules.end()}, microbatches, step, bytes, virtual_stages,
                      {kinds.begin(), kinds.end()}};
}

/// A layout and what its steps take in the simulator.
struct simulated_layout {
  model_layout layout;
  time_units simulated = 0;

  friend bool operator==(simulated_layout const&, simulated_layout const&) = default;
};

namespace detail {

/// The order of simulated layouts: the shorter step first, then fewer GPUs, then the lower price,
/// then the smaller numbers.
[[nodiscard]] inline bool simulates_before(simulated_layout const& a, simulated_layout const& b)
{
  return precedes(a.simulated, b.simulated, a.layout.gpus(), b.layout.gpus(), a.layout.step,
                  b.layout.step, a.layout.modules, b.layout.modules, a.layout.microbatches,
                  b.layout.microbatches, a.layout.virtual_stages, b.layout.virtual_stages,
                  a.layout.kinds, b.layout.kinds, a.layout.bags, b.layout.bags);
}

}  // namespace detail

namespace detail {

/// Refuses sizes that are no batches of a problem.
[[nodiscard]] inline result<void> check_batches(layout_problem const& problem,
                                                std::span<tokens const> batches)
{
  std::size_t const of_batch = std::size_t{problem.global_batch} * problem.modules.size();
  if (batches.empty() || batches.size() % of_batch != 0) {
    return fail(error_code::out_of_range, 0, "batches has ", counted(batches.size(), "size"),
                ", no whole number of batches of ", counted(problem.global_batch, "sample"), " of ",
                counted(problem.modules.size(), "module"));
  }
  for (std::size_t index = 0; index < batches.size(); ++index) {
    if (batches[index] < 0 || batches[index] > longest_sample) {
      return fail(error_code::out_of_range, index, "size ", batches[index],
                  " of a batch is not from 0 to ", longest_sample);
    }
  }
  return {};
}

/// What each group of a layout's replicas takes for its part of a batch.
[[nodiscard]] inline std::vector<pipeline_times> times_of_groups(layout_problem const& problem,
                                                                 model_layout const& layout,
                                                                 std::span<tokens const> batch,
                                                                 sample_dealing dealing)
{
  layout_pipeline const pipeline(problem, layout);
  dealt_samples const dealt = deal_samples(problem, layout, batch, dealing);
  std::vector<pipeline_times> times;
  times.reserve(pipeline.groups());
  for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
    times.push_back(pipeline.times_of(batch, [&](std::size_t module, std::size_t replica,
                                                 std::size_t microbatch) {
      std::size_t const replicas = layout.modules[module].dp / pipeline.groups();
      return dealt.modules[module][(microbatch * pipeline.groups() + group) * replicas + replica];
    }));
  }
  pipeline.wait_for_gathers(times);
  return times;
}

}  // namespace detail

/// Simulates the steps of a layout on batches of real samples, with 1F1B or, where stages have
/// virtual ones, interleaved 1F1B, and returns their mean time.
///
/// Replicas fall into groups, as many as the greatest common divisor of all dp. A sample may be at
/// any replica of its group in each module, so all last stages of a module in a group are linked to
/// all first stages of the next: a broker waits for what they send and hands it out. Samples are
/// packed: they pass the weights together and attention one by one.
///
/// Shapes      batches[n x global_batch x modules]; n >= 1.
/// With a bandwidth, what a broker hands out goes over its links while replicas compute, one
/// microbatch after the other in each direction, and gradients of a stage are reduced when the last
/// of its replicas has done its last backward.
///
/// Units       picoseconds. A third of a stage's time is its forward; of frozen modules half, or all
///             (module_role).
/// Ensures     (1) a step ends when the last group's pipeline does, and all gradients are reduced;
///                 the mean is rounded up
/// Errors      those of price_layout, and of check_times: a stage or a transfer takes above 2^53
///             ps; out_of_range: the sizes are no whole number of batches, or one is not from 0 to
///             longest_sample, at `position`.
/// Complexity  O(n (sizes + tasks of all pipelines)).
/// Source      the broker between units of unequal dp: Z. Zhang et al., "DistTrain: Addressing
///             Model and Data Heterogeneity with Disaggregated Training for Multimodal Large
///             Language Models", SIGCOMM 2025.
[[nodiscard]] inline result<time_units> simulate_layout(layout_problem const& problem,
                                                        model_layout const& layout,
                                                        std::span<tokens const> batches,
                                                        sample_dealing dealing = {})
{
  auto const priced = price_layout(problem, detail::span_of(layout.modules), layout.microbatches,
                                   layout.virtual_stages, detail::span_of(layout.kinds));
  if (!priced) { return tl::unexpected(priced.error()); }
  if (auto checked = detail::check_batches(problem, batches); !checked) {
    return tl::unexpected(checked.error());
  }
  layout_pipeline const pipeline(problem, layout);
  for (std::size_t module = 0; module < layout.modules.size(); ++module) {
    time_units longest = 0;
    for (std::uint32_t stage = 0; stage < layout.modules[module].pp; ++stage) {
      longest = std::max(longest, pipeline.reducing_time(module, stage));
    }
    if (longest > stage_graph::longest_time) {
      return fail(error_code::out_of_range, module, "the gradients of module ",
                  problem.modules[module].name, " take above 2^53 ps to reduce; check the ",
                  "bandwidth, which is in bytes per second");
    }
  }
  auto const compiled = pipeline.schedule();
  if (!compiled) { return tl::unexpected(compiled.error()); }

  std::vector<microbatch_id> order(layout.microbatches);
  for (std::size_t each = 0; each < order.size(); ++each) {
    order[each] = to_id<microbatch_id>(each);
  }
  pipeline_timeline timeline;
  uint128 total = 0;
  std::size_t const of_batch = std::size_t{problem.global_batch} * problem.modules.size();
  std::size_t const count = batches.size() / of_batch;
  for (std::size_t batch = 0; batch < count; ++batch) {
    time_units step = 0;
    for (pipeline_times const& times : detail::times_of_groups(
             problem, layout, batches.subspan(batch * of_batch, of_batch), dealing)) {
      if (auto checked = check_times(times, *compiled); !checked) {
        return tl::unexpected(checked.error());
      }
      simulate_into(timeline, *compiled, times, detail::span_of(order));
      step = std::max(step, pipeline.end_of(*compiled, timeline));
    }
    total += static_cast<uint128>(step);
  }
  return static_cast<time_units>(detail::divided_up(total, count));
}

/// Simulates layouts and puts the one with the shortest steps first; of equals the one with the
/// shorter predicted step, then the smaller numbers.
///
/// Errors      those of simulate_layout, for the first layout that has one.
/// Complexity  that of simulate_layout, for each.
[[nodiscard]] inline result<std::vector<simulated_layout>> rank_by_simulation(
    layout_problem const& problem, std::span<model_layout const> layouts,
    std::span<tokens const> batches, sample_dealing dealing = {})
{
  std::vector<simulated_layout> ranked;
  for (model_layout const& layout : layouts) {
    auto const simulated = simulate_layout(problem, layout, batches, dealing);
    if (!simulated) { return tl::unexpected(simulated.error()); }
    ranked.push_back({layout, *simulated});
  }
  std::sort(ranked.begin(), ranked.end(), detail::simulates_before);
  return ranked;
}

/// What the GPU that holds most of a layout needs for batches of real samples, as deal_samples deals
/// them. `search_layouts` returns layouts that hold these and the
/// microbatches that the problem draws, which are what price_layout knows.
///
/// Shapes      batches[n x global_batch x modules]; n >= 1.
/// Units       bytes.
/// Ensures     (1) of all microbatches of a replica the largest counts, or the least that the
///                 problem's memory_quantile of them is not above
/// Errors      those of price_layout; out_of_range: the sizes are no whole number of batches, or
///             one is not from 0 to longest_sample, at `position`.
/// Complexity  O(n modules (samples log samples + microbatches)).
[[nodiscard]] inline result<std::uint64_t> dealt_memory(layout_problem const& problem,
                                                        model_layout const& layout,
                                                        std::span<tokens const> batches,
                                                        sample_dealing dealing = {})
{
  auto const priced = price_layout(problem, detail::span_of(layout.modules), layout.microbatches,
                                   layout.virtual_stages, detail::span_of(layout.kinds));
  if (!priced) { return tl::unexpected(priced.error()); }
  if (auto checked = detail::check_batches(problem, batches); !checked) {
    return tl::unexpected(checked.error());
  }
  std::size_t const modules = problem.modules.size();
  std::size_t const of_batch = std::size_t{problem.global_batch} * modules;
  std::vector<std::vector<tokens>> sizes(modules);  // of all microbatches of all replicas
  for (std::size_t first = 0; first < batches.size(); first += of_batch) {
    auto const batch = batches.subspan(first, of_batch);
    dealt_samples const dealt = deal_samples(problem, layout, batch, dealing);
    for (std::size_t module = 0; module < modules; ++module) {
      for (std::size_t row = 0; row < dealt.modules[module].size(); ++row) {
        tokens size = 0;
        for (sample_id const sample : dealt.modules[module][row]) {
          size += batch[to_index(sample) * modules + module];
        }
        sizes[module].push_back(size);
      }
    }
  }
  detail::assigned_job const job(problem, layout);
  detail::price_list list(problem);
  return detail::layout_prices(job, list).bytes_of(
      detail::chosen_of(job, layout), layout.microbatches, layout.virtual_stages,
      [&](std::size_t module) { return detail::memory_quantile_of(problem, sizes[module]); });
}

}  // namespace ballast::inline v0
