// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <cmath>

namespace ballast::inline v0::report {

/// How evenly work is spread over GPUs.
///
/// The work of each GPU of a bag is the load of the bag / its number of GPUs; where GPUs differ in
/// speed, it is the load / the speed of the bag. Before balancing, every GPU is a bag of its own.
struct balance_metrics {
  double heaviest = 0;  ///< work of the busiest GPU, in cost units per speed
  double lightest = 0;  ///< work of the idlest GPU
  double mean = 0;      ///< all work over all speeds

  /// WIR, the workload imbalance ratio of KnapFormer: heaviest / lightest. Empty where it would be
  /// infinite: one GPU has no work and another has some. 1 where no GPU has any.
  [[nodiscard]] std::optional<double> imbalance_ratio() const noexcept
  {
    if (heaviest == 0) { return 1.0; }
    if (lightest == 0) { return std::nullopt; }
    return heaviest / lightest;
  }

  /// Balance ratio of FlexRL: heaviest / mean, from 1 (even) to the number of GPUs; 1 without work.
  [[nodiscard]] double balance_ratio() const noexcept
  {
    return heaviest == 0 ? 1.0 : heaviest / mean;
  }

  /// Share of GPU time spent waiting for the busiest GPU: 1 - mean / heaviest; 0 without work.
  [[nodiscard]] double idle_share() const noexcept
  {
    return heaviest == 0 ? 0.0 : 1.0 - mean / heaviest;
  }
};

/// Measures the loads of bags.
///
/// Shapes      loads[m], speeds[m] as bag_layout::speeds() gives them; m >= 1.
/// Expects     equal sizes; loads are not negative; speeds are at least 1.
/// Complexity  O(m).
[[nodiscard]] inline balance_metrics measure_balance(std::span<cost_units const> loads,
                                                     std::span<std::uint32_t const> speeds)
{
  BALLAST_EXPECTS(!loads.empty(), "there are no loads to measure");
  BALLAST_EXPECTS(loads.size() == speeds.size(), "there are loads of ",
                  detail::counted(loads.size(), "bag"), " and speeds of ", speeds.size());
  balance_metrics metrics;
  double total = 0;
  double all_speeds = 0;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    BALLAST_EXPECTS(speeds[bag] >= 1, "bag ", bag, " has a speed of ", speeds[bag],
                    ", and the least is 1");
    auto const load = static_cast<double>(loads[bag]);
    double const per_speed = load / speeds[bag];
    metrics.heaviest = std::max(metrics.heaviest, per_speed);
    metrics.lightest = bag == 0 ? per_speed : std::min(metrics.lightest, per_speed);
    total += load;
    all_speeds += speeds[bag];
  }
  metrics.mean = total / all_speeds;
  return metrics;
}

/// Measures a step as its samples were read, before balancing: every GPU computes, on its own, the
/// samples that its data loader read.
///
/// Shapes      batch of n samples on GPUs below `gpus`, costs[n]; gpus >= 1; gpu_speeds[gpus], or
///             empty where all GPUs are equally fast.
/// Expects     equal sizes; costs are not negative; speeds are at least 1, in the unit of the bags
///             that the step is balanced over.
/// Complexity  O(n + gpus).
[[nodiscard]] inline balance_metrics measure_as_read(sample_batch const& batch,
                                                     std::span<cost_units const> costs,
                                                     std::size_t gpus,
                                                     std::span<std::uint32_t const> gpu_speeds = {})
{
  BALLAST_EXPECTS(costs.size() == batch.source.size(), "there are costs of ",
                  detail::counted(costs.size(), "sample"), " for a batch of ", batch.source.size());
  BALLAST_EXPECTS(gpu_speeds.empty() || gpu_speeds.size() == gpus, "there are speeds of ",
                  detail::counted(gpu_speeds.size(), "GPU"), " for a step over ", gpus);
  std::vector<cost_units> loads(gpus, 0);
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    BALLAST_EXPECTS(to_index(batch.source[sample]) < gpus, "sample ", sample, " was read by GPU ",
                    batch.source[sample], " of ", gpus);
    loads[to_index(batch.source[sample])] += costs[sample];
  }
  if (!gpu_speeds.empty()) { return measure_balance(detail::span_of(loads), gpu_speeds); }
  std::vector<std::uint32_t> const alike(gpus, 1);
  return measure_balance(detail::span_of(loads), detail::span_of(alike));
}

/// What a training step computes on all GPUs together. For a model of several modules, add up the
/// FLOP of each; `length` is then that of the module whose tokens are reported, usually the LLM.
///
/// Units       length in tokens; model_flops: forward and backward passes; hardware_flops: those
///             and the forward passes that activation recomputation runs again.
struct step_work {
  tokens length = 0;
  double model_flops = 0;
  double hardware_flops = 0;

  friend bool operator==(step_work const&, step_work const&) = default;
};

/// The work of a step of samples of these lengths in one module.
///
/// Frozen modules have fewer passes: `passes.frozen(...)`.
///
/// Expects     lengths from 0 to longest_sample.
/// Errors      out_of_range where the FLOP per token of all passes do not fit 64 bits.
/// Complexity  O(lengths), no allocation.
[[nodiscard]] inline result<step_work> measure_work(std::span<tokens const> lengths,
                                                    flop_polynomial forward, training_passes passes)
{
  auto const hardware = step_flops(forward, passes);
  if (!hardware) { return tl::unexpected(hardware.error()); }
  passes.recompute = 0;
  auto const model = step_flops(forward, passes);
  if (!model) { return tl::unexpected(model.error()); }
  step_work work;
  for (tokens const length : lengths) {
    work.length += length;
    work.model_flops += model->of(length);
    work.hardware_flops += hardware->of(length);
  }
  return work;
}

/// How fast a training step was.
///
/// Units       mfu, hfu: shares of what the GPUs could do in the same time, 1 being all of it.
struct step_metrics {
  double seconds = 0;
  double tokens_per_second = 0;
  double mfu = 0;  ///< model FLOP utilization: three forward passes where every module is trained
  double hfu = 0;  ///< hardware FLOP utilization: four where it is recomputed as well

  friend bool operator==(step_metrics const&, step_metrics const&) = default;
};

/// Measures a step that took so long.
///
/// Units       peak in FLOP/s of all GPUs together.
/// Expects     seconds > 0 and peak_flops_per_second > 0.
/// Source      A. Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", JMLR 24, 2023.
[[nodiscard]] inline step_metrics measure_step(step_work const& work, double seconds,
                                               double peak_flops_per_second)
{
  BALLAST_EXPECTS(seconds > 0, "the step takes ", seconds,
                  " seconds, and a utilization needs more than 0");
  BALLAST_EXPECTS(peak_flops_per_second > 0, "the GPUs can do ", peak_flops_per_second,
                  " FLOP/s, and a utilization needs more than 0");
  double const possible = seconds * peak_flops_per_second;
  return {.seconds = seconds,
          .tokens_per_second = static_cast<double>(work.length) / seconds,
          .mfu = work.model_flops / possible,
          .hfu = work.hardware_flops / possible};
}

/// How fast the stages of a pipeline compute while they do not wait. Unlike utilization it leaves
/// out bubbles, so it shows what the shapes of the microbatches make of the GPUs, stage by stage.
///
/// Units       FLOP/s of each stage, by all GPUs that the FLOP given are of.
struct stage_rates {
  std::vector<double> flops_per_second;  ///< of each stage
  double mean = 0;                       ///< over the stages
  double spread = 0;                     ///< their standard deviation

  friend bool operator==(stage_rates const&, stage_rates const&) = default;
};

/// FLOP / (step - idle) of every stage, their mean, and how far apart they are.
///
/// Shapes      flops[stages], idle_seconds[stages]; stages >= 1.
/// Expects     equal sizes; 0 <= idle < step for every stage.
/// Complexity  O(stages).
/// Source      H. An et al., arXiv:2603.25120, 2026 (Figure 14).
[[nodiscard]] inline stage_rates measure_stages(std::span<double const> flops,
                                                std::span<double const> idle_seconds,
                                                double step_seconds)
{
  BALLAST_EXPECTS(!flops.empty() && flops.size() == idle_seconds.size(), "there are FLOP of ",
                  flops.size(), " stages and idle times of ", idle_seconds.size());
  auto const stages = static_cast<double>(flops.size());
  stage_rates rates;
  for (std::size_t stage = 0; stage < flops.size(); ++stage) {
    BALLAST_EXPECTS(idle_seconds[stage] >= 0 && idle_seconds[stage] < step_seconds, "stage ", stage,
                    " is idle for ", idle_seconds[stage], " seconds of a step of ", step_seconds);
    double const rate = flops[stage] / (step_seconds - idle_seconds[stage]);
    rates.flops_per_second.push_back(rate);
    rates.mean += rate / stages;
  }
  double variance = 0;
  for (double const rate : rates.flops_per_second) {
    variance += (rate - rates.mean) * (rate - rates.mean) / stages;
  }
  rates.spread = std::sqrt(variance);
  return rates;
}

/// Says which ranks take longer than planned, a line each, slowest first; empty where none takes
/// more than `percent` longer than the median rank of its module.
///
/// Shapes      rank_factors[ranks], those of adaptive_correction.
/// Complexity  O(ranks log ranks).
[[nodiscard]] inline std::string slow_ranks(std::span<std::uint32_t const> rank_factors,
                                            std::uint32_t percent = 5)
{
  std::vector<std::size_t> slowest_first(rank_factors.size());
  std::iota(slowest_first.begin(), slowest_first.end(), std::size_t{0});
  std::sort(slowest_first.begin(), slowest_first.end(), [&](std::size_t a, std::size_t b) {
    return ballast::detail::precedes(rank_factors[b], rank_factors[a], a, b);
  });
  std::string text;
  for (std::size_t const rank : slowest_first) {
    std::uint64_t const factor = rank_factors[rank];
    if (factor * 100 <= std::uint64_t{unchanged_factor} * (100 + percent)) { break; }
    std::uint64_t const hundredths = (factor * 100 + unchanged_factor / 2) / unchanged_factor;
    text += detail::concat("rank ", rank, " takes ",
                           decimal::make(static_cast<std::int64_t>(hundredths), 2).text(2),
                           " x as long as planned\n");
  }
  return text;
}

}  // namespace ballast::inline v0::report
