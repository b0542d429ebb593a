// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PARTITION_PLAN_HPP
#define BALLAST_PARTITION_PARTITION_PLAN_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/partition/batching.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// Which bag computes which samples, and how good that is.
///
/// Shapes      owner[n], lengths[n], costs[n], loads[m], samples: m rows; attention[n] of plans that
///             pad attention alone, otherwise empty.
/// Units       costs, attention and loads in the cost model's unit; makespan and bound in that unit
///             per GPU, or per unit of speed where GPUs differ.
/// Ensures     (1) sample i belongs to bag owner[i], and to samples[owner[i]] only
///             (2) loads[b] is what bag b computes: the sum of the costs of samples[b], of a padded
///                 batch their number times the largest of them, and of one that pads attention
///                 alone the sum of costs[i] - attention[i] and their number times the largest
///                 attention[i]
///             (3) makespan is the largest load per speed, exactly
///             (4) lower_bound: no plan has a smaller makespan among those that keep the
///                 constraints and what the policy restricts itself to (equal counts, padded
///                 batches). So this plan is at most gap() above the optimum
///             (5) short_samples counts samples that leave GPUs of their bag without a token; 0
///                 where the bags do not admit such
///             (6) moved is the share of all tokens whose sample leaves the bag that holds it; 0
///                 where the constraints give no home
struct partition_plan {
  std::vector<bag_id> owner;
  std::vector<tokens> lengths;  ///< of the samples, as they were planned
  std::vector<cost_units> costs;
  std::vector<cost_units> attention;  ///< what of each cost is attention
  std::vector<cost_units> loads;
  jagged<bag_id, sample_id> samples;
  ratio makespan;
  ratio lower_bound;
  ratio moved;
  batching batches = batching::packed;
  std::size_t short_samples = 0;
  std::uint64_t bags_digest = 0;  ///< of the bag_layout that the plan is for

  /// How far the plan can be from the best one: makespan / lower_bound - 1; 0 where there is no
  /// work.
  [[nodiscard]] double gap() const noexcept { return gap_above(makespan, lower_bound); }

  /// Whether no plan is better.
  [[nodiscard]] bool proven_optimal() const noexcept { return makespan == lower_bound; }

  /// Whether no plan is better by more than this share. Costs are rounded to whole units and fitted
  /// to measurements, so a gap below their resolution says nothing about time.
  [[nodiscard]] bool proven_within(double share) const noexcept { return gap() <= share; }

  /// One word that differs where any bag, owner, cost or load does: ranks compare it before they
  /// send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(bags_digest)
        .add(detail::span_of(owner))
        .add(detail::span_of(costs))
        .add(detail::span_of(loads))
        .value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_PARTITION_PLAN_HPP
