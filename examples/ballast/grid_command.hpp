// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "outcome.hpp"
#include "pages/step_bars.hpp"
#include "plan_command.hpp"
#include "plan_lines.hpp"

#include <ballast/core.hpp>

namespace cli {

/// A step of several microbatches on every rank.
struct grid_step_figures {
  std::size_t microbatches = 0;
  std::size_t fewest = 0;   ///< that no plan gets below
  std::string why;          ///< there are so many
  double ratio_before = 0;  ///< busiest GPU / mean, as read
  double ratio_after = 0;   ///< makespan / mean, as planned
  double gap = 0;           ///< makespan above the bound
  double empty_share = 0;   ///< of all cells
  double moved_share = 0;   ///< of the tokens, those that change ranks
  double plan_seconds = 0;
};

/// Everything that `ballast plan --microbatches` found out.
struct grid_run {
  plan_options options;
  cli::job job;
  std::size_t samples = 0;        ///< of the first step
  std::size_t all_samples = 0;    ///< of all steps
  std::size_t short_samples = 0;  ///< of these, with fewer tokens than a bag has GPUs
  std::vector<grid_step_figures> steps;
  ballast::digest digest;
  std::vector<pages::gantt_bar> first_before;           ///< samples, as they were read
  std::vector<pages::gantt_bar> first_after;            ///< cells, as planned
  std::vector<std::vector<pages::gantt_bar>> timeline;  ///< cells of the first steps
  std::string plan_lines;                               ///< only with --plan
  std::vector<step_owners> owners;                      ///< only for JSON
};

/// Plans steps of several microbatches over the one layout of the job.
[[nodiscard]] outcome<grid_run> run_grid(plan_options const& options);

/// Writes plan, picture, page and timeline where asked, then prints the table or the JSON.
[[nodiscard]] outcome<void> show_grid(grid_run const& run);

}  // namespace cli
