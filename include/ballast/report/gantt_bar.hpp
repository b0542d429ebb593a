// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_GANTT_BAR_HPP
#define BALLAST_REPORT_GANTT_BAR_HPP

#include <ballast/core/ids.hpp>

#include <string>

namespace ballast::inline v0::report {

/// A GPU busy with one thing, usually a sample.
struct gantt_bar {
  rank_id gpu{};
  double start = 0;
  double duration = 0;
  std::string label;
};

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_GANTT_BAR_HPP
