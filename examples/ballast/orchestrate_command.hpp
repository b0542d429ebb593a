// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/orchestrate.hpp>

namespace cli {

/// What the command line of `ballast orchestrate` says, with the defaults of what it leaves out.
struct orchestrate_options {
  std::string profile;             ///< CSV file of module profiles
  std::string data;                ///< CSV file of the sizes of samples
  std::vector<std::string> sizes;  ///< MODULE=EXPR, of modules that are no column of the data
  std::uint32_t gpus = 0;
  std::uint32_t gpus_per_node = 8;
  std::string memory;  ///< of a GPU: 80GB
  std::uint32_t global_batch = 0;
  std::uint32_t microbatch = 1;
  std::string llm;                          ///< a module, or empty for the last
  std::vector<std::string> frozen;          ///< modules
  std::vector<std::string> trained_inputs;  ///< modules
  std::vector<std::string> more_gpus;       ///< N:SIZE or N:SIZE:SPEED, of other kinds
  std::vector<std::string> own_gpus;        ///< MODULE=N:SIZE or MODULE=N:SIZE:SPEED
  std::vector<std::string> boundary_bytes;  ///< MODULE=SIZE
  std::vector<std::string> virtual_stages;  ///< MODULE=N
  double between_nodes_gb_per_s = 0;        ///< 0: traffic takes no time
  std::string state = "2,2,12";             ///< bytes of weight, gradient and optimiser
  std::string format = "table";
  std::string plan;    ///< path of the CSV file of layouts, or empty
  std::string report;  ///< path of the HTML page, or empty
};

/// What a policy found.
struct policy_layout {
  std::string policy;
  ballast::model_layout layout;
  ballast::time_units simulated = 0;  ///< step

  /// Of the GPUs of a module.
  [[nodiscard]] std::size_t kind(std::size_t module) const
  {
    return layout.kinds.empty() ? 0 : layout.kinds[module];
  }
};

/// Everything that `ballast orchestrate` found out.
struct orchestrate_run {
  orchestrate_options options;
  std::vector<ballast::module_profile> modules;
  std::vector<ballast::module_role> roles;  ///< of modules
  std::vector<ballast::tokens> sizes;       ///< of samples, in each module
  ballast::layout_problem problem;          ///< which sees these
  std::size_t llm = 0;
  std::vector<ballast::tokens> mean_sizes;  ///< of a sample in each module, rounded up
  std::size_t rows = 0;                     ///< of the data
  std::vector<policy_layout> layouts;  ///< the best, then those of other policies, fastest first
  std::uint64_t evaluated = 0;
  double seconds = 0;      ///< to find the best
  std::string why_none{};  ///< where no orchestration fits
};

/// Reads and orchestrates.
[[nodiscard]] outcome<orchestrate_run> run_orchestrate(orchestrate_options const& options);

/// Writes plan and page where asked, then prints the table or the JSON; an error where nothing fits.
[[nodiscard]] outcome<void> show_orchestrate(orchestrate_run const& run);

}  // namespace cli
