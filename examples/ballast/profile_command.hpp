// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_PROFILE_COMMAND_HPP
#define BALLAST_EXAMPLES_PROFILE_COMMAND_HPP

#include "outcome.hpp"

#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cli {

/// What the command line of `ballast profile` says, with the defaults of what it leaves out.
struct profile_options {
  std::string output;  ///< CSV file, begun or continued
  std::string llm = "transformer:d=64,layers=8,heads=4,causal=1";
  std::string encoder = "transformer:d=48,layers=4,heads=4,causal=1";
  std::string lengths = "16,32,48,64,96,128,192,256,384,512";
  std::string items = "1,2,4,8,16";
  std::size_t tokens_per_item = 32;
  std::string degrees = "1,2";
  std::string hardware;  ///< fingerprint; empty: what the system says of its processor
  std::string data;      ///< fingerprint
  std::uint32_t runs = 9;
  std::uint32_t warm_up = 2;
  double budget_seconds = 0;  ///< 0: no limit
  std::size_t check = 0;      ///< lengths to predict
  std::uint64_t seed = 1;     ///< of those lengths
  std::string format = "table";
};

/// How far predictions of lengths that were not measured are off: |predicted / measured - 1|.
struct profile_check {
  std::size_t lengths = 0;
  double lower_quartile = 0;
  double median = 0;
  double upper_quartile = 0;
  double largest = 0;
  double bias = 0;  ///< the median of predicted / measured - 1
};

/// Everything that `ballast profile` found out.
struct profile_run {
  profile_options options;
  ballast::profile_file file;
  ballast::profiler_summary summary;  ///< of all modules together
  double seconds = 0;
  std::optional<profile_check> check;
};

/// Measures what the file lacks, and writes it.
[[nodiscard]] outcome<profile_run> run_profile(profile_options const& options);

/// Prints the table or the JSON.
[[nodiscard]] outcome<void> show_profile(profile_run const& run);

}  // namespace cli

#endif  // BALLAST_EXAMPLES_PROFILE_COMMAND_HPP
