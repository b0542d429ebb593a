// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "html_page.hpp"
#include "number_text.hpp"
#include "pipeline_chart.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <fmt/format.h>

namespace pages {

/// What the page of an order shows beside the schedule, the times and the plan.
struct pipeline_page_data {
  std::string title;                         ///< "step.csv on 8 pipeline ranks"
  std::vector<html_page::setting> settings;  ///< what was ordered: times, schedule, policy, seed
  std::string unit;                          ///< of all times: "s", or empty
  double time_per_unit = 1;                  ///< how long one time unit is, in `unit`
  double order_seconds = 0;                  ///< time to find the order
};

/// "4 1 3 2", at most a thousand of them.
[[nodiscard]] inline std::string order_text(std::vector<ballast::microbatch_id> const& order)
{
  constexpr std::size_t most = 1000;
  std::string text;
  for (std::size_t place = 0; place < std::min(order.size(), most); ++place) {
    text += fmt::format("{}{}", place == 0 ? "" : " ", to_index(order[place]));
  }
  if (order.size() > most) { text += " and " + grouped_text(order.size() - most) + " more"; }
  return text;
}

/// The sentence below the title.
[[nodiscard]] inline std::string order_lead(ballast::order_plan const& plan)
{
  std::string const known =
      plan.proven_optimal()
          ? "No order is shorter."
          : "It is at most " + percent_text(plan.gap(), true) + " longer than with the best order.";
  if (plan.makespan == plan.makespan_given) {
    return "The order of the microbatches makes the step no shorter. " + known;
  }
  double const ratio =
      static_cast<double>(plan.makespan) / static_cast<double>(plan.makespan_given);
  return "The order of the microbatches makes the step " +
         (ratio < 1 ? percent_text(1 - ratio) + " shorter. "
                    : percent_text(ratio - 1) + " longer. ") +
         known;
}

[[nodiscard]] inline std::vector<html_page::figure> order_figures(pipeline_page_data const& data,
                                                                  ballast::order_plan const& plan,
                                                                  double idle_given, double idle)
{
  auto const time = [&data](ballast::time_units units) {
    return si_text(static_cast<double>(units) * data.time_per_unit, data.unit);
  };
  return {{"Time of the step", time(plan.makespan),
           "from the first forward to the last task; no order takes less than " +
               time(plan.lower_bound),
           time(plan.makespan_given)},
          {"Time spent waiting", percent_text(idle), "share of the time of all ranks",
           percent_text(idle_given)},
          {"Above the optimum", "\u2264\u00A0" + percent_text(plan.gap(), true),
           "step \u00F7 lower bound \u2212 1: a guarantee"},
          {"Time to find the order", si_text(data.order_seconds, "s"), "once per step"}};
}

[[nodiscard]] inline std::string rank_table(pipeline_page_data const& data,
                                            ballast::pipeline_timeline const& given,
                                            ballast::pipeline_timeline const& ordered,
                                            std::vector<ballast::rank_memory> const& memory,
                                            std::size_t most)
{
  html_table table({"Rank", "Computes", "Waits", "Activations kept at most"});
  for (std::size_t rank = 0; rank < std::min(memory.size(), most); ++rank) {
    auto const waits = [rank](ballast::pipeline_timeline const& of) {
      return percent_text(of.idle_share(ballast::to_id<ballast::pipeline_rank>(rank)));
    };
    table.add_row({std::to_string(rank),
                   si_text(static_cast<double>(ordered.busy[rank]) * data.time_per_unit, data.unit),
                   waits(given) + " \u2192 " + waits(ordered),
                   grouped_text(memory[rank].peak_bytes)});
  }
  return table.markup();
}

/// A page that shows what ordering the microbatches of a step did: the timeline of every pipeline
/// rank before and after, how long the step is, and by how much another order could be shorter.
///
/// Shapes      held[microbatches x stages]: what a microbatch keeps; 1 byte each counts microbatches.
/// Expects     plan is an order for this schedule and these times; given_schedule is the one in
///             which microbatches are taken as they are numbered, on as many ranks; the numbers of
///             data are finite and not negative, and the makespan is at most 1e29 in its unit.
/// Ensures     (1) one self-contained HTML file with the sections Pipeline timeline, Ranks and
///                 Settings
///             (2) equal data give equal bytes
/// Complexity  O(tasks log tasks); apart from the texts of data, the page's size is bounded.
[[nodiscard]] inline std::string pipeline_page(pipeline_page_data const& data,
                                               ballast::compiled_schedule const& given_schedule,
                                               ballast::compiled_schedule const& schedule,
                                               ballast::pipeline_times const& times,
                                               std::vector<ballast::held_bytes> const& held,
                                               ballast::order_plan const& plan)
{
  constexpr std::size_t most_rows = 5000;
  std::size_t const ranks = schedule.stages().ranks();
  std::vector<ballast::microbatch_id> numbered = plan.order;
  std::ranges::sort(numbered);
  ballast::pipeline_timeline const given = ballast::simulate(given_schedule, times, numbered);
  ballast::pipeline_timeline const ordered = ballast::simulate(schedule, times, plan.order);

  html_page page(data.title, order_lead(plan));
  page.add_figures(order_figures(data, plan, given.idle_share(), ordered.idle_share()));
  std::string picture =
      "Each row is a pipeline rank. Light bars are forwards, strong bars backwards, their numbers "
      "the microbatches, and grey is a rank that waits. No order ends before the dotted line.";
  if (!times.weights.empty()) { picture += " Bars between both in tone are weights passes."; }
  if (ranks > pipeline_rows::most) {
    picture += " Shown are 32 of " + grouped_text(ranks) + " ranks.";
  }
  page.add_chart("Pipeline timeline", picture, [&](chart_size const& size) {
    return pipeline_chart(pipeline_bars(given_schedule, given, numbered, data.time_per_unit),
                          pipeline_bars(schedule, ordered, plan.order, data.time_per_unit), ranks,
                          data.unit, static_cast<double>(plan.lower_bound) * data.time_per_unit, {},
                          size);
  });
  std::string table =
      "What a rank computes does not depend on the order; how long it waits does, as given and as "
      "ordered. Activations are those of one microbatch on one stage, from its forward to its "
      "backward.";
  if (ranks > most_rows) { table += " The first 5\u202F000 of " + grouped_text(ranks) + " ranks."; }
  page.add_section(
      "Ranks", table,
      rank_table(data, given, ordered,
                 ballast::activation_memory(schedule, ordered, plan.order, held), most_rows));
  std::vector<html_page::setting> settings = data.settings;
  settings.push_back({"Order", order_text(plan.order)});
  page.add_settings("Settings", "What was ordered; the same settings give the same order.",
                    settings);
  return page.markup();
}

}  // namespace pages
