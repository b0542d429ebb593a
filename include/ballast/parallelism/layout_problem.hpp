// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

namespace ballast::inline v0 {

/// What stands for the data when a layout's step is priced. A microbatch is filled with copies of
/// one sample, as the published search has it:
enum class step_estimate : std::uint8_t {
  mean_sample,  ///< the mean sample: its size in each module, rounded up
  mean_step     ///< every sample in turn; the step is the mean over them, rounded up
};

/// A model, its data and its GPUs, for which a layout is to be found.
///
/// Shapes      sizes[samples x modules], the sizes of one sample next to each other: items of an
///             encoder, tokens of the LLM. At least one sample; in random order, since memory is
///             priced for microbatches of samples that follow each other.
/// Units       bytes of one GPU; bytes_per_second: of one GPU to others, in each direction.
struct layout_problem {
  static constexpr std::uint32_t most_global_batch = std::uint32_t{1} << 24;

  std::span<module_profile const>
      modules;  ///< in the order of the pipeline: encoders, then the LLM
  std::span<tokens const> sizes;
  std::uint32_t global_batch = 1;  ///< samples of a step
  std::uint32_t gpus = 1;
  std::uint32_t gpus_per_node = 8;
  std::uint64_t memory_bytes = 0;
  /// Of transfers between modules and of the gradients' all-reduce; 0: they take no time.
  std::uint64_t bytes_per_second = 0;
  /// Of a module's state, gradients: 2 bytes of 16 in mixed precision with Adam.
  ratio gradient_share{1, 8};
  step_estimate estimate = step_estimate::mean_sample;
  /// The share of microbatches that have to fit into memory. Those drawn are, for each sample, it
  /// and the samples that follow it, the first after the last.
  ratio memory_quantile{1, 1};
  /// Of each module but the last, the later one that it feeds, such as encoders that all feed the
  /// LLM. None: each feeds the next. Shapes: feeds[modules - 1].
  std::span<std::size_t const> feeds{};

  [[nodiscard]] std::size_t fed_by(std::size_t module) const noexcept
  {
    return module < feeds.size() ? feeds[module] : module + 1;
  }
  [[nodiscard]] std::size_t samples() const noexcept
  {
    return modules.empty() ? 0 : sizes.size() / modules.size();
  }
};

/// Refuses a problem that has no meaning.
///
/// Errors      out_of_range: module `position` is not as check_profile wants it; or size `position`
///             is negative or above longest_sample; or, with position 0, there is no module, no
///             sample, no whole number of samples, no GPU, no node, no batch or one above
///             most_global_batch, a quantile outside (0, 1], a share of gradients outside [0, 1],
///             or a number of modules that are fed; or module `position` feeds none behind it.
/// Complexity  O(sizes).
[[nodiscard]] inline result<void> check_layout_problem(layout_problem const& problem)
{
  auto const refuse = [](std::size_t position, std::string const& why) {
    return fail(error_code::out_of_range, position, why);
  };
  if (problem.modules.empty()) { return refuse(0, "there is no module to lay out; give one"); }
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    if (auto checked = check_profile(problem.modules[module]); !checked) {
      return refuse(module, checked.error().message);
    }
  }
  if (problem.sizes.empty() || problem.sizes.size() % problem.modules.size() != 0) {
    return refuse(0, detail::concat("sizes has ", detail::counted(problem.sizes.size(), "entry"),
                                    " for ", detail::counted(problem.modules.size(), "module"),
                                    "; give one of each module for every sample"));
  }
  for (std::size_t index = 0; index < problem.sizes.size(); ++index) {
    if (problem.sizes[index] < 0 || problem.sizes[index] > longest_sample) {
      return refuse(index, detail::concat("sample ", index / problem.modules.size(), " has size ",
                                          problem.sizes[index], " in module ",
                                          problem.modules[index % problem.modules.size()].name,
                                          "; give sizes from 0 to ", longest_sample));
    }
  }
  if (problem.global_batch == 0 || problem.global_batch > layout_problem::most_global_batch) {
    return refuse(
        0, detail::concat("a global batch of ", detail::counted(problem.global_batch, "sample"),
                          " cannot be searched; give 1 to ", layout_problem::most_global_batch));
  }
  if (problem.gpus == 0 || problem.gpus_per_node == 0) {
    return refuse(
        0, detail::concat("a job of ", detail::counted(problem.gpus, "GPU"), " on nodes of ",
                          problem.gpus_per_node, " computes nothing; give at least 1 of each"));
  }
  auto const [numerator, denominator] = problem.memory_quantile;
  if (numerator <= 0 || denominator <= 0 || numerator > denominator) {
    return refuse(
        0, detail::concat("memory is to suffice for a share of ", numerator, " / ", denominator,
                          " of all microbatches; give a share above 0, at most 1"));
  }
  std::size_t const feeding = problem.modules.size() - 1;
  if (!problem.feeds.empty() && problem.feeds.size() != feeding) {
    return refuse(0, detail::concat("for ", detail::counted(problem.feeds.size(), "module"),
                                    " it is said which they feed; ", "say it for ", feeding,
                                    ", all but the last, or for none"));
  }
  for (std::size_t module = 0; module < problem.feeds.size(); ++module) {
    std::size_t const fed = problem.feeds[module];
    if (fed > module && fed <= feeding) { continue; }
    return refuse(module,
                  detail::concat("module ", problem.modules[module].name, " feeds module ", fed,
                                 ", counted from 0; give a later one, up to ", feeding));
  }
  auto const [part, state] = problem.gradient_share;
  if (part < 0 || state <= 0 || part > state) {
    return refuse(0, detail::concat("gradients are to be ", part, " / ", state,
                                    " of a module's state; give a share from 0 to 1"));
  }
  return {};
}

/// A degree of so many GPUs that share the items of a sample, such as its images, instead of
/// products: each has a copy of the module, which fits one GPU, and there is nothing to all-reduce.
///
/// Expects     gpus and items are at least 1, and `one` is a degree of one GPU.
/// Ensures     (1) times and activations are those of the GPU with most items, rounded up; weights
///             and gradients those of one GPU, and copies share the optimiser
/// Source      Megatron-LM as Z. Zhang et al., "DistTrain", SIGCOMM 2025, section 7.1, run it:
///             encoder and generator are replicated inside the LLM's tensor-parallel groups.
[[nodiscard]] constexpr orchestrated_degree replicated_degree(orchestrated_degree const& one,
                                                              std::uint32_t gpus,
                                                              std::uint32_t items)
{
  BALLAST_EXPECTS(gpus >= 1 && items >= 1 && degree_of(one).gpus() == 1, "a degree of ",
                  degree_of(one).gpus(), " GPUs was replicated on ", detail::counted(gpus, "GPU"),
                  " for ", detail::counted(items, "item"));
  std::uint64_t const most = (std::uint64_t{items} + gpus - 1) / gpus;
  auto const share = [&](std::uint64_t whole) {
    return static_cast<std::uint64_t>(
        detail::divided_up(static_cast<uint128>(whole) * most, items));
  };
  auto const time = [&](time_units whole) {
    return static_cast<time_units>(share(static_cast<std::uint64_t>(whole)));
  };
  orchestrated_degree of = one;
  of.tp = gpus;
  of.copies = gpus;
  of.forward = time(one.forward);
  of.backward = time(one.backward);
  of.backward_of_input = time(one.backward_of_input);
  of.optimizer_bytes = (one.optimizer_bytes + gpus - 1) / gpus;
  of.activation_bytes = share(one.activation_bytes);
  return of;
}

/// What a unit, a module on GPUs of its own, takes of a step.
///
/// Units       those of the step.
struct unit_time {
  time_units microbatch = 0;  ///< a stage's time for a microbatch, forward and backward
  time_units once = 0;  ///< once a step: until its pipeline is full, and what follows the last

  friend bool operator==(unit_time const&, unit_time const&) = default;
};

/// The time of a step of units that follow each other: each fills its pipeline, then the slowest
/// one sets the pace of the other microbatches.
///
/// Units       those of the times; no_cost where they do not fit.
/// Expects     microbatches >= 1, no time is negative.
/// Ensures     (1) sum of `once` + (microbatches - 1) x the longest `microbatch`
/// Complexity  O(units).
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025, section
///             4: once is pp t / vpp.
[[nodiscard]] constexpr time_units disttrain_makespan(std::span<unit_time const> units,
                                                      std::uint64_t microbatches) noexcept
{
  uint128 step = 0;
  time_units slowest = 0;
  for (unit_time const& each : units) {
    step += static_cast<std::uint64_t>(each.once);
    slowest = std::max(slowest, each.microbatch);
  }
  step += static_cast<uint128>(microbatches - 1) * static_cast<std::uint64_t>(slowest);
  return step < static_cast<uint128>(no_cost) ? static_cast<time_units>(step) : no_cost;
}

/// The time of a pipeline's step: every microbatch takes the slowest stage's time on each stage.
///
/// Units       those of `slowest`; no_cost where they do not fit.
/// Expects     microbatches >= 1, stages >= 1, slowest >= 0.
/// Ensures     (1) (microbatches + stages - 1) slowest
/// Source      H. An et al., "DFLOP: A Data-driven Framework for Multimodal LLM Training Pipeline
///             Optimization", arXiv:2603.25120, 2026, Algorithm 1.
[[nodiscard]] constexpr time_units dflop_makespan(std::uint64_t microbatches, std::uint64_t stages,
                                                  time_units slowest) noexcept
{
  uint128 const step =
      static_cast<uint128>(microbatches + stages - 1) * static_cast<std::uint64_t>(slowest);
  return step < static_cast<uint128>(no_cost) ? static_cast<time_units>(step) : no_cost;
}

}  // namespace ballast::inline v0
