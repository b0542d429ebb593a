// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "html_page.hpp"
#include "layout_charts.hpp"
#include "number_text.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
#include <ballast/topology/process_grid.hpp>

#include <fmt/format.h>

namespace pages {

/// Everything that the page of a search for layouts shows.
struct layout_page_data {
  std::string title;                         ///< "vision and llm on 64 GPUs"
  std::vector<html_page::setting> settings;  ///< what was searched: profile, data, GPUs, memory
  std::vector<std::string> modules;          ///< their names
  std::vector<ballast::simulated_layout> layouts;  ///< best first; the picture is that of the first
  /// Of the first, as place_layout returns them, those of each kind of GPUs, or none.
  std::vector<std::vector<ballast::grid_place>> places;
  std::uint32_t gpus_per_node = 8;
  std::uint64_t memory_bytes = 0;       ///< of a GPU, where there is one kind
  std::string certificate;              ///< how good the first one is, in a sentence
  ballast::time_units lower_bound = 0;  ///< no layout has a shorter step
  std::uint64_t simulated = 0;          ///< layouts that the search simulated
  double search_seconds = 0;
};

/// The times of a layout are picoseconds.
[[nodiscard]] inline double seconds_of(ballast::time_units time)
{
  return static_cast<double>(time) * 1e-12;
}

/// "vision and llm", "vision, audio and llm".
[[nodiscard]] inline std::string modules_text(std::vector<std::string> const& names)
{
  std::string text;
  for (std::size_t module = 0; module < names.size(); ++module) {
    if (module > 0) { text += module + 1 == names.size() ? " and " : ", "; }
    text += names[module];
  }
  return text;
}

/// "vision tp 1 pp 1 dp 8, llm tp 4 pp 2 dp 4".
[[nodiscard]] inline std::string degrees_text(std::vector<std::string> const& names,
                                              ballast::model_layout const& layout)
{
  std::string text;
  for (std::size_t module = 0; module < names.size(); ++module) {
    text += fmt::format("{}{} {}", module == 0 ? "" : ", ", names[module],
                        text_of(layout.modules[module]));
  }
  return text;
}

/// "4", "4 sp 2", "1 sharded": what stands under tp.
[[nodiscard]] inline std::string tp_text(ballast::module_layout const& layout)
{
  return text_of(degree_of(layout)).substr(std::string_view("tp ").size()) +
         (layout.is_sharded ? " sharded" : "");
}

/// How wide that is in a table of text, at least 6.
[[nodiscard]] inline std::size_t tp_width(ballast::model_layout const& layout)
{
  std::size_t width = 6;
  for (auto const& each : layout.modules) { width = std::max(width, tp_text(each).size() + 2); }
  return width;
}

/// "4 \u00B7 2 \u00B7 8".
[[nodiscard]] inline std::string degrees_cell(ballast::module_layout const& layout)
{
  return fmt::format("{} \u00B7 {} \u00B7 {}", tp_text(layout), layout.pp, layout.dp);
}

/// "16", "16, 2 virtual stages", "16, zero bubble".
[[nodiscard]] inline std::string microbatches_text(ballast::model_layout const& layout)
{
  std::string text = std::to_string(layout.microbatches);
  if (layout.virtual_stages > 1) {
    text += fmt::format(", {} virtual stages", layout.virtual_stages);
  }
  if (layout.schedule != ballast::layout_schedule::whole_backwards) {
    text += fmt::format(", {}", text_of(layout.schedule));
  }
  return text;
}

[[nodiscard]] inline std::string layout_table(layout_page_data const& data, std::size_t most)
{
  std::vector<std::string> columns = {"Layout"};
  for (std::string const& module : data.modules) {
    columns.push_back(module + " tp \u00B7 pp \u00B7 dp");
  }
  for (char const* const name : {"Microbatches", "Predicted", "Simulated", "Memory"}) {
    columns.emplace_back(name);
  }
  html_table table(columns);
  for (std::size_t place = 0; place < data.layouts.size() && place < most; ++place) {
    auto const& [layout, simulated] = data.layouts[place];
    std::vector<std::string> row = {std::to_string(place + 1)};
    for (auto const& each : layout.modules) { row.push_back(degrees_cell(each)); }
    row.push_back(microbatches_text(layout));
    row.push_back(si_text(seconds_of(layout.step), "s"));
    row.push_back(si_text(seconds_of(simulated), "s"));
    row.push_back(si_text(static_cast<double>(layout.memory_bytes), "B"));
    table.add_row(row);
  }
  return table.markup();
}

/// A picture of the GPUs of each kind that modules get, for the data of this page or of another.
template <class Data>
void add_gpus(html_page& page, std::string_view what, Data const& data)
{
  for (std::size_t kind = 0; kind < data.places.size(); ++kind) {
    auto const& places = data.places[kind];
    if (places.empty()) { continue; }
    std::string text = fmt::format(
        "The best {}. Each row is a node, each bar a group of GPUs that share every product: r is "
        "the replica, s the stage.",
        what);
    std::size_t const nodes = (places.size() + data.gpus_per_node - 1) / data.gpus_per_node;
    if (nodes > most_layout_nodes) {
      text += fmt::format(" Shown are the first {} of {} nodes.", most_layout_nodes,
                          grouped_text(nodes));
    }
    page.add_chart(data.places.size() == 1 ? "GPUs" : fmt::format("GPUs of kind {}", kind), text,
                   [&](chart_size const& size) {
                     return layout_chart(data.layouts.front().layout.modules, data.modules, places,
                                         data.gpus_per_node, size);
                   });
  }
}

/// A page that shows what a search for layouts found: which GPU computes what in the best layout,
/// and how it compares with the next ones.
///
/// Expects     at least one layout, each of as many modules as there are names; places are those of
///             the first; search_seconds is finite and not negative.
/// Ensures     (1) one self-contained HTML file with the sections GPUs (one for each kind that is
///                 used), Steps, Layouts and Settings
///             (2) equal data give equal bytes
/// Complexity  O(GPUs + layouts); the page's size is bounded but for the texts of data.
[[nodiscard]] inline std::string layout_page(layout_page_data const& data)
{
  constexpr std::size_t most_rows = 1000;
  std::vector<layout_steps> steps;
  for (auto const& [layout, simulated] : data.layouts) {
    steps.push_back({seconds_of(layout.step), seconds_of(simulated)});
  }
  auto const& [best, simulated] = data.layouts.front();
  html_page page(
      data.title,
      fmt::format(
          "The best layout is {}, with {} microbatches for each replica of {}{}.",
          degrees_text(data.modules, best), best.microbatches, data.modules.back(),
          best.virtual_stages == 1
              ? ""
              : fmt::format(" and {} virtual stages on each of its stages", best.virtual_stages)));
  page.add_figures(
      {{"Step, simulated", si_text(seconds_of(simulated), "s"), "on batches of the data"},
       {"Step, at least", si_text(seconds_of(data.lower_bound), "s"),
        "whatever the layout; its price is " + si_text(seconds_of(best.step), "s")},
       {"Memory", si_text(static_cast<double>(best.memory_bytes), "B"),
        "of the GPU that holds most" +
            (data.places.size() == 1
                 ? ", of " + si_text(static_cast<double>(data.memory_bytes), "B")
                 : "")},
       {"Time to search", si_text(data.search_seconds, "s"),
        grouped_text(data.simulated) + " layouts simulated"}});
  add_gpus(page, "layout", data);
  std::string bars =
      "Layouts in the order of their simulated steps. The prediction takes all microbatches of a "
      "layout as equal; the simulation takes them from the data.";
  if (steps.size() > most_layout_bars) {
    bars += fmt::format(" Shown are the first {} of {} layouts.", most_layout_bars,
                        grouped_text(steps.size()));
  }
  page.add_chart("Steps", bars,
                 [&](chart_size const& size) { return layout_steps_chart(steps, size); });
  std::string table =
      data.certificate + ". Microbatches are those of each replica of the last module.";
  if (steps.size() > most_rows) {
    table += fmt::format(" The first {} of {} layouts.", most_rows, grouped_text(steps.size()));
  }
  page.add_section("Layouts", table, layout_table(data, most_rows));
  page.add_settings("Settings", "What was searched; the same settings give the same layouts.",
                    data.settings);
  return page.markup();
}

}  // namespace pages
