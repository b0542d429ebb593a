// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_ORDER_PLAN_HPP
#define BALLAST_PIPELINE_ORDER_PLAN_HPP

#include <ballast/core/certified.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>

#include <cstdint>
#include <vector>

namespace ballast::inline v0 {

/// In which order a pipeline computes its microbatches, and how good that order is.
///
/// Ensures     (1) order is a permutation
///             (2) lower_bound <= makespan, and no order takes less than lower_bound
struct order_plan : certified<time_units> {
  std::vector<microbatch_id> order;  ///< the microbatch at each position of the schedule
  time_units makespan_given = 0;     ///< of the microbatches as they were numbered

  /// What ranks compare before they start: equal orders of equal makespans give equal values.
  [[nodiscard]] std::uint64_t digest() const
  {
    return ballast::digest()
        .add(detail::span_of(order))
        .add(static_cast<std::uint64_t>(makespan))
        .value();
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_ORDER_PLAN_HPP
