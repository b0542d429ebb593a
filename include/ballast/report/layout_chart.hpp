// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_LAYOUT_CHART_HPP
#define BALLAST_REPORT_LAYOUT_CHART_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/concat.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/report/detail/plot_frame.hpp>
#include <ballast/report/svg.hpp>
#include <ballast/topology/process_grid.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::report {

/// How many nodes a layout_chart shows at most.
inline constexpr std::size_t most_layout_nodes = 32;

/// Draws which GPU computes what: a row for each node, and in it a bar for each group of tp GPUs,
/// labelled with replica and stage ("r0 s2"). Modules differ in colour.
///
/// Shapes      names[modules], places[gpus].
/// Expects     places are those of place_layout; names has one for each of their modules;
///             gpus_per_node >= 1.
/// Ensures     (1) one bar for each group of the first most_layout_nodes nodes, as wide as its GPUs
///             (2) a bar has room for its label, or none
/// Complexity  O(bars).
[[nodiscard]] inline std::string layout_chart(std::vector<module_layout> const& modules,
                                              std::vector<std::string> const& names,
                                              std::vector<grid_place> const& places,
                                              std::uint32_t gpus_per_node)
{
  BALLAST_EXPECTS(names.size() == modules.size(), "there are names of ", names.size(),
                  " modules, and the layout has ", modules.size());
  BALLAST_EXPECTS(gpus_per_node >= 1, "GPUs are shown on nodes of none");
  constexpr std::array<std::string_view, 4> colours = {"before tone-0", "after tone-0",
                                                       "between tone-0", "within tone-0"};
  constexpr double row_height = 26;
  constexpr double legend_height = 30;
  constexpr double legend_step = detail::plot_width / 4;
  constexpr double label_width = 46;
  std::size_t const nodes = (places.size() + gpus_per_node - 1) / gpus_per_node;
  std::size_t const shown = std::min(nodes, most_layout_nodes);
  std::size_t const legend_rows = (names.size() + 3) / 4;
  double const top = 12 + legend_height * static_cast<double>(legend_rows);

  svg_drawing drawing(detail::chart_width, top + row_height * static_cast<double>(shown) + 8,
                      detail::concat("Which of ", places.size(), " GPUs on ", nodes,
                                     " nodes computes which module, replica and stage"));
  for (std::size_t module = 0; module < names.size(); ++module) {
    std::size_t const row = module / 4;
    double const x = detail::plot_left + legend_step * static_cast<double>(module % 4);
    double const y = 12 + legend_height * static_cast<double>(row);
    constexpr std::size_t most_letters = 24;
    drawing.rectangle({x, y, 12, 12}, colours[module % colours.size()]);
    drawing.text({x + 18, y + 10}, "note",
                 names[module].size() <= most_letters ? names[module]
                                                      : detail::concat("module ", module + 1));
  }
  double const width = detail::plot_width / static_cast<double>(gpus_per_node);
  for (std::size_t node = 0; node < shown; ++node) {
    double const y = top + row_height * static_cast<double>(node);
    drawing.text({detail::plot_left - 8, y + 16}, "tick end", detail::concat("node ", node));
    std::size_t const first = node * gpus_per_node;
    std::size_t const past = std::min<std::size_t>(first + gpus_per_node, places.size());
    for (std::size_t gpu = first; gpu < past;) {
      auto const& [module, replica, stage, rank] = places[gpu];
      BALLAST_EXPECTS(module < modules.size() && rank == 0, "GPU ", gpu,
                      " does not begin a group of a module of the layout");
      std::uint32_t const tp = modules[module].tp;
      std::string label = detail::concat("r", replica);
      label += detail::concat(" s", stage);
      std::string tooltip =
          detail::concat(names[module], ", replica ", replica, ", stage ", stage, ": GPU ", gpu);
      if (tp > 1) { tooltip += detail::concat(" to ", gpu + tp - 1); }
      double const x = detail::plot_left + width * static_cast<double>(gpu - first);
      drawing.rectangle({x + 1, y + 1, width * tp - 2, row_height - 4},
                        colours[module % colours.size()], tooltip);
      if (width * tp >= label_width) {
        drawing.text({x + width * tp / 2, y + 16}, "inside", label);
      }
      gpu += tp;
    }
  }
  return drawing.markup();
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_LAYOUT_CHART_HPP
