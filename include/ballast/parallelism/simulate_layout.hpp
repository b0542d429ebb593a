// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_SIMULATE_LAYOUT_HPP
#define BALLAST_PARALLELISM_SIMULATE_LAYOUT_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/parallelism/deal_samples.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/layout_pipeline.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/price_layout.hpp>
#include <ballast/parallelism/simulated_layout.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// How the samples of a batch come to microbatches and replicas.
enum class sample_dealing : std::uint8_t {
  longest_first,  ///< as deal_samples deals them, and as `search_layouts` has it
  as_drawn        ///< the batch is cut, in its order, into parts of as many samples
};

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
  std::vector<pipeline_times> times;
  if (dealing == sample_dealing::as_drawn) {
    for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
      times.push_back(pipeline.times(batch, group));
    }
    return times;
  }
  dealt_samples const dealt = deal_samples(problem, layout, batch);
  for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
    times.push_back(pipeline.times_of(batch, [&](std::size_t module, std::size_t replica,
                                                 std::size_t microbatch) {
      std::size_t const replicas = layout.modules[module].dp / pipeline.groups();
      return dealt.modules[module][(microbatch * pipeline.groups() + group) * replicas + replica];
    }));
  }
  return times;
}

}  // namespace detail

/// Simulates the steps of a layout on batches of real samples, with 1F1B or, where stages have
/// virtual ones, interleaved 1F1B, and returns their mean time.
///
/// The replicas of two modules that follow each other share a broker in groups: as many as the
/// greatest common divisor of their dp. All last stages of a group are linked to all first stages
/// of it in the next module, as the broker waits for what they send and hands it out. Samples are
/// packed: they pass the weights together and attention one by one.
///
/// Shapes      batches[n x global_batch x modules]; n >= 1.
/// With a bandwidth, what a broker hands out goes over its links while replicas compute, one
/// microbatch after the other in each direction, and gradients of a stage are reduced when the last
/// of its replicas has done its last backward.
///
/// Units       picoseconds. A third of a stage's time is its forward.
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
                                   layout.virtual_stages);
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

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_SIMULATE_LAYOUT_HPP
