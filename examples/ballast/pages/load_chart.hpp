// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "number_text.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace pages {

/// What every GPU would take if they shared the work evenly: the mean of the loads, in which a GPU
/// counts as often as it is fast.
[[nodiscard]] inline double mean_of(std::vector<double> const& loads,
                                    std::vector<std::uint32_t> const& speeds)
{
  if (loads.empty()) { return 0; }
  if (speeds.empty()) {
    return std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
  }
  return std::inner_product(loads.begin(), loads.end(), speeds.begin(), 0.0) /
         std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

[[nodiscard]] inline double highest_of(std::vector<double> const& values)
{
  return values.empty() ? 0 : std::ranges::max(values);
}

/// Draws one bar per GPU, in rank order.
inline void draw_load_bars(svg_drawing& drawing, plot_frame const& frame,
                           std::vector<double> const& loads, double mean, std::string_view unit,
                           std::string_view css_class)
{
  double const slot = frame.area.width / static_cast<double>(loads.size());
  double const width = std::min(slot * 0.78, 48.0);
  for (std::size_t gpu = 0; gpu < loads.size(); ++gpu) {
    auto const number = static_cast<double>(gpu);
    auto const top = frame.at(number + 0.5, loads[gpu]);
    std::string tooltip = fmt::format("GPU {}: {}", gpu, si_text(loads[gpu], unit));
    if (mean > 0) { tooltip += ", " + ratio_text(loads[gpu] / mean) + " \u00D7 the mean"; }
    drawing.rectangle({top.x - width / 2, top.y, width, frame.area.y + frame.area.height - top.y},
                      css_class, tooltip);
  }
}

/// Draws a staircase from the busiest GPU to the idlest, of at most one step per drawing unit.
inline void draw_sorted_loads(svg_drawing& drawing, plot_frame const& frame,
                              std::vector<double> const& loads, std::string_view css_class)
{
  std::vector<double> sorted = loads;
  std::ranges::sort(sorted, std::greater<>());
  drawing.polygon(staircase(frame, sorted.size(), [&](std::size_t gpu) { return sorted[gpu]; }),
                  css_class, "GPUs sorted by load");
}

/// How fast every GPU is, as it counts in the means of a load_chart.
///
/// Shapes      each is empty, where all GPUs are equally fast, or has one entry per GPU.
struct chart_speeds {
  std::vector<std::uint32_t> before = {};  ///< of the GPU
  std::vector<std::uint32_t> after = {};   ///< of the slowest GPU of its bag, for which it waits

  friend bool operator==(chart_speeds const&, chart_speeds const&) = default;
};

/// Draws the work of every GPU before and after balancing, side by side on one scale.
///
/// Up to 128 GPUs are bars in rank order. More GPUs are a staircase from the busiest to the idlest,
/// because their bars would be thinner than a line. A dashed line marks the mean of each side: what
/// all GPUs would have if the work were even. A GPU that is twice as fast counts twice in it.
///
/// Units       loads are times, or work per speed, in `unit`, which takes an SI prefix ("s",
///             "FLOP").
/// Expects     loads are finite, not negative, at most 1e29; speeds are at least 1.
/// Ensures     (1) both panels share one vertical scale that starts at 0
///             (2) heights are proportional to loads
/// Complexity  O(n log n) for n GPUs.
[[nodiscard]] inline std::string load_chart(std::vector<double> const& before,
                                            std::vector<double> const& after, std::string_view unit,
                                            chart_speeds const& speeds = {},
                                            chart_size const& size = {})
{
  constexpr std::size_t most_bars = 128;
  panel_places const places(size, chart_height, 44);

  double const highest = std::max(highest_of(before), highest_of(after));
  std::string description = "Work per GPU before and after balancing";
  std::string_view glue = ": the busiest has ";
  for (bool const balanced : {false, true}) {
    std::vector<double> const& loads = balanced ? after : before;
    double const mean = mean_of(loads, balanced ? speeds.after : speeds.before);
    if (!(mean > 0)) { continue; }
    (description += glue) += ratio_text(highest_of(loads) / mean) + " times the mean";
    glue = ", then ";
  }
  svg_drawing drawing(size.width, places.height, description);
  for (bool const balanced : {false, true}) {
    auto const [x, y] = places.at[balanced ? 1 : 0];
    std::vector<double> const& loads = balanced ? after : before;
    double const mean = mean_of(loads, balanced ? speeds.after : speeds.before);
    bool const sorted = loads.size() > most_bars;
    auto const gpus = static_cast<double>(std::max<std::size_t>(loads.size(), 1));
    plot_frame const frame{
        {x, y + plot_top, places.width, plot_height},
        axis::linear(gpus, size.intervals(std::clamp<std::size_t>(loads.size(), 1, 8))),
        axis::linear(highest * 1.06, 5)};

    drawing.text({x, y + 18}, balanced ? "heading after-ink" : "heading before-ink",
                 balanced ? "After" : "Before");
    if (mean > 0) {
      drawing.text({x + 60, y + 18}, "note",
                   "busiest GPU " + si_text(highest_of(loads), unit) + ", " +
                       ratio_text(highest_of(loads) / mean) + " \u00D7 the mean");
    }
    frame.draw_up(drawing, "work per GPU", unit, !balanced || size.is_narrow());
    std::string_view const css_class = balanced ? "after" : "before";
    if (sorted) {
      draw_sorted_loads(drawing, frame, loads, css_class);
    } else if (!loads.empty()) {
      draw_load_bars(drawing, frame, loads, mean, unit, css_class);
    }
    frame.draw_across(drawing, sorted ? "GPUs, busiest first" : "GPU", "", sorted ? 0 : 0.5);
    if (mean > 0) {
      auto const end = frame.at(frame.across.highest(), mean);
      drawing.line({x, end.y}, end, "mean");
      drawing.text({end.x - 2, end.y - 6}, "halo end", "mean " + si_text(mean, unit));
    }
  }
  return drawing.markup();
}

}  // namespace pages
