// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/deal_samples.hpp>
#include <ballast/pipeline/plan_schedule.hpp>

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
/// step of equal microbatches (docs/notes/parallelism.md),
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
  auto const refuse = [](std::size_t position, auto const&... why) {
    return fail(error_code::infeasible, position, why...);
  };
  if (modules.size() != problem.modules.size()) {
    return refuse(0, "a layout of ", detail::counted(modules.size(), "module"), " was given for ",
                  problem.modules.size());
  }
  if (!kinds.empty() && kinds.size() != modules.size()) {
    return refuse(0, "kinds of GPUs were given for ", detail::counted(kinds.size(), "module"),
                  " of ", modules.size());
  }
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const allowed = detail::kinds_of(problem, module);
    if (kinds.empty() ? allowed.size() == 1
                      : std::binary_search(allowed.begin(), allowed.end(), kinds[module])) {
      continue;
    }
    return refuse(module, "module ", problem.modules[module].name,
                  kinds.empty() ? " may get GPUs of several kinds; say which"
                                : " may not get GPUs of the given kind");
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
      return refuse(module, "module ", profile.name, " cannot have ", text_of(degree_of(layout)),
                    "; give a measured one that divides the ", detail::counted(per_node, "GPU"),
                    " of a node");
    }
    auto const shardings = job.shardings(module);
    if (std::find(shardings.begin(), shardings.end(), layout.is_sharded) == shardings.end()) {
      return refuse(module, "module ", profile.name, " is to have ",
                    layout.is_sharded ? "whole" : "sharded",
                    " weights; give a layout as its role says");
    }
    if (layout.pp == 0 || layout.pp > profile.layers || layout.dp == 0) {
      return refuse(module, "module ", profile.name, " of ",
                    detail::counted(profile.layers, "layer"), " cannot have ",
                    detail::counted(layout.pp, "stage"), " of ",
                    detail::counted(layout.dp, "replica"));
    }
    gpus += layout.gpus();
    chosen.push_back({static_cast<std::size_t>(degree - profile.degrees.data()), layout});
  }
  if (!detail::fits_kinds(job, modules)) {
    std::uint64_t there = 0;
    for (gpu_kind const& each : problem.kinds) { there += each.gpus; }
    return refuse(0, "the modules take ", gpus, " of ", detail::counted(there, "GPU"),
                  problem.kinds.size() == 1 ? "" : ", and no more of a kind than there are",
                  ", and groups of tp x sp x ep GPUs lie inside nodes; give a layout that uses ",
                  problem.may_leave_gpus ? "GPUs so" : "all GPUs so");
  }
  if (microbatches == 0 || std::uint64_t{microbatches} * modules.back().dp > problem.global_batch) {
    return refuse(0, "a batch of ", detail::counted(problem.global_batch, "sample"),
                  " cannot give each of ", detail::counted(modules.back().dp, "replica"), " ",
                  detail::counted(microbatches, "microbatch"));
  }
  for (std::size_t module = 0; module < modules.size(); ++module) {
    auto const& of = problem.modules[module];
    std::uint32_t const parts = module + 1 == modules.size()
                                    ? virtual_stages
                                    : job.virtual_stages(module, modules[module].pp);
    if (detail::has_virtual_stages(of, modules[module], parts)) { continue; }
    return refuse(module, "module ", of.name, " of ", detail::counted(of.layers, "layer"),
                  " cannot have ", detail::counted(parts, "virtual stage"), " on each of ",
                  detail::counted(modules[module].pp, "stage"),
                  "; give 1, or what divides the layers of several stages");
  }
  detail::price_list list(problem);
  detail::layout_prices prices(job, list);
  std::uint64_t const bytes = prices.bytes(chosen, microbatches, virtual_stages);
  if (auto const lacking = prices.lacking()) {
    return refuse(0, "a GPU of module ", problem.modules[lacking->module].name, " would hold ",
                  detail::counted(lacking->bytes, "byte"), ", and has ",
                  job.kind(lacking->module).memory_bytes);
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
                  a.layout.kinds, b.layout.kinds, a.layout.bags, b.layout.bags, a.layout.schedule,
                  b.layout.schedule);
}

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

[[nodiscard]] inline result<void> check_layout(layout_problem const& problem,
                                               model_layout const& layout,
                                               std::span<tokens const> batches)
{
  return price_layout(problem, span_of(layout.modules), layout.microbatches, layout.virtual_stages,
                      span_of(layout.kinds))
      .and_then([&](model_layout const&) { return check_batches(problem, batches); });
}

/// The batches of a layout's steps, as samples are dealt.
struct dealt_batch {
  std::span<tokens const> sizes;
  dealt_samples dealt;

  /// samples_of of layout_pipeline for one group.
  [[nodiscard]] auto of_group(model_layout const& layout, std::uint32_t group) const
  {
    return [this, &layout, group](std::size_t module, std::size_t replica, std::size_t microbatch) {
      std::size_t const replicas = layout.modules[module].dp / dealt.groups;
      return dealt.modules[module][(microbatch * dealt.groups + group) * replicas + replica];
    };
  }
};

[[nodiscard]] inline std::vector<dealt_batch> deal_batches(layout_problem const& problem,
                                                           model_layout const& layout,
                                                           std::span<tokens const> batches,
                                                           sample_dealing dealing)
{
  std::size_t const of_batch = std::size_t{problem.global_batch} * problem.modules.size();
  std::vector<dealt_batch> all;
  all.reserve(batches.size() / of_batch);
  for (std::size_t first = 0; first < batches.size(); first += of_batch) {
    auto const sizes = batches.subspan(first, of_batch);
    all.push_back({sizes, deal_samples(problem, layout, sizes, dealing)});
  }
  return all;
}

/// The largest microbatch of a replica of each module for which memory has to suffice.
[[nodiscard]] inline std::vector<tokens> largest_dealt(layout_problem const& problem,
                                                       std::span<dealt_batch const> batches)
{
  std::size_t const modules = problem.modules.size();
  std::vector<tokens> largest;
  for (std::size_t module = 0; module < modules; ++module) {
    std::vector<tokens> sizes;
    for (dealt_batch const& batch : batches) {
      for (std::span<sample_id const> const samples : batch.dealt.modules[module]) {
        tokens size = 0;
        for (sample_id const sample : samples) {
          size += batch.sizes[to_index(sample) * modules + module];
        }
        sizes.push_back(size);
      }
    }
    largest.push_back(memory_quantile_of(problem, sizes));
  }
  return largest;
}

/// What each group of a layout's replicas takes for its part of a batch.
[[nodiscard]] inline std::vector<pipeline_times> times_of_groups(layout_pipeline const& pipeline,
                                                                 model_layout const& layout,
                                                                 dealt_batch const& batch)
{
  std::vector<pipeline_times> times;
  times.reserve(pipeline.groups());
  for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
    times.push_back(pipeline.times_of(batch.sizes, batch.of_group(layout, group)));
  }
  pipeline.wait_for_gathers(times);
  return times;
}

[[nodiscard]] inline std::vector<microbatch_id> given_microbatches(std::size_t count)
{
  std::vector<microbatch_id> order(count);
  for (std::size_t each = 0; each < count; ++each) { order[each] = to_id<microbatch_id>(each); }
  return order;
}

/// What a layout's steps take whose schedule splits backwards, in the mean, what its fullest GPU
/// holds, and how many tasks were simulated for it.
struct split_steps {
  time_units step = 0;
  std::uint64_t bytes = 0;
  std::uint64_t tasks = 0;
};

/// Simulates such steps. A rule has its tasks at once; where schedules are planned, only those of
/// groups that end last under 1F1B are, until another ends later.
class split_simulation {
 public:
  /// Expects     price_layout accepts the layout, and its schedule splits backwards.
  split_simulation(layout_problem const& problem, model_layout const& layout)
      : problem_(problem),
        layout_(layout),
        pipeline_(problem, layout),
        order_(given_microbatches(layout.microbatches))
  {}

  /// Errors      infeasible: the stages are none of the schedule's, or a rank keeps more than it
  ///             may; out_of_range: those of check_times.
  [[nodiscard]] result<split_steps> operator()(std::span<tokens const> sizes,
                                               sample_dealing dealing)
  {
    auto const compiled = schedule();
    if (!compiled) { return tl::unexpected(compiled.error()); }
    auto const batches = deal_batches(problem_, layout_, sizes, dealing);
    largest_ = largest_dealt(problem_, span_of(batches));
    uint128 total = 0;
    for (dealt_batch const& batch : batches) {
      auto const step = step_of(batch, *compiled);
      if (!step) { return tl::unexpected(step.error()); }
      total += static_cast<uint128>(*step);
    }
    all_.step = static_cast<time_units>(divided_up(total, batches.size()));
    return all_;
  }

 private:
  /// What a group takes and its fullest GPU holds.
  struct ending {
    time_units end = no_cost;
    std::uint64_t bytes = 0;
    std::uint32_t group = 0;
  };

  [[nodiscard]] bool is_planned() const noexcept
  {
    return layout_.schedule == layout_schedule::planned;
  }

  [[nodiscard]] result<compiled_schedule> schedule() const
  {
    switch (layout_.schedule) {
      case layout_schedule::zero_bubble: return pipeline_.schedule(zero_bubble{});
      case layout_schedule::twice_zero_bubble: return pipeline_.schedule(zero_bubble{true});
      case layout_schedule::zero_bubble_v:
        if (layout_.virtual_stages != 1 || layout_.modules.size() != 1 ||
            !has_virtual_stages(problem_.modules[0], layout_.modules[0], 2)) {
          return fail(error_code::infeasible, 0, "module ", problem_.modules[0].name,
                      " cannot have two parts of each stage in a V; give a single module several ",
                      "stages of equally many layers, an even number, and no virtual ones");
        }
        return pipeline_.schedule(zero_bubble_v{});
      case layout_schedule::whole_backwards:
      case layout_schedule::planned: break;
    }
    return pipeline_.schedule();
  }

  [[nodiscard]] result<time_units> step_of(dealt_batch const& batch,
                                           compiled_schedule const& schedule)
  {
    auto const times = times_of_groups(pipeline_, layout_, batch);
    std::vector<pipeline_memory> memory;
    std::vector<ending> endings;
    for (std::uint32_t group = 0; group < times.size(); ++group) {
      if (auto checked = check_times(times[group], schedule); !checked) {
        return tl::unexpected(checked.error());
      }
      memory.push_back(
          pipeline_.memory_of(batch.sizes, batch.of_group(layout_, group), span_of(largest_)));
      auto const fits = check_memory(schedule, span_of(order_), memory.back());
      if (!fits && !is_planned()) { return tl::unexpected(fits.error()); }
      endings.push_back({no_cost, 0, group});
      if (fits) { look_at(endings.back(), schedule, times[group], span_of(order_), memory.back()); }
    }
    std::sort(endings.begin(), endings.end(), [](ending const& a, ending const& b) {
      return precedes(b.end, a.end, a.group, b.group);
    });
    time_units longest = is_planned() ? 0 : endings.front().end;
    for (ending& each : endings) {
      if (each.end > longest) {
        auto planned = plan(each, schedule.stages(), times[each.group], memory[each.group]);
        if (!planned) { return tl::unexpected(planned.error()); }
        longest = std::max(longest, each.end);
      }
      all_.bytes = std::max(all_.bytes, each.bytes);
    }
    return longest;
  }

  /// Takes a schedule for a group where it ends earlier.
  void look_at(ending& found, compiled_schedule const& schedule, pipeline_times const& times,
               std::span<microbatch_id const> order, pipeline_memory const& memory)
  {
    simulate_into(timeline_, schedule, times, order);
    all_.tasks += schedule.tasks().size();
    time_units const end = pipeline_.end_of(schedule, timeline_);
    if (end >= found.end) { return; }
    auto const kept = activation_memory(schedule, timeline_, order, span_of(memory.held));
    found = {end, pipeline_.most_held(span_of(kept)), found.group};
  }

  [[nodiscard]] result<void> plan(ending& found, stage_graph const& stages,
                                  pipeline_times const& times, pipeline_memory const& memory)
  {
    // Fewer than for a step that runs: a search asks for many.
    schedule_effort effort{};
    effort.steps = std::min<std::uint64_t>(300'000, 450 * stages.stages() * times.microbatches());
    auto const planned = plan_schedule(stages, times, memory, effort);
    if (!planned) { return tl::unexpected(planned.error()); }
    auto const compiled = compiled_schedule::make(stages, planned->schedule);
    if (!compiled) { return tl::unexpected(compiled.error()); }
    // As long as so many tasks of a rule: a plan starts from many orders.
    all_.tasks += effort.steps / 7 + 30 * compiled->tasks().size();
    look_at(found, *compiled, times, span_of(planned->order), memory);
    return {};
  }

  layout_problem const& problem_;
  model_layout const& layout_;
  layout_pipeline pipeline_;
  std::vector<microbatch_id> order_;
  std::vector<tokens> largest_;  // microbatch of each module
  pipeline_timeline timeline_;
  split_steps all_;
};

}  // namespace detail

/// Simulates the steps of a layout on batches of real samples with its schedule: 1F1B or, where
/// stages have virtual ones, interleaved 1F1B, or one that splits backwards. Returns their mean time.
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
///             (2) planned, it is no longer than with whole backwards
/// Errors      those of price_layout, and of check_times: a stage or a transfer takes above 2^53
///             ps; infeasible: with the layout's schedule a rank keeps more than its GPU has memory
///             for, or the stages are none that it is for; out_of_range: the sizes are no whole
///             number of batches, or one is not from 0 to longest_sample, at `position`.
/// Complexity  O(n (sizes + tasks of all pipelines)).
/// Source      the broker between units of unequal dp: Z. Zhang et al., "DistTrain: Addressing
///             Model and Data Heterogeneity with Disaggregated Training for Multimodal Large
///             Language Models", SIGCOMM 2025.
[[nodiscard]] inline result<time_units> simulate_layout(layout_problem const& problem,
                                                        model_layout const& layout,
                                                        std::span<tokens const> batches,
                                                        sample_dealing dealing = {})
{
  if (auto checked = detail::check_layout(problem, layout, batches); !checked) {
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
  if (layout.schedule != layout_schedule::whole_backwards) {
    auto const steps = detail::split_simulation(problem, layout)(batches, dealing);
    if (!steps) { return tl::unexpected(steps.error()); }
    return steps->step;
  }
  auto const compiled = pipeline.schedule();
  if (!compiled) { return tl::unexpected(compiled.error()); }

  auto const order = detail::given_microbatches(layout.microbatches);
  pipeline_timeline timeline;
  uint128 total = 0;
  auto const dealt = detail::deal_batches(problem, layout, batches, dealing);
  for (detail::dealt_batch const& batch : dealt) {
    time_units step = 0;
    for (pipeline_times const& times : detail::times_of_groups(pipeline, layout, batch)) {
      if (auto checked = check_times(times, *compiled); !checked) {
        return tl::unexpected(checked.error());
      }
      simulate_into(timeline, *compiled, times, detail::span_of(order));
      step = std::max(step, pipeline.end_of(*compiled, timeline));
    }
    total += static_cast<uint128>(step);
  }
  return static_cast<time_units>(detail::divided_up(total, dealt.size()));
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
///             (2) with a schedule that splits backwards, what its tasks keep in their order, each
///                 microbatch by its own size up to that
/// Errors      those of price_layout, and of simulate_layout for such a schedule; out_of_range: the
///             sizes are no whole number of batches, or one is not from 0 to longest_sample, at
///             `position`.
/// Complexity  O(n modules (samples log samples + microbatches)).
[[nodiscard]] inline result<std::uint64_t> dealt_memory(layout_problem const& problem,
                                                        model_layout const& layout,
                                                        std::span<tokens const> batches,
                                                        sample_dealing dealing = {})
{
  if (auto checked = detail::check_layout(problem, layout, batches); !checked) {
    return tl::unexpected(checked.error());
  }
  if (layout.schedule != layout_schedule::whole_backwards) {
    auto const steps = detail::split_simulation(problem, layout)(batches, dealing);
    if (!steps) { return tl::unexpected(steps.error()); }
    return steps->bytes;
  }
  auto const dealt = detail::deal_batches(problem, layout, batches, dealing);
  auto const largest = detail::largest_dealt(problem, detail::span_of(dealt));
  detail::assigned_job const job(problem, layout);
  detail::price_list list(problem);
  return detail::layout_prices(job, list).bytes_of(
      detail::chosen_of(job, layout), layout.microbatches, layout.virtual_stages,
      [&](std::size_t module) { return largest[module]; });
}

}  // namespace ballast::inline v0
