// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "html_page.hpp"
#include "number_text.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pages {

/// The steps by one policy within one limit over one layout, or as they were read: means.
struct compared_plan {
  std::string name;
  double step = 0;  ///< the busiest GPU
  double balance_ratio = 0;
  double idle_share = 0;
  double largest_gap = 0;
  double moved_share = 0;
  double plan_seconds = 0;
};

/// Everything that the page of a comparison shows.
///
/// Units       steps: `unit`, which takes an SI prefix ("s", "FLOP").
struct compare_page_data {
  std::vector<html_page::setting> settings;
  compared_plan as_read;
  std::vector<compared_plan> plans;
  std::string unit;
};

/// Draws how long the steps of each plan are, one bar below the other, on one scale from 0.
[[nodiscard]] inline std::string step_lengths_chart(std::vector<compared_plan> const& plans,
                                                    std::string_view unit,
                                                    chart_size const& size = {})
{
  constexpr double row = 46;
  double const longest_bar = size.width - 220;  // beside it is the number
  double highest = 0;
  for (compared_plan const& each : plans) { highest = std::max(highest, each.step); }
  svg_drawing drawing(size.width, row * static_cast<double>(plans.size()) + 8,
                      "Length of a step by each plan");
  for (std::size_t at = 0; at < plans.size(); ++at) {
    compared_plan const& each = plans[at];
    double const top = row * static_cast<double>(at);
    double const width = highest > 0 ? each.step / highest * longest_bar : 0;
    std::string const length = si_text(each.step, unit);
    drawing.text({0, top + 16}, "note", each.name);
    drawing.rectangle({0, top + 22, width, 16}, at == 0 ? "before" : "after",
                      each.name + ": " + length);
    drawing.text({width + 8, top + 35}, "note",
                 fmt::format("{}, {} \u00D7 the mean GPU", length, ratio_text(each.balance_ratio)));
  }
  return drawing.markup();
}

/// A page that shows what `compare` found: the same steps, planned in several ways.
///
/// Expects     at least one plan; numbers are finite and not negative.
/// Ensures     (1) one self-contained HTML file with the sections Steps, Plans and Settings
///             (2) equal data give equal bytes
/// Complexity  O(plans).
[[nodiscard]] inline std::string compare_page(compare_page_data const& data)
{
  compared_plan const& best = *std::ranges::min_element(data.plans, {}, &compared_plan::step);
  html_page page("The same steps, planned in several ways",
                 fmt::format("{} has the shortest steps.", best.name));
  page.add_figures({{"Step", si_text(best.step, data.unit), "the busiest GPU of the best plan",
                     si_text(data.as_read.step, data.unit)},
                    {"Idle GPU time", percent_text(best.idle_share), "of the best plan",
                     percent_text(data.as_read.idle_share)},
                    {"Time to plan", si_text(best.plan_seconds, "s"), "median of the steps"}});
  std::vector<compared_plan> bars = {data.as_read};
  bars.insert(bars.end(), data.plans.begin(), data.plans.end());
  page.add_chart("Steps", "How long a step is, the mean of all steps: what its busiest GPU takes.",
                 [&](chart_size const& size) { return step_lengths_chart(bars, data.unit, size); });
  html_table table({"Plan", "Step", "Above the best", "Busiest / mean", "Idle", "Largest gap",
                    "Moved", "Time to plan"});
  for (compared_plan const& each : data.plans) {
    table.add_row({each.name, si_text(each.step, data.unit),
                   percent_text(best.step > 0 ? each.step / best.step - 1 : 0),
                   ratio_text(each.balance_ratio), percent_text(each.idle_share),
                   percent_text(each.largest_gap, true), percent_text(each.moved_share),
                   si_text(each.plan_seconds, "s")});
  }
  page.add_section(
      "Plans",
      "The gap is how far a step can be above the best plan there is; moved, the share "
      "of the tokens that change bags.",
      table.markup());
  page.add_settings("Settings", "What was planned; the same settings give the same plans.",
                    data.settings);
  return page.markup();
}

}  // namespace pages
