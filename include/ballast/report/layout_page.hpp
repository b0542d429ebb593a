// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_LAYOUT_PAGE_HPP
#define BALLAST_REPORT_LAYOUT_PAGE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/concat.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/simulated_layout.hpp>
#include <ballast/report/html_page.hpp>
#include <ballast/report/html_table.hpp>
#include <ballast/report/layout_chart.hpp>
#include <ballast/report/layout_steps_chart.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/topology/process_grid.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::report {

/// Everything that the page of a search for layouts shows.
struct layout_page_data {
  std::string title;                         ///< "vision and llm on 64 GPUs"
  std::vector<html_page::setting> settings;  ///< what was searched: profile, data, GPUs, memory
  std::vector<std::string> modules;          ///< their names
  std::vector<simulated_layout> layouts;     ///< best first; the picture is that of the first
  std::vector<grid_place> places;            ///< of the first, as place_layout returns them
  std::uint32_t gpus_per_node = 8;
  std::uint64_t memory_bytes = 0;  ///< of a GPU
  std::uint64_t evaluated = 0;     ///< layouts that the search priced
  double search_seconds = 0;
};

}  // namespace ballast::inline v0::report

namespace ballast::inline v0::detail {

/// The times of a layout are picoseconds.
[[nodiscard]] inline double seconds_of(time_units time)
{
  return static_cast<double>(time) * 1e-12;
}

/// "vision tp 1 pp 1 dp 8, llm tp 4 pp 2 dp 4".
[[nodiscard]] inline std::string degrees_text(std::vector<std::string> const& names,
                                              model_layout const& layout)
{
  std::string text;
  for (std::size_t module = 0; module < names.size(); ++module) {
    auto const [tp, pp, dp] = layout.modules[module];
    text += concat(module == 0 ? "" : ", ", names[module], " tp ", tp, " pp ", pp, " dp ", dp);
  }
  return text;
}

[[nodiscard]] inline std::string layout_table(report::layout_page_data const& data,
                                              std::size_t most)
{
  std::vector<std::string> names = {"Layout"};
  for (std::string const& module : data.modules) {
    names.push_back(module + " tp \u00B7 pp \u00B7 dp");
  }
  std::vector<std::string_view> columns(names.begin(), names.end());
  for (char const* const name : {"Microbatches", "Predicted", "Simulated", "Memory"}) {
    columns.emplace_back(name);
  }
  report::html_table table(columns);
  for (std::size_t place = 0; place < data.layouts.size() && place < most; ++place) {
    auto const& [layout, simulated] = data.layouts[place];
    std::vector<std::string> row = {std::to_string(place + 1)};
    for (auto const& [tp, pp, dp] : layout.modules) {
      row.push_back(concat(tp, " \u00B7 ", pp, " \u00B7 ", dp));
    }
    row.push_back(std::to_string(layout.microbatches));
    row.push_back(report::si_text(seconds_of(layout.step), "s"));
    row.push_back(report::si_text(seconds_of(simulated), "s"));
    row.push_back(report::si_text(static_cast<double>(layout.memory_bytes), "B"));
    table.add_row(row);
  }
  return table.markup();
}

}  // namespace ballast::inline v0::detail

namespace ballast::inline v0::report {

/// A page that shows what a search for layouts found: which GPU computes what in the best layout, and
/// how it compares with the next ones.
///
/// Expects     at least one layout, each of as many modules as there are names; places are those of
///             the first; search_seconds is finite and not negative.
/// Ensures     (1) one self-contained HTML file with the sections GPUs, Steps, Layouts and Settings
///             (2) equal data give equal bytes
/// Complexity  O(GPUs + layouts); the page's size is bounded but for the texts of data.
[[nodiscard]] inline std::string layout_page(layout_page_data const& data)
{
  constexpr std::size_t most_rows = 100;
  BALLAST_EXPECTS(!data.layouts.empty(), "a page shows a layout at least");
  std::vector<layout_steps> steps;
  for (auto const& [layout, simulated] : data.layouts) {
    BALLAST_EXPECTS(layout.modules.size() == data.modules.size(), "a layout has ",
                    layout.modules.size(), " modules, and the page names ", data.modules.size());
    steps.push_back({detail::seconds_of(layout.step), detail::seconds_of(simulated)});
  }
  auto const& [best, simulated] = data.layouts.front();
  html_page page(data.title,
                 detail::concat("The best layout is ", detail::degrees_text(data.modules, best),
                                ", with ", best.microbatches, " microbatches for each replica of ",
                                data.modules.back(), "."));
  page.add_figures(
      {{"Step, simulated", si_text(detail::seconds_of(simulated), "s"), "on batches of the data"},
       {"Step, predicted", si_text(detail::seconds_of(best.step), "s"), "as the search prices it"},
       {"Memory", si_text(static_cast<double>(best.memory_bytes), "B"),
        "of the GPU that holds most, of " + si_text(static_cast<double>(data.memory_bytes), "B")},
       {"Time to search", si_text(data.search_seconds, "s"),
        grouped_text(static_cast<std::int64_t>(data.evaluated)) + " layouts priced"}});
  std::string gpus =
      "The best layout. Each row is a node, each bar a group of GPUs that share every product: r "
      "is "
      "the replica, s the stage.";
  std::size_t const nodes = (data.places.size() + data.gpus_per_node - 1) / data.gpus_per_node;
  if (nodes > most_layout_nodes) {
    gpus += detail::concat(" Shown are the first ", most_layout_nodes, " of ",
                           grouped_text(static_cast<std::int64_t>(nodes)), " nodes.");
  }
  page.add_chart("GPUs", gpus,
                 layout_chart(best.modules, data.modules, data.places, data.gpus_per_node));
  std::string bars =
      "Layouts in the order of their simulated steps. The prediction takes all microbatches of a "
      "layout as equal; the simulation takes them from the data.";
  if (steps.size() > most_layout_bars) {
    bars += detail::concat(" Shown are the first ", most_layout_bars, " of ",
                           grouped_text(static_cast<std::int64_t>(steps.size())), " layouts.");
  }
  page.add_chart("Steps", bars, layout_steps_chart(steps));
  std::string table = "Microbatches are those of each replica of the last module.";
  if (steps.size() > most_rows) {
    table += detail::concat(" The first ", most_rows, " of ",
                            grouped_text(static_cast<std::int64_t>(steps.size())), " layouts.");
  }
  page.add_section("Layouts", table, detail::layout_table(data, most_rows));
  page.add_settings("Settings", "What was searched; the same settings give the same layouts.",
                    data.settings);
  return page.markup();
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_LAYOUT_PAGE_HPP
