// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exchange_meter.hpp"
#include "job.hpp"
#include "outcome.hpp"

#include <ballast/core.hpp>

namespace cli {

/// What the command line of `ballast route` says of bags.
struct route_options {
  job_options job;
  std::string plan;  ///< path of the CSV file of who reads and who computes, or empty
};

/// The routes of all steps over one bag layout.
struct routed {
  std::string bags;
  exchange_statistics exchange;
  exchange_statistics exchange_before;  ///< had equal bags not changed places, where they did
  double compute_seconds = 0;           ///< of the busiest GPU, mean; only where times are known
  std::size_t samples = 0;              ///< of all steps
  std::size_t short_samples = 0;        ///< of these, with fewer tokens than their bag has GPUs
  ballast::digest digest;               ///< of the plans of all steps
  std::string plan_lines;               ///< only with --plan
};

/// Everything that `ballast route` found out.
struct route_run {
  cli::job job;
  std::string plan;          ///< as in route_options
  std::int64_t samples = 0;  ///< of a step
  std::vector<routed> layouts;
  exchange_statistics all_gather;  ///< the baseline, which is the same for every layout
};

/// Reads, plans and measures. Shows progress on standard error.
[[nodiscard]] outcome<route_run> run_route(route_options const& options);

/// Writes the plan where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_route(route_run const& run);

}  // namespace cli
