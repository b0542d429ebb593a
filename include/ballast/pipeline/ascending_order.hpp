// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_ASCENDING_ORDER_HPP
#define BALLAST_PIPELINE_ASCENDING_ORDER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/concepts.hpp>
#include <ballast/pipeline/detail/orders/partial_order.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <span>

namespace ballast::inline v0 {

/// Shortest microbatch first, by its time on all stages, forward and backward together.
///
/// The pipeline fills soon, and no microbatch waits behind a longer one; but the last ones, whose
/// backwards nothing hides, are the longest.
///
/// Ensures     (1) total times do not decrease, and equal ones are in microbatch order
/// Complexity  O(l log l + l x stages).
struct ascending_order {
  void operator()(order_problem const& problem, std::span<microbatch_id> order,
                  workspace& memory) const
  {
    BALLAST_EXPECTS(order.size() == problem.schedule.microbatches(), "an order of ",
                    detail::counted(order.size(), "microbatch"), " was given for a schedule of ",
                    problem.schedule.microbatches());
    auto scratch = memory.open();
    std::span<time_units const> const total = detail::total_times(problem, scratch);
    std::sort(order.begin(), order.end(), [total](microbatch_id a, microbatch_id b) {
      return detail::precedes(total[to_index(a)], total[to_index(b)], a, b);
    });
  }

  friend bool operator==(ascending_order const&, ascending_order const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_ASCENDING_ORDER_HPP
