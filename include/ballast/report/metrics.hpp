// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_METRICS_HPP
#define BALLAST_REPORT_METRICS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/text/detail/counted.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_METRICS_HPP
