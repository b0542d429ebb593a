// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_STEP_METRICS_HPP
#define BALLAST_REPORT_STEP_METRICS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/training_passes.hpp>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace ballast::inline v0::report {

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
/// Frozen modules have fewer passes: `frozen(passes, ...)`.
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
    work.model_flops += flops(*model, length);
    work.hardware_flops += flops(*hardware, length);
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

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_STEP_METRICS_HPP
