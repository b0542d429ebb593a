// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attribution.hpp"
#include "outcome.hpp"
#include "pages/log_page.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace cli {

/// What the command line of `ballast report` says.
struct report_options {
  std::string log;     ///< path of what a step_log wrote
  std::string output;  ///< path of the page; empty: that of the log with .html behind it
  std::string times;   ///< path of a file of measured times, or empty
};

/// Everything that `ballast report` read.
struct report_run {
  report_options options;
  pages::log_page_data page = {};
  step_judge of_steps = {};
  pipeline_judge of_pipelines = {};
  std::string times = {};                           ///< the rows of that file
  bool left_out = false;                            ///< an unfinished last line
  std::size_t passed_over = 0;                      ///< lines that are none of a step
  std::vector<std::size_t> first_passed_over = {};  ///< numbers of the first of them
};

/// Reads the log; lines that are none of a step are counted and told, an error where all are.
[[nodiscard]] outcome<report_run> run_report(report_options const& options);

/// Writes the page and the times, and says what was lost and where the files are.
[[nodiscard]] outcome<void> show_report(report_run const& run);

}  // namespace cli
