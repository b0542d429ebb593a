// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "module_inputs.hpp"
#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/orchestrate.hpp>

namespace cli {

/// What the command line of `ballast orchestrate` says, with the defaults of what it leaves out.
struct orchestrate_options : model_options {
  std::uint32_t microbatch = 1;
  std::string llm;                          ///< a module, or empty for the last
  std::vector<std::string> boundary_bytes;  ///< MODULE=SIZE
  std::vector<std::string> virtual_stages;  ///< MODULE=N
};

/// What a policy found.
struct policy_layout {
  std::string policy;
  ballast::model_layout layout;
  ballast::time_units simulated = 0;  ///< step
};

/// Everything that `ballast orchestrate` found out.
struct orchestrate_run : model_job {
  orchestrate_options options;
  std::size_t llm = 0;
  std::vector<ballast::tokens> mean_sizes;  ///< of a sample in each module, rounded up
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
