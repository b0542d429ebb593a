// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "module_inputs.hpp"
#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/search_layouts.hpp>

namespace cli {

/// What the command line of `ballast search` says, with the defaults of what it leaves out.
struct search_options : model_options {
  bool leave_gpus = false;       ///< GPUs may stay unused
  std::size_t print = 5;         ///< layouts
  bool side_by_side = false;     ///< all modules feed the last one
  std::string virtual_stages;    ///< numbers: 2,4; empty: no interleaved schedules
  bool split_backwards = false;  ///< schedules with those are tried too
  double budget = 0;             ///< thousand million steps of work; 0: the default
  bool is_proof_wanted = false;
  std::string estimate = "mean-sample";
  std::size_t draws = 1024;           ///< samples that are priced
  std::string memory_quantile = "1";  ///< share of microbatches that have to fit
  std::size_t batches = 4;            ///< that are simulated
  std::uint64_t seed = 1;
};

/// Everything that `ballast search` found out; sizes are those of the samples that were priced.
struct search_run : model_job {
  search_options options;
  std::vector<std::size_t> feeds;  ///< of the problem, where modules are side by side
  ballast::layout_ranking found;
  std::vector<ballast::simulated_layout> layouts;  ///< those of `found`
  /// Of the step of each, what transfers and all-reduce add; empty where they take no time.
  std::vector<ballast::time_units> sending;
  double seconds = 0;      ///< to search
  std::string why_none{};  ///< where no layout fits
};

/// Reads, searches and simulates.
[[nodiscard]] outcome<search_run> run_search(search_options const& options);

/// Writes plan and page where asked, then prints the table or the JSON; an error where no layout fits.
[[nodiscard]] outcome<void> show_search(search_run const& run);

}  // namespace cli
