// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pages/verdict.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/report/step_log.hpp>

#include <optional>
#include <string>
#include <vector>

namespace cli {

/// A line of a step_log, read. Rows are as step_log::step_line has them.
struct logged_step {
  std::uint64_t step = 0;
  std::vector<ballast::tokens> lengths;
  std::vector<ballast::cost_units> costs;
  std::vector<std::uint32_t> owner;  ///< cells of the samples: slot * bags + bag
  std::vector<ballast::cost_units> loads;
  std::vector<std::uint32_t> speeds;
  std::vector<std::uint32_t> gpus;
  ballast::ratio makespan{};
  ballast::ratio bound{};
  std::vector<std::int64_t> measured;
  std::size_t microbatches = 1;
  ballast::grid_meeting meet = ballast::grid_meeting::step;
  std::int64_t most_per_gpu = ballast::no_limit;
  std::vector<std::int64_t> weights;
  ballast::counts samples{};

  [[nodiscard]] std::size_t bags() const { return speeds.size(); }
  /// What each bag computes in the step, in cost units per speed.
  [[nodiscard]] std::vector<double> times() const;
  /// What the cap counts in each cell.
  [[nodiscard]] std::vector<std::int64_t> filled() const;
  /// The bag of each rank that was measured; empty where they cannot be told.
  [[nodiscard]] std::vector<std::size_t> bag_of_rank() const;
};

/// What each bag had to do in a step, as fit_steps takes it, without times.
[[nodiscard]] std::vector<ballast::step_fit::measurement> work_of(logged_step const& step);

/// Says what the steps of a log lost and why.
///
/// What GPUs wait for the last one is lost. Of the plan's part, each step is planned again: without
/// limits, with the cap alone, with the counts alone, and with both; what a limit costs is the mean
/// of what it adds to none and to the other. What no plan without limits avoids is split at the
/// longest sample. What was measured beyond the plan is that of ranks that always take longer than
/// the others for the same work, then that which a cost fitted to the log would have said, then the
/// rest.
///
/// Ensures     (1) the shares of all causes add up to the share that was lost, where none of them is
///                 below 0: as times scatter, ranks may wait less than they were planned to
///             (2) at most most_kept steps, evenly picked, are planned again and held
class step_judge {
 public:
  static constexpr std::size_t most_kept = 256;

  void add(logged_step step);

  [[nodiscard]] pages::verdict verdict() const;
  [[nodiscard]] pages::prediction prediction() const;

 private:
  std::vector<logged_step> kept_;
  std::size_t seen_ = 0;
  std::size_t stride_ = 1;
  double measured_time_ = 0;  ///< GPU seconds
  double measured_lost_ = 0;
  double planned_time_ = 0;  ///< GPUs times cost units
  double planned_lost_ = 0;
  std::size_t gpus_ = 0;
};

/// The same for steps of a pipeline: bubbles that another order of the microbatches might fill, those
/// that filling and draining takes in any order, and stages that have less to do than others.
class pipeline_judge {
 public:
  void add(std::span<ballast::report::step_log::task const> tasks);

  [[nodiscard]] pages::verdict verdict() const;

 private:
  struct parts {
    double time = 0;
    double order = 0;
    double filling = 0;
    double uneven = 0;
  };

  /// What a step lost by its times as measured, or as simulated.
  [[nodiscard]] static std::optional<parts> parts_of(
      std::span<ballast::report::step_log::task const> tasks, bool simulated, std::size_t& busiest);

  std::size_t steps_ = 0;
  std::size_t ranks_ = 0;
  parts sum_;
  double unplanned_ = 0;              ///< bubbles that the simulation did not have
  std::vector<std::size_t> busiest_;  ///< in how many steps each rank was
};

}  // namespace cli
