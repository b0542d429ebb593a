// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_PLAN_PAGE_STEP_HPP
#define BALLAST_REPORT_PLAN_PAGE_STEP_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/route/exchange_cost.hpp>

#include <cstdint>
#include <optional>

namespace ballast::inline v0::report {

/// One step, before and after balancing.
struct plan_page_step {
  std::int64_t samples = 0;
  tokens length = 0;            ///< of all samples together
  balance_metrics before = {};  ///< of the GPUs with the samples as they were read
  balance_metrics after = {};
  double gap = 0;              ///< makespan / certified lower bound - 1
  double plan_seconds = 0;     ///< time to make the plan
  double compute_seconds = 0;  ///< of the busiest GPU after balancing; 0 where it is unknown
  std::optional<exchange_cost> exchange = {};    ///< of the route; all steps have one, or none has
  std::optional<exchange_cost> all_gather = {};  ///< to compare with; all steps have one, or none
};

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_PLAN_PAGE_STEP_HPP
