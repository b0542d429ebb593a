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

/// All steps over one bag layout. Bars are in seconds, and there only where they are shown.
struct planned {
  using bars = std::vector<ballast::gantt_bar>;

  std::string bags;
  ballast::bag_layout layout;
  std::vector<ballast::plan_page_step> steps;
  ballast::digest digest;      ///< of the plans of all steps
  bars first_before;           ///< the first step as its samples were read
  bars first_after;            ///< and as planned
  std::vector<bars> timeline;  ///< the first steps as planned
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

/// Whether the table ends with a picture of the first step: only for people who look at it.
[[nodiscard]] bool prints_picture(plan_options const& options);

/// Reads, plans and measures. Shows progress on standard error where that is a terminal.
[[nodiscard]] outcome<plan_run> run_plan(plan_options const& options);

/// Writes picture, page and timeline where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_plan(plan_run const& run);

}  // namespace cli

#endif  // BALLAST_EXAMPLES_PLAN_COMMAND_HPP
