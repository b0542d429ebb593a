// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "ordering.hpp"
#include "outcome.hpp"
#include "steps.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <map>

namespace cli {

/// The stages of every replica, as --stages says: modules one after the other, each with a number
/// of stages that share its work equally.
struct stage_modules {
  std::vector<std::vector<std::uint32_t>> layers;  ///< of each module, one of equal weight a stage
  std::vector<std::vector<ballast::tokens>> lengths;  ///< of each module, one per row of the trace

  [[nodiscard]] std::size_t stages() const noexcept
  {
    std::size_t all = 0;
    for (auto const& module : layers) { all += module.size(); }
    return all;
  }
};

/// Reads `8` or `visual_tokens:2,text_tokens:6`: numbers of stages, and what the modules' lengths
/// are in the trace; without that, the job's.
[[nodiscard]] outcome<stage_modules> read_stages(std::string const& text, job const& work);

/// A step whose bags are pipelines. Times are in seconds; the step takes as long as its slowest
/// bag.
struct pipeline_figures {
  double makespan_given = 0;
  double makespan = 0;
  double lower_bound = 0;  ///< no order of any bag's microbatches makes the step shorter
  double idle_share_given = 0;
  double idle_share = 0;
  double order_seconds = 0;  ///< to find the orders of all bags
};

/// Orders the samples of every bag of a step, one sample per microbatch.
class step_pipelines {
 public:
  [[nodiscard]] static outcome<step_pipelines> make(job const& work, std::string const& stages,
                                                    ordering_options const& options);

  [[nodiscard]] std::size_t stages() const noexcept { return graph_.stages(); }
  [[nodiscard]] std::size_t ranks() const noexcept { return graph_.ranks(); }

  /// Every bag has each of its samples as a microbatch, in the order of the plan. A backward takes
  /// twice the forward, which is what the job's cost model prices.
  [[nodiscard]] outcome<pipeline_figures> order(job const& work, planned_step const& step,
                                                ballast::bag_layout const& layout);

 private:
  step_pipelines(stage_modules modules, ordering const& chosen, ballast::stage_graph graph);

  [[nodiscard]] outcome<void> read_times(job const& work, planned_step const& step,
                                         ballast::bag_id bag);

  stage_modules modules_;
  ordering chosen_;
  ballast::stage_graph graph_;
  std::map<std::size_t, ballast::compiled_schedule> schedules_;  // by number of microbatches
  ballast::pipeline_times whole_;
  ballast::pipeline_times times_;
  ballast::order_plan plan_;
  ballast::workspace memory_;
};

}  // namespace cli
