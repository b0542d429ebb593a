// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_PIPELINE_TIMELINE_HPP
#define BALLAST_PIPELINE_PIPELINE_TIMELINE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/text/detail/counted.hpp>

#include <vector>

namespace ballast::inline v0 {

/// When each task of a schedule runs, and how long each rank computes.
///
/// Shapes      start[tasks], end[tasks], numbered as tasks() of the schedule; busy[ranks].
struct pipeline_timeline {
  std::vector<time_units> start;
  std::vector<time_units> end;
  std::vector<time_units> busy;  ///< how long each rank computes
  time_units makespan = 0;       ///< the end of the last task

  /// 1 - busy / (ranks x makespan): the share of the paid time in which nothing is computed; 0
  /// where there is nothing to do.
  [[nodiscard]] double idle_share() const
  {
    if (makespan == 0) { return 0; }
    double share = 0;
    for (time_units const time : busy) {
      share += static_cast<double>(time) / static_cast<double>(makespan);
    }
    return 1 - share / static_cast<double>(busy.size());
  }

  /// The same of one rank.
  [[nodiscard]] double idle_share(pipeline_rank rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < busy.size(), "rank ", rank, " of a timeline of ",
                    detail::counted(busy.size(), "rank"));
    if (makespan == 0) { return 0; }
    return 1 - static_cast<double>(busy[to_index(rank)]) / static_cast<double>(makespan);
  }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_PIPELINE_TIMELINE_HPP
