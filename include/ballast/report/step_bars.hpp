// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_STEP_BARS_HPP
#define BALLAST_REPORT_STEP_BARS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/concat.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/report/gantt_bar.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Collects bars. Each starts where the one before it on the same GPU ends.
class bar_stacker {
 public:
  bar_stacker(std::size_t gpus, double time_per_unit)
      : busy_until_(gpus, 0.0), time_per_unit_(time_per_unit)
  {}

  /// Adds the time of a sample on a GPU of a bag of `gpus` and `speed`.
  void add(std::size_t gpu, std::size_t sample, tokens length, cost_units cost, std::uint32_t gpus,
           std::uint32_t speed)
  {
    std::string label = concat("sample ", sample, ", ", length, " tokens");
    if (gpus > 1) { label += concat(" over ", gpus, " GPUs"); }
    double const duration = static_cast<double>(cost) / speed * time_per_unit_;
    bars.push_back({to_id<rank_id>(gpu), busy_until_[gpu], duration, std::move(label)});
    busy_until_[gpu] += duration;
  }

  std::vector<report::gantt_bar> bars;

 private:
  std::vector<double> busy_until_;
  double time_per_unit_;
};

}  // namespace ballast::inline v0::detail

namespace ballast::inline v0::report {

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
    sample_batch const& batch, std::span<cost_units const> costs, std::size_t gpus,
    double time_per_unit, std::span<std::uint32_t const> gpu_speeds = {})
{
  BALLAST_EXPECTS(costs.size() == batch.lengths.size(), "there are costs of ", costs.size(),
                  " samples for a batch of ", batch.lengths.size());
  BALLAST_EXPECTS(gpu_speeds.empty() || gpu_speeds.size() == gpus, "there are speeds of ",
                  gpu_speeds.size(), " GPUs for a step over ", gpus);
  detail::bar_stacker stack(gpus, time_per_unit);
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    std::size_t const gpu = to_index(batch.source[sample]);
    BALLAST_EXPECTS(gpu < gpus, "sample ", sample, " was read by GPU ", gpu, " of ", gpus);
    std::uint32_t const speed = gpu_speeds.empty() ? 1 : gpu_speeds[gpu];
    BALLAST_EXPECTS(speed >= 1, "GPU ", gpu, " has a speed of ", speed, ", and the least is 1");
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
[[nodiscard]] inline std::vector<gantt_bar> bars_as_planned(partition_plan const& plan,
                                                            bag_layout const& bags,
                                                            std::span<tokens const> lengths,
                                                            double time_per_unit)
{
  BALLAST_EXPECTS(lengths.size() == plan.owner.size(), "there are lengths of ", lengths.size(),
                  " samples for a plan of ", plan.owner.size());
  BALLAST_EXPECTS(plan.loads.size() == bags.size(), "the plan is for ", plan.loads.size(),
                  " bags, and the layout has ", bags.size());
  std::vector<cost_units> largest_attention(bags.size(), 0);
  for (std::size_t sample = 0; sample < plan.attention.size(); ++sample) {
    cost_units& largest = largest_attention[to_index(plan.owner[sample])];
    largest = std::max(largest, plan.attention[sample]);
  }
  detail::bar_stacker stack(bags.gpus(), time_per_unit);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    bag const owner = bags[plan.owner[sample]];
    std::uint32_t const speed = bags.speeds()[to_index(plan.owner[sample])];
    cost_units cost = plan.costs[sample];
    if (plan.batches == batching::padded) {
      cost = plan.loads[to_index(plan.owner[sample])] /
             static_cast<cost_units>(plan.samples[plan.owner[sample]].size());
    } else if (plan.batches == batching::attention_padded) {
      cost += largest_attention[to_index(plan.owner[sample])] - plan.attention[sample];
    }
    for (std::size_t gpu = 0; gpu < owner.gpus; ++gpu) {
      stack.add(to_index(owner.first) + gpu, sample, lengths[sample], cost, owner.gpus, speed);
    }
  }
  return stack.bars;
}

/// Returns how long each GPU is busy: the sum of its bars. O(bars + gpus).
[[nodiscard]] inline std::vector<double> work_per_gpu(std::vector<gantt_bar> const& bars,
                                                      std::size_t gpus)
{
  std::vector<double> work(gpus, 0.0);
  for (gantt_bar const& bar : bars) {
    BALLAST_EXPECTS(to_index(bar.gpu) < gpus, "bar ", &bar - bars.data(), " is on GPU ", bar.gpu,
                    " of ", gpus);
    work[to_index(bar.gpu)] += bar.duration;
  }
  return work;
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_STEP_BARS_HPP
