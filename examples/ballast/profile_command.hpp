// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"
#include "profile_check.hpp"

#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cli {

/// What the command line of `ballast profile` says, with the defaults of what it leaves out.
struct profile_options {
  std::string output;  ///< CSV file, begun or continued
  std::string device = "auto";
  // "auto": what suits the device
  std::string llm = "auto";
  std::string lengths = "auto";
  std::string encoder = "auto";
  std::string items = "auto";
  std::size_t tokens_per_item = 0;  ///< 0: what suits the device
  std::string degrees = "1,2";
  std::string hardware;  ///< fingerprint; empty: what the system says of the device
  std::string data;      ///< fingerprint
  std::uint32_t runs = 9;
  std::uint32_t warm_up = 2;
  double budget_seconds = 0;          ///< 0: no limit
  std::size_t check = 0;              ///< lengths to predict
  std::optional<std::uint64_t> seed;  ///< of those lengths; without it 1
  std::string format = "table";
};

/// A point of a module that was not measured, since it did not fit the memory.
struct module_limit {
  std::string module;
  ballast::model_profiler::limit limit;
};

/// Everything that `ballast profile` found out.
struct profile_run {
  profile_options options;
  std::string device;  ///< "cpu" or "gpu"
  ballast::profile_file file;
  ballast::model_profiler::summary summary;  ///< of all modules together, but for their limits
  std::vector<module_limit> limits;
  double seconds = 0;
  std::optional<profile_check> check;
};

/// Measures what the file lacks, and writes it.
[[nodiscard]] outcome<profile_run> run_profile(profile_options const& options);

/// Prints the table or the JSON.
[[nodiscard]] outcome<void> show_profile(profile_run const& run);

}  // namespace cli
