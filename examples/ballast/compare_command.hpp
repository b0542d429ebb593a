// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/report/metrics.hpp>

namespace cli {

/// What the command line of `ballast compare` says, with the defaults of what it leaves out.
struct compare_options {
  job_options job;
  std::vector<std::string> policies;  ///< empty: that of the job
  std::vector<std::size_t> most_per_gpu;
  std::string report;  ///< path of the HTML page, or empty
};

/// More combinations than this make no table that anybody reads.
inline constexpr std::size_t most_combinations = 12;

/// All steps by one policy over one layout: means, except where the name says otherwise.
struct combination {
  std::string policy;
  std::size_t most_per_gpu = 0;  ///< 0: no limit
  std::string bags;
  double heaviest = 0;  ///< work of the busiest GPU
  double balance_ratio = 0;
  double idle_share = 0;
  double gap_mean = 0;
  double gap_max = 0;
  double moved_share = 0;
  double plan_seconds_median = 0;
  ballast::digest digest = {};
};

/// Everything that `ballast compare` found out.
struct compare_run {
  cli::job job;
  std::string report;        ///< path of the HTML page, or empty
  std::int64_t samples = 0;  ///< of the first step
  combination as_read;       ///< the steps as they are, whose name is not a policy
  std::vector<combination> combinations;
};

/// Reads, and plans the same steps by every combination. Shows progress on standard error.
[[nodiscard]] outcome<compare_run> run_compare(compare_options const& options);

/// Writes the page where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_compare(compare_run const& run);

}  // namespace cli
