// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <ballast/core.hpp>

namespace cli {

/// What the command line of `ballast partition` says, with the defaults of what it leaves out.
struct partition_options {
  std::vector<std::string> instances;  ///< files, folders and archives
  std::size_t most_bytes = 0;  ///< to unpack from an archive; 0: as the archive's size allows
  std::string policy = "refine";
  std::string samples = "any";  ///< how many jobs each machine gets
  std::string format = "table";
  std::string plan;  ///< path of the CSV file of who does which job, or empty
};

/// How one instance was solved.
struct solved_instance {
  std::string file;
  std::size_t jobs = 0;
  std::size_t machines = 0;
  ballast::cost_units makespan = 0;
  ballast::cost_units lower_bound = 0;
  double gap = 0;
  double microseconds = 0;

  [[nodiscard]] bool proven() const noexcept { return makespan == lower_bound; }
};

/// Everything that `ballast partition` found out.
struct partition_run {
  partition_options options;
  std::vector<solved_instance> solved;
  std::vector<std::string> passed_over;  ///< files that are no instances
  std::string plan_lines;                ///< only with --plan
};

/// Reads and plans. Shows progress on standard error.
[[nodiscard]] outcome<partition_run> run_partition(partition_options const& options);

/// Writes the plan where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_partition(partition_run const& run);

}  // namespace cli
