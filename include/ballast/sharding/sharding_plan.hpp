// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/topology/device_groups.hpp>

namespace ballast::inline v0 {

/// Which group of GPUs computes which sequence, and how good that is. The number of GPUs of the
/// group is the degree to which the sequence is split.
///
/// Shapes      owner[n], lengths[n], costs[n], loads[N], tokens_of[N], samples: one row for each
///             group of GPUs.
/// Units       costs, loads, makespan and lower_bound in the cost model's unit, per GPU.
/// Ensures     (1) sequence i belongs to group owner[i], and to samples[owner[i]] only
///             (2) costs[i] is the time that sequence i takes each GPU of its group
///             (3) loads[r] is the sum of the costs of the sequences of all groups that contain
///                 rank r, tokens_of[r] its tokens of them, where each is cut as chunk_of does it
///             (4) makespan is the largest load
///             (5) lower_bound: no plan over the same groups and under the same limit has a smaller
///                 makespan, so this one is at most gap() above the optimum
struct sharding_plan : certified<cost_units> {
  id_vector<sample_id, group_id> owner;
  std::vector<tokens> lengths;  ///< of the sequences, as they were planned
  std::vector<cost_units> costs;
  std::vector<cost_units> loads;
  std::vector<tokens> tokens_of;
  jagged<group_id, sample_id> samples;
  std::uint64_t groups_digest = 0;  ///< of the device_groups that the plan is for

  /// The largest load by the mean load; 1 where there is no work.
  [[nodiscard]] double balance_ratio() const noexcept
  {
    return max_by_mean(detail::span_of(loads));
  }

  /// The same of the tokens that each GPU holds.
  [[nodiscard]] double token_balance_ratio() const noexcept
  {
    return max_by_mean(detail::span_of(tokens_of));
  }

  /// One word that differs where any group, owner, cost or load does: ranks compare it before they
  /// send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(groups_digest)
        .add(detail::span_of(owner))
        .add(detail::span_of(costs))
        .add(detail::span_of(loads))
        .value();
  }

 private:
  [[nodiscard]] static double max_by_mean(std::span<std::int64_t const> values) noexcept
  {
    double sum = 0;
    std::int64_t largest = 0;
    for (std::int64_t const value : values) {
      sum += static_cast<double>(value);
      largest = std::max(largest, value);
    }
    return sum > 0 ? static_cast<double>(largest) * static_cast<double>(values.size()) / sum : 1.0;
  }
};

}  // namespace ballast::inline v0
