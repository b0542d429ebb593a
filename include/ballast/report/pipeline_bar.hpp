// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_PIPELINE_BAR_HPP
#define BALLAST_REPORT_PIPELINE_BAR_HPP

#include <ballast/core/ids.hpp>
#include <ballast/pipeline/schedule.hpp>

namespace ballast::inline v0::report {

/// A pipeline rank busy with one task.
struct pipeline_bar {
  pipeline_rank rank{};
  stage_id stage{};
  microbatch_id microbatch{};
  ballast::pass pass = ballast::pass::forward;
  double start = 0;
  double duration = 0;
};

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_PIPELINE_BAR_HPP
