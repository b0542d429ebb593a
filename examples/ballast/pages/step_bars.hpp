// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>

namespace pages {

/// A GPU busy with one thing, usually a sample.
struct gantt_bar {
  ballast::rank_id gpu{};
  double start = 0;
  double duration = 0;
  std::string label;
};

/// Collects bars. Each starts where the one before it on the same GPU ends.
class bar_stacker {
 public:
  bar_stacker(std::size_t gpus, double time_per_unit)
      : busy_until_(gpus, 0.0), time_per_unit_(time_per_unit)
  {}

  /// Adds the time of a sample on a GPU of a bag of `gpus` and `speed`.
  void add(std::size_t gpu, std::size_t sample, ballast::tokens length, ballast::cost_units cost,
           std::uint32_t gpus, std::uint32_t speed)
  {
    std::string label =
        fmt::format("sample {}, {} token{}", sample, length, length == 1 ? "" : "s");
    if (gpus > 1) { label += fmt::format(" over {} GPUs", gpus); }
    double const duration = static_cast<double>(cost) / speed * time_per_unit_;
    bars.push_back(
        {ballast::to_id<ballast::rank_id>(gpu), busy_until_[gpu], duration, std::move(label)});
    busy_until_[gpu] += duration;
  }

  std::vector<gantt_bar> bars;

 private:
  std::vector<double> busy_until_;
  double time_per_unit_;
};

/// Returns what every GPU does in a step that is not balanced: it computes the samples that it
/// read, one after the other.
///
/// Shapes      batch of n samples on GPUs below `gpus`, costs[n]; gpu_speeds[gpus], or empty where
///             all GPUs are equally fast.
/// Units       time_per_unit is how long one cost unit takes on a GPU of speed 1; the bars are in
///             its unit.
/// Expects     speeds are at least 1.
/// Ensures     (1) one bar per sample, on its source; the bars of a GPU follow each other without
///                 gaps
/// Complexity  O(n).
[[nodiscard]] inline std::vector<gantt_bar> bars_as_read(
    ballast::sample_batch const& batch, std::span<ballast::cost_units const> costs,
    std::size_t gpus, double time_per_unit, std::span<std::uint32_t const> gpu_speeds = {})
{
  bar_stacker stack(gpus, time_per_unit);
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    std::size_t const gpu = ballast::to_index(batch.source[sample]);
    std::uint32_t const speed = gpu_speeds.empty() ? 1 : gpu_speeds[gpu];
    stack.add(gpu, sample, batch.lengths[sample], costs[sample], 1, speed);
  }
  return stack.bars;
}

/// Returns what every GPU does in a step that follows a plan: the GPUs of a bag compute its samples
/// together, one sample after the other.
///
/// Shapes      a plan of n samples over `bags`, lengths[n].
/// Units       as bars_as_read.
/// Ensures     (1) one bar per sample and GPU of its bag, which lasts the sample's time / speed of
///                 the bag, so that faster GPUs wait inside it for the slowest; the bars of a GPU
///                 follow each other in sample order without gaps. In a padded batch every sample
///                 takes the time of the longest one; where a batch pads attention alone, every
///                 sample has the largest attention part beside the rest of its own cost
/// Complexity  O(n * GPUs of a bag).
[[nodiscard]] inline std::vector<gantt_bar> bars_as_planned(
    ballast::partition_plan const& plan, ballast::bag_layout const& bags,
    std::span<ballast::tokens const> lengths, double time_per_unit)
{
  std::vector<ballast::cost_units> largest_attention(bags.size(), 0);
  for (std::size_t sample = 0; sample < plan.attention.size(); ++sample) {
    ballast::cost_units& largest = largest_attention[ballast::to_index(plan.owner[sample])];
    largest = std::max(largest, plan.attention[sample]);
  }
  bar_stacker stack(bags.gpus(), time_per_unit);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    ballast::bag const owner = bags[plan.owner[sample]];
    std::uint32_t const speed = bags.speeds()[ballast::to_index(plan.owner[sample])];
    ballast::cost_units cost = plan.costs[sample];
    if (plan.batches == ballast::batching::padded) {
      cost = plan.loads[ballast::to_index(plan.owner[sample])] /
             static_cast<ballast::cost_units>(plan.samples[plan.owner[sample]].size());
    } else if (plan.batches == ballast::batching::attention_padded) {
      cost += largest_attention[ballast::to_index(plan.owner[sample])] - plan.attention[sample];
    }
    for (std::size_t gpu = 0; gpu < owner.gpus; ++gpu) {
      stack.add(ballast::to_index(owner.first) + gpu, sample, lengths[sample], cost, owner.gpus,
                speed);
    }
  }
  return stack.bars;
}

/// Returns how long each GPU is busy: the sum of its bars. O(bars + gpus).
[[nodiscard]] inline std::vector<double> work_per_gpu(std::vector<gantt_bar> const& bars,
                                                      std::size_t gpus)
{
  std::vector<double> work(gpus, 0.0);
  for (gantt_bar const& bar : bars) { work[ballast::to_index(bar.gpu)] += bar.duration; }
  return work;
}

}  // namespace pages
