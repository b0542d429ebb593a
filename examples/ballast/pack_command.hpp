// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "outcome.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/packing/pack.hpp>

namespace cli {

/// What the command line of `ballast pack` says, with the defaults of what it leaves out.
struct pack_options : row_options {
  std::int64_t most_per_gpu = 0;  ///< in a bin
  std::int64_t rounded_to = 1;    ///< lengths are rounded up to multiples of it
  ballast::bins bins;
  std::string samples = "any";  ///< how many a bin gets
  bool is_level = false;        ///< whether the largest bin is made least
  std::size_t batch = 0;        ///< rows of a step; 0: all
  std::string format = "table";
  std::string plan;  ///< path of the CSV file of who lies in which bin, or empty
};

/// How one step was packed.
struct packed_step {
  std::size_t samples = 0;
  std::size_t bins = 0;
  std::size_t fewest = 0;  ///< that no packing gets below
  std::size_t empty = 0;   ///< bins without a sample
  std::int64_t tokens = 0;
  std::int64_t largest = 0;  ///< bin
  std::int64_t largest_bound = 0;
  double seconds = 0;
  std::vector<std::size_t> owner = {};  ///< only for JSON
};

/// Everything that `ballast pack` found out.
struct pack_run {
  pack_options options;
  std::size_t rows = 0;  ///< of the trace
  row_ids ids;
  std::vector<packed_step> steps;
  ballast::digest digest;
  std::string plan_lines;  ///< only with --plan
};

/// Reads and packs. Shows progress on standard error.
[[nodiscard]] outcome<pack_run> run_pack(pack_options const& options);

/// Writes the plan where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_pack(pack_run const& run);

}  // namespace cli
