// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "number_text.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"

#include <ballast/parallelism/model_layout.hpp>
#include <ballast/topology/process_grid.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pages {

/// How many nodes a layout_chart shows at most.
inline constexpr std::size_t most_layout_nodes = 32;

/// Draws which GPU computes what: a row for each node, and in it a bar for each group of GPUs,
/// labelled with replica and stage ("r0 s2"). Modules differ in colour.
///
/// Shapes      names[modules], places[gpus].
/// Expects     places are those of place_layout; names has one for each of their modules;
///             gpus_per_node >= 1.
/// Ensures     (1) one bar for each group of the first most_layout_nodes nodes, as wide as its GPUs
///             (2) a bar has room for its label, or none
/// Complexity  O(bars).
[[nodiscard]] inline std::string layout_chart(std::vector<ballast::module_layout> const& modules,
                                              std::vector<std::string> const& names,
                                              std::vector<ballast::grid_place> const& places,
                                              std::uint32_t gpus_per_node,
                                              chart_size const& size = {})
{
  constexpr std::array<std::string_view, 4> colours = {"before tone-0", "after tone-0",
                                                       "between tone-0", "within tone-0"};
  constexpr double row_height = 26;
  constexpr double legend_height = 30;
  std::size_t const beside = size.is_narrow() ? 2 : 4;  // names in a row of the legend
  double const legend_step = size.plot() / static_cast<double>(beside);
  constexpr double label_width = 40;
  std::size_t const nodes = (places.size() + gpus_per_node - 1) / gpus_per_node;
  std::size_t const shown = std::min(nodes, most_layout_nodes);
  std::size_t const legend_rows = (names.size() + beside - 1) / beside;
  double const top = 12 + legend_height * static_cast<double>(legend_rows);

  svg_drawing drawing(
      size.width, top + row_height * static_cast<double>(shown) + 8,
      fmt::format("Which of {} GPUs on {} nodes computes which module, replica and stage",
                  places.size(), nodes));
  for (std::size_t module = 0; module < names.size(); ++module) {
    std::size_t const row = module / beside;
    double const x = size.left + legend_step * static_cast<double>(module % beside);
    double const y = 12 + legend_height * static_cast<double>(row);
    std::size_t const most_letters = size.is_narrow() ? 18 : 24;
    drawing.rectangle({x, y, 12, 12}, colours[module % colours.size()]);
    drawing.text({x + 18, y + 10}, "note",
                 names[module].size() <= most_letters ? names[module]
                                                      : fmt::format("module {}", module + 1));
  }
  double const width = size.plot() / static_cast<double>(gpus_per_node);
  for (std::size_t node = 0; node < shown; ++node) {
    double const y = top + row_height * static_cast<double>(node);
    drawing.text({size.left - 8, y + 16}, "tick end", fmt::format("node {}", node));
    std::size_t const first = node * gpus_per_node;
    std::size_t const past = std::min<std::size_t>(first + gpus_per_node, places.size());
    for (std::size_t gpu = first; gpu < past;) {
      auto const& [module, replica, stage, rank] = places[gpu];
      std::uint32_t const group = modules[module].group();
      std::string const label = fmt::format("r{} s{}", replica, stage);
      std::string tooltip =
          fmt::format("{}, replica {}, stage {}: GPU {}", names[module], replica, stage, gpu);
      if (group > 1) { tooltip += fmt::format(" to {}", gpu + group - 1); }
      double const x = size.left + width * static_cast<double>(gpu - first);
      drawing.rectangle({x + 1, y + 1, width * group - 2, row_height - 4},
                        colours[module % colours.size()], tooltip);
      if (width * group >= label_width) {
        drawing.text({x + width * group / 2, y + 16}, "inside", label);
      }
      gpu += group;
    }
  }
  return drawing.markup();
}

/// How long the steps of one layout take.
struct layout_steps {
  double predicted = 0;
  double simulated = 0;

  friend bool operator==(layout_steps const&, layout_steps const&) = default;
};

/// How many layouts a layout_steps_chart shows at most.
inline constexpr std::size_t most_layout_bars = 32;

/// Draws the steps of layouts side by side, predicted left and simulated right, numbered from 1.
///
/// Units       seconds.
/// Expects     at least one layout; times are finite, not negative, at most 1e29.
/// Ensures     (1) two bars for each of the first most_layout_bars layouts, heights in proportion
/// Complexity  O(layouts).
[[nodiscard]] inline std::string layout_steps_chart(std::vector<layout_steps> const& layouts,
                                                    chart_size const& size = {})
{
  std::size_t const shown = std::min(layouts.size(), most_layout_bars);
  double highest = 0;
  for (std::size_t layout = 0; layout < shown; ++layout) {
    auto const& [predicted, simulated] = layouts[layout];
    highest = std::max({highest, predicted, simulated});
  }
  svg_drawing drawing(size.width, chart_height,
                      "Steps of the best layouts, predicted and simulated: the best takes " +
                          si_text(layouts.front().simulated, "s") + " simulated");
  plot_frame const frame{{size.left, plot_top, size.plot(), plot_height},
                         axis::linear(static_cast<double>(shown), 1),
                         axis::linear(1.06 * highest, 5)};
  drawing.text({size.left, 18}, "heading before-ink", "Predicted");
  drawing.text({size.left + 90, 18}, "heading after-ink", "Simulated");
  frame.draw_up(drawing, "time of a step", "s");

  double const slot = size.plot() / static_cast<double>(shown);
  double const width = std::min(slot * 0.36, 40.0);
  double const bottom = plot_top + plot_height;
  drawing.line({size.left, bottom}, {size.left + size.plot(), bottom}, "base");
  for (std::size_t layout = 0; layout < shown; ++layout) {
    auto const draw = [&](double time, double shift, std::string_view css_class,
                          std::string_view what) {
      auto const middle = frame.at(static_cast<double>(layout) + 0.5, time);
      std::string const tooltip =
          fmt::format("layout {}, {}: {}", layout + 1, what, si_text(time, "s"));
      drawing.rectangle({middle.x + shift, middle.y, width, bottom - middle.y}, css_class, tooltip);
    };
    draw(layouts[layout].predicted, -width - 1, "before", "predicted");
    draw(layouts[layout].simulated, 1, "after", "simulated");
    if (slot < 16 && layout % 4 != 0) { continue; }
    drawing.text({size.left + slot * (static_cast<double>(layout) + 0.5), bottom + 17},
                 "tick middle", std::to_string(layout + 1));
  }
  drawing.text({size.left + size.plot() / 2, bottom + 34}, "axis middle", "layout");
  return drawing.markup();
}

}  // namespace pages
