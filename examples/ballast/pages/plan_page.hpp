// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cost_chart.hpp"
#include "gantt_chart.hpp"
#include "histogram_chart.hpp"
#include "html_page.hpp"
#include "judged_bags.hpp"
#include "load_chart.hpp"
#include "number_text.hpp"
#include "plan_figures.hpp"
#include "step_bars.hpp"
#include "traffic_chart.hpp"

#include <ballast/route/route_volume.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pages {

/// Everything that the page of a plan shows. Pictures show the first step; numbers are over all
/// steps. What is left empty is shown as empty.
struct plan_page_data {
  std::string title;                         ///< "nextqa_video on 32 GPUs"
  std::vector<html_page::setting> settings;  ///< what was planned: trace, bags, cost, policy, seed
  std::vector<plan_page_step> steps;
  std::string unit;                          ///< of all work and time: "s", "FLOP", or empty
  std::vector<ballast::length_bin> lengths;  ///< over all steps
  std::vector<double> length_work;           ///< of each bin; empty where it is unknown
  std::vector<cost_point> cost_model;
  std::vector<measured_cost> measured_costs;
  std::vector<length_mark> length_marks;
  std::size_t gpus = 0;
  std::vector<gantt_bar> timeline_before;  ///< what each GPU does; its work is the sum of its bars
  std::vector<gantt_bar> timeline_after;
  chart_speeds speeds = {};  ///< where GPUs differ in speed
  ballast::route_volume
      moved;  ///< what the route of the first step moves, if the steps have an exchange
  ballast::route_volume moved_before =
      {};                      ///< had equal bags not changed places; no ranks where they did not
  double bytes_per_token = 0;  ///< how many bytes of each token an exchange moves
  std::vector<judged_bags> judged = {};  ///< the job's bags and those they were chosen before
  std::string computed = {};  ///< what takes the steps' compute_seconds: "the forward pass"
};

/// A page that shows what a plan did: how uneven the work was, how even it is now, and why.
///
/// Expects     numbers are finite and not negative; each part is what its chart expects; where
///             `moved` has ranks, every step has an exchange; all steps have an all_gather or none
///             has.
/// Ensures     (1) one self-contained HTML file with the sections Work per GPU, Step timeline,
///                 Sample lengths, Cost of a sample, Steps and Settings, and after Step timeline
///                 Bytes moved, where `moved` has ranks; the same of `moved_before`; before Steps
///                 Bags, where there are judged ones
///             (2) equal data give equal bytes
/// Complexity  O(n log n) in the size of the data; above 128 GPUs, 64 rows, or 5000 steps the page
///             does not grow with them.
[[nodiscard]] inline std::string plan_page(plan_page_data const& data)
{
  constexpr std::size_t most_step_rows = 5000;

  html_page page(data.title, plan_lead(data.steps));
  page.add_figures(plan_figures(data.steps));
  page.add_chart(
      "Work per GPU",
      "The first step. It is computed when the tallest bar is; what the other bars lack is "
      "waiting.",
      [&](chart_size const& size) {
        return load_chart(work_per_gpu(data.timeline_before, data.gpus),
                          work_per_gpu(data.timeline_after, data.gpus), data.unit, data.speeds,
                          size);
      });
  std::string timeline =
      "The first step again, over time. Each row is a GPU, each bar a sample (stronger colour: "
      "longer), and grey is a GPU that waits.";
  if (data.gpus > 64) {
    timeline += " Shown are 64 of " + grouped_text(data.gpus) +
                " GPUs, from the last to finish to the first.";
  }
  page.add_chart("Step timeline", timeline, [&](chart_size const& size) {
    return gantt_chart(data.timeline_before, data.timeline_after, data.gpus, data.unit, size);
  });
  if (!data.moved.ranks.empty()) {
    page.add_chart(
        "Bytes moved",
        "One exchange takes an array of " + si_text(data.bytes_per_token, "B") +
            " per token from where samples are read to where they are computed; the "
            "picture is that of the first step. The reverse exchange moves the same "
            "bytes in the same time. A training step needs both in its forward and "
            "in its backward pass: four exchanges for each array.",
        [&](chart_size const& size) {
          return traffic_chart(data.moved, data.bytes_per_token, size);
        },
        exchange_figures(data.steps, data.moved.ranks.size(), data.computed));
  }
  if (!data.moved_before.ranks.empty()) {
    page.add_chart("Bytes moved, had equal bags kept their places",
                   "The same exchange before equal bags exchanged what they own, so that few "
                   "tokens cross nodes. No load differs.",
                   [&](chart_size const& size) {
                     return traffic_chart(data.moved_before, data.bytes_per_token, size);
                   });
  }
  page.add_chart("Sample lengths",
                 "Bars count samples, the line counts their work. Where the line rises above the "
                 "bars, few samples cause much of the work. The length axis is logarithmic.",
                 [&](chart_size const& size) {
                   return histogram_chart(data.lengths, data.length_work, size);
                 });
  page.add_chart("Cost of a sample",
                 "What the plan assumes. Attention grows with the square of the length, so one "
                 "long sample costs more than many short ones with as many tokens.",
                 [&](chart_size const& size) {
                   return cost_chart(data.cost_model, data.measured_costs, data.length_marks,
                                     data.unit, size);
                 });

  if (!data.judged.empty()) {
    page.add_section(
        "Bags",
        "The mixes of bags that came nearest, and those of one size. A step is planned by longest "
        "processing time first, and lasts as long as the slowest bag computes and exchanges. The "
        "first row was chosen: its steps are shortest on batches that no mix was fitted to.",
        judged_bags_table(data.judged));
  }

  std::string steps = "Each step before and after balancing; ratios are of work per GPU.";
  if (data.steps.size() > most_step_rows) {
    steps += " The first 5\u202F000 of " + grouped_text(data.steps.size()) + " steps.";
  }
  page.add_section("Steps", steps, step_table(data.steps, most_step_rows));
  page.add_settings("Settings", "What was planned; the same settings give the same plan.",
                    data.settings);
  return page.markup();
}

}  // namespace pages
