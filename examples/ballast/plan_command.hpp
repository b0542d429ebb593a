// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "ordering.hpp"
#include "outcome.hpp"
#include "pages/judged_bags.hpp"
#include "pages/plan_figures.hpp"
#include "pages/step_bars.hpp"
#include "plan_lines.hpp"
#include "step_pipelines.hpp"

#include <ballast/core.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace cli {

/// What the command line of `ballast plan` says, with the defaults of what it leaves out.
struct plan_options {
  job_options job;
  bool policy_given = false;  ///< also where it is the default
  std::string stages;         ///< of the pipeline that every bag is, or empty
  ordering_options ordering;  ///< of its microbatches
  std::string microbatches;   ///< of every rank: a number, auto, multiple_of:N, or empty for none
  std::string meet = "step";  ///< or microbatch: when ranks wait for each other
  bool is_padded = false;     ///< whether a microbatch pads its samples to the longest
  std::string target;         ///< expression of a second length that is padded, or empty
  std::string kind;           ///< column whose equal values share slots of microbatches, or empty
  std::string plan;           ///< path of the CSV file of all owners, or empty
  std::string picture;        ///< path of an SVG file of the work per GPU, or empty
  std::string report;         ///< path of the HTML page, or empty
  std::string timeline;       ///< path of the trace-event file, or empty
};

/// All steps over one bag layout. Bars are in seconds, and there only where they are shown.
struct planned {
  using bars = std::vector<pages::gantt_bar>;

  std::string bags;
  ballast::bag_layout layout;
  std::vector<pages::judged_bags> judged;  ///< where the bags were chosen
  std::vector<pages::plan_page_step> steps;
  std::vector<double> moved_shares;  ///< of the tokens of each step, those that change bags
  std::size_t samples = 0;           ///< of all steps
  std::size_t short_samples = 0;     ///< of these, with fewer tokens than their bag has GPUs
  ballast::digest digest;            ///< of the plans of all steps
  bars first_before;                 ///< the first step as its samples were read
  bars first_after;                  ///< and as planned
  ballast::route_volume first_moved_before;  ///< had equal bags not changed places, where they did
  ballast::route_volume first_moved;         ///< from one to the other; only for the page
  std::vector<bars> timeline;                ///< the first steps as planned
  std::vector<pipeline_figures> pipelines;   ///< of each step; only with --stages
  std::string plan_lines;                    ///< only with --plan
  std::vector<step_owners> owners;           ///< only for JSON
};

/// Everything that `ballast plan` found out; what is printed and drawn is made of this alone.
struct plan_run {
  plan_options options;
  cli::job job;
  std::optional<step_pipelines> pipelines;  ///< only with --stages
  std::vector<ballast::tokens> lengths;     ///< of the first steps, at most a million, for the page
  std::vector<planned> layouts;             ///< one for each --bags
};

/// A timeline holds no more steps than this: more make files that no viewer opens.
inline constexpr std::size_t most_timeline_steps = 100;

/// Why options about the trace do not go with data codes, if so.
[[nodiscard]] outcome<void> check_trace_options(plan_options const& options);

/// The options that only matter where bytes are moved, those that were given.
[[nodiscard]] std::string exchange_options(job_options const& options);

/// Whether the table ends with a picture of the first step: only on a terminal.
[[nodiscard]] bool prints_picture(plan_options const& options);

/// Reads, plans and measures. Shows progress on standard error.
[[nodiscard]] outcome<plan_run> run_plan(plan_options const& options);

/// Writes picture, page and timeline where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_plan(plan_run const& run);

}  // namespace cli
