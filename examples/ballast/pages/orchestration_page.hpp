// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "html_page.hpp"
#include "layout_charts.hpp"
#include "layout_page.hpp"
#include "number_text.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/topology/process_grid.hpp>

#include <fmt/format.h>

namespace pages {

/// What a policy found: "best", "monolithic".
struct named_layout {
  std::string policy;
  ballast::model_layout layout;
  ballast::time_units simulated = 0;  ///< step
};

/// Everything that the page of an orchestration shows.
struct orchestration_page_data {
  std::vector<html_page::setting> settings;  ///< what was orchestrated: profile, data, GPUs
  std::vector<std::string> modules;          ///< their names
  std::size_t llm = 0;                       ///< which of them is the LLM
  std::vector<named_layout> layouts;         ///< the best, then those of other policies
  std::vector<std::vector<ballast::grid_place>>
      places;              ///< of the best, those of each kind of GPUs, or none
  std::uint64_t gpus = 0;  ///< there are
  std::uint32_t gpus_per_node = 8;
  std::uint64_t evaluated = 0;  ///< layouts of modules that were priced
  double search_seconds = 0;
};

/// "1.70 x".
[[nodiscard]] inline std::string times_text(ballast::time_units time, ballast::time_units best)
{
  return fmt::format("{:.2f} x",
                     best == 0 ? 1.0 : static_cast<double>(time) / static_cast<double>(best));
}

[[nodiscard]] inline std::string policy_table(orchestration_page_data const& data)
{
  std::vector<std::string> columns = {"Policy"};
  for (std::string const& module : data.modules) {
    columns.push_back(module + " tp \u00B7 pp \u00B7 dp");
  }
  for (char const* const name :
       {"GPUs used", "Microbatches", "Predicted", "Beside the best", "Simulated", "Memory"}) {
    columns.emplace_back(name);
  }
  html_table table(columns);
  for (auto const& [policy, layout, simulated] : data.layouts) {
    std::vector<std::string> row = {policy};
    for (auto const& each : layout.modules) { row.push_back(degrees_cell(each)); }
    row.push_back(std::to_string(layout.gpus()));
    row.push_back(std::to_string(layout.microbatches));
    row.push_back(si_text(seconds_of(layout.step), "s"));
    row.push_back(times_text(layout.step, data.layouts.front().layout.step));
    row.push_back(si_text(seconds_of(simulated), "s"));
    row.push_back(si_text(static_cast<double>(layout.memory_bytes), "B"));
    table.add_row(row);
  }
  return table.markup();
}

/// A page that shows what `orchestrate` found: which GPU computes what, and how other policies
/// compare.
///
/// Expects     at least one layout, each of as many modules as there are names, of which one is the
///             LLM; places are those of the first, as place_layout returns them; search_seconds is
///             finite and not negative.
/// Ensures     (1) one self-contained HTML file with the sections GPUs (one for each kind that is
///                 used), Policies and Settings
///             (2) equal data give equal bytes
/// Complexity  O(GPUs + layouts).
[[nodiscard]] inline std::string orchestration_page(orchestration_page_data const& data)
{
  ballast::model_layout const& best = data.layouts.front().layout;
  html_page page(
      modules_text(data.modules) + " on " + grouped_text(data.gpus) + " GPUs",
      fmt::format("Each module has GPUs and a parallelism of its own: {}, with {} microbatches "
                  "for each replica of {}.",
                  degrees_text(data.modules, best), best.microbatches, data.modules[data.llm]));
  page.add_figures({{"Step", si_text(seconds_of(best.step), "s"),
                     si_text(seconds_of(data.layouts.front().simulated), "s") + " simulated"},
                    {"GPUs used", grouped_text(best.gpus()),
                     "of " + grouped_text(data.gpus) + "; more would not shorten the step"},
                    {"Memory", si_text(static_cast<double>(best.memory_bytes), "B"),
                     "of the GPU that holds most"},
                    {"Time to search", si_text(data.search_seconds, "s"),
                     grouped_text(data.evaluated) + " layouts of modules priced"}});
  add_gpus(page, "orchestration", data);
  page.add_section("Policies",
                   "The best of all, and the best that other policies have: homogeneous gives all "
                   "modules one tp and one dp, monolithic also one stage to modules other than the "
                   "LLM, and by_flops shares out GPUs in proportion to work.",
                   policy_table(data));
  page.add_settings("Settings", "What was orchestrated; the same settings give the same units.",
                    data.settings);
  return page.markup();
}

}  // namespace pages
