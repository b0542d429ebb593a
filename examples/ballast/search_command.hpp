// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/search_layouts.hpp>

namespace cli {

/// What the command line of `ballast search` says, with the defaults of what it leaves out.
struct search_options {
  std::string profile;             ///< CSV file of module profiles
  std::string data;                ///< CSV file of the sizes of samples
  std::vector<std::string> sizes;  ///< MODULE=EXPR, of modules that are no column of the data
  std::uint32_t gpus = 0;
  std::uint32_t gpus_per_node = 8;
  std::string memory;                 ///< of a GPU: 80GB
  double between_nodes_gb_per_s = 0;  ///< of a GPU; 0: transfers and all-reduce take no time
  std::uint32_t global_batch = 0;
  std::size_t print = 5;       ///< layouts
  bool side_by_side = false;   ///< all modules feed the last one
  std::string virtual_stages;  ///< numbers: 2,4; empty: no interleaved schedules
  double budget = 0;           ///< thousand million steps of work; 0: by the size
  std::string estimate = "mean-sample";
  std::size_t draws = 1024;           ///< samples that are priced
  std::string memory_quantile = "1";  ///< share of microbatches that have to fit
  std::size_t batches = 4;            ///< that are simulated
  std::uint64_t seed = 1;
  std::string format = "table";
  std::string plan;    ///< path of the CSV file of layouts, or empty
  std::string report;  ///< path of the HTML page, or empty
};

/// Everything that `ballast search` found out.
struct search_run {
  search_options options;
  std::vector<ballast::module_profile> modules;
  std::vector<ballast::tokens> sizes;  ///< of the samples that were priced
  std::size_t rows = 0;                ///< of the data
  std::uint64_t memory_bytes = 0;
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
