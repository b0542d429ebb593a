// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_PLAN_COMMAND_HPP
#define BALLAST_EXAMPLES_PLAN_COMMAND_HPP

#include <ballast/ballast.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cli {

/// What the command line of `ballast plan` says, with the defaults of what it leaves out.
struct plan_options {
  std::string trace;     ///< CSV file of sample lengths, or empty
  std::string length;    ///< expression over its columns
  std::string codes;     ///< KnapFormer data codes, or empty
  std::size_t gpus = 0;  ///< 0: as many as the codes or the first bags describe
  std::size_t gpus_per_node = 8;
  std::vector<std::string> bags;  ///< empty: bags of one GPU
  bool relay = false;
  std::string cost = "transformer:d=3072,gamma=0.405";
  std::string measured;  ///< CSV file of measured times to fit gamma to, or empty
  double tflops = 0;     ///< per GPU, turns FLOP into predicted time; 0: 400
  std::string policy = "longest_processing_time";
  std::size_t batch = 0;  ///< samples per step over all GPUs; 0: eight per GPU
  std::size_t steps = 10;
  std::uint64_t seed = 1;
  std::string format = "table";
  std::string picture;   ///< path of an SVG file of the work per GPU, or empty
  std::string report;    ///< path of the HTML page, or empty
  std::string timeline;  ///< path of the trace-event file, or empty
};

/// An error for people, and the exit code it ends the program with: 1 for data, 2 for usage.
struct failure {
  int exit_code = 1;
  std::string message;
};
template <class T>
using outcome = tl::expected<T, failure>;

/// How one step came out.
struct planned_step {
  std::size_t samples = 0;
  ballast::tokens length = 0;  ///< of all samples together
  ballast::balance_metrics before;
  ballast::balance_metrics after;
  double gap = 0;
  double seconds = 0;  ///< taken by planning
  std::uint64_t digest = 0;
};

/// All steps over one bag layout.
struct planned {
  std::string bags;
  ballast::bag_layout layout;
  std::vector<planned_step> steps;
  std::vector<ballast::gantt_bar>
      first_before;  ///< the first step as read and as planned, in seconds
  std::vector<ballast::gantt_bar> first_after;
  std::vector<std::vector<ballast::gantt_bar>>
      timeline;  ///< the first steps, where one is asked for
};

/// Everything that `ballast plan` found out; what is printed and drawn is made of this alone.
struct plan_run {
  plan_options options;
  std::string source;             ///< what the samples are, for people
  std::size_t trace_samples = 0;  ///< rows of the trace; 0 with codes
  std::size_t gpus = 0;
  ballast::quadratic_cost cost;
  double seconds_per_unit = 0;  ///< of cost
  std::optional<ballast::gamma_fit> fit;
  std::vector<ballast::latency_measurement> measured;
  std::vector<ballast::tokens> lengths;  ///< of the first steps, at most a million, for the page
  std::vector<planned> layouts;          ///< one for each --bags
};

/// A timeline holds no more steps than this: more make files that no viewer opens.
inline constexpr std::size_t most_timeline_steps = 100;

/// Reads, plans and measures. Shows progress on standard error where that is a terminal.
[[nodiscard]] outcome<plan_run> run_plan(plan_options const& options);

/// Writes picture, page and timeline where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_plan(plan_run const& run);

}  // namespace cli

#endif  // BALLAST_EXAMPLES_PLAN_COMMAND_HPP
