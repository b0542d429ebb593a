// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ordering.hpp"
#include "outcome.hpp"
#include "table.hpp"

#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/pipeline_files.hpp>
#include <ballast/pipeline/plan_schedule.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cli {

/// What the command line of `ballast pipeline` says, with the defaults of what it leaves out.
struct pipeline_options {
  std::string durations;  ///< file of the times of every microbatch on every stage
  std::string id;         ///< column of it that names microbatches in what is written, or empty
  ordering_options ordering;
  std::optional<std::uint64_t> evaluations;  ///< of the search; without it, as in local_search
  std::optional<std::uint64_t> seed;
  std::string transfer = "0";  ///< between neighbouring stages, in the file's unit
  std::string
      most_held;  ///< bytes: a list or a file of one for all ranks, or one for each; or empty
  std::string format = "table";
  std::string plan;      ///< path of the CSV file of tasks, or empty
  std::string report;    ///< path of the HTML page, or empty
  std::string timeline;  ///< path of the trace-event file, or empty
};

/// Everything that `ballast pipeline` found out.
struct pipeline_run {
  pipeline_options options;
  ballast::written_times written;
  row_ids ids;  ///< of the microbatches
  ballast::compiled_schedule schedule;
  ballast::compiled_schedule given;  ///< in which microbatches are taken as they are numbered
  ballast::order_plan plan;
  /// Beside a schedule of a file, the one that is planned within its memory.
  std::optional<ballast::schedule_plan> beside;
  double seconds = 0;  ///< to find the order
};

/// Whether the table ends with pictures of the step: only on a terminal.
[[nodiscard]] bool prints_picture(pipeline_options const& options);

/// Reads and orders.
[[nodiscard]] outcome<pipeline_run> run_pipeline(pipeline_options const& options);

/// Writes plan, page and timeline where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_pipeline(pipeline_run const& run);

}  // namespace cli
