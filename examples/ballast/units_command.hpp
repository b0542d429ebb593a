// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "outcome.hpp"

#include <ballast/route/unit_plan.hpp>
#include <ballast/topology/process_grid.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cli {

/// What a command line says about an exchange between two units of a job.
struct units_options {
  job_options job;
  std::string plan;   ///< of `ballast route` without units
  std::string units;  ///< A:B, or empty
};

/// The sizes of both units, from a text such as 12:4 or 12x1x1:4x2x8.
[[nodiscard]] outcome<std::array<ballast::unit_sizes, 2>> read_units(std::string const& text);

/// What one strategy costs in all steps.
struct units_cost {
  ballast::unit_strategy strategy{};
  std::size_t brokers = 0;
  ballast::unit_plan::cost mean;
  ballast::unit_plan::cost most;  ///< of any step
};

/// Everything that `ballast route --units` found out.
struct units_run {
  cli::job job;
  std::string units;
  std::array<ballast::unit_sizes, 2> sizes;
  std::int64_t samples = 0;  ///< of a step
  std::array<units_cost, ballast::unit_plan::strategies.size()> strategies;
};

/// Reads, places and prices.
[[nodiscard]] outcome<units_run> run_units(units_options const& options);

/// Prints the table or the JSON.
[[nodiscard]] outcome<void> show_units(units_run const& run);

}  // namespace cli
