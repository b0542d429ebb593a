// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_LAYOUT_STEPS_CHART_HPP
#define BALLAST_REPORT_LAYOUT_STEPS_CHART_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/concat.hpp>
#include <ballast/report/detail/axis.hpp>
#include <ballast/report/detail/plot_frame.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/svg.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::report {

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
[[nodiscard]] inline std::string layout_steps_chart(std::vector<layout_steps> const& layouts)
{
  BALLAST_EXPECTS(!layouts.empty());
  std::size_t const shown = std::min(layouts.size(), most_layout_bars);
  double highest = 0;
  for (std::size_t layout = 0; layout < shown; ++layout) {
    auto const& [predicted, simulated] = layouts[layout];
    BALLAST_EXPECTS(predicted >= 0 && predicted <= 1e29 && simulated >= 0 && simulated <= 1e29,
                    "layout ", layout, " has steps of ", predicted, " and ", simulated,
                    ", which are not from 0 to 1e29");
    highest = std::max({highest, predicted, simulated});
  }
  svg_drawing drawing(detail::chart_width, detail::chart_height,
                      "Steps of the best layouts, predicted and simulated: the best takes " +
                          si_text(layouts.front().simulated, "s") + " simulated");
  detail::plot_frame const frame{
      {detail::plot_left, detail::plot_top, detail::plot_width, detail::plot_height},
      detail::axis::linear(static_cast<double>(shown), 1),
      detail::axis::linear(1.06 * highest, 5)};
  drawing.text({detail::plot_left, 18}, "heading before-ink", "Predicted");
  drawing.text({detail::plot_left + 90, 18}, "heading after-ink", "Simulated");
  frame.draw_up(drawing, "time of a step", "s");

  double const slot = detail::plot_width / static_cast<double>(shown);
  double const width = std::min(slot * 0.36, 40.0);
  double const bottom = detail::plot_top + detail::plot_height;
  drawing.line({detail::plot_left, bottom}, {detail::plot_left + detail::plot_width, bottom},
               "base");
  for (std::size_t layout = 0; layout < shown; ++layout) {
    auto const draw = [&](double time, double shift, std::string_view css_class,
                          std::string_view what) {
      auto const middle = frame.at(static_cast<double>(layout) + 0.5, time);
      std::string tooltip = detail::concat("layout ", layout + 1);
      (tooltip += ", ") += what;
      drawing.rectangle({middle.x + shift, middle.y, width, bottom - middle.y}, css_class,
                        tooltip + ": " + si_text(time, "s"));
    };
    draw(layouts[layout].predicted, -width - 1, "before", "predicted");
    draw(layouts[layout].simulated, 1, "after", "simulated");
    drawing.text({detail::plot_left + slot * (static_cast<double>(layout) + 0.5), bottom + 17},
                 "tick middle", std::to_string(layout + 1));
  }
  drawing.text({detail::plot_left + detail::plot_width / 2, bottom + 34}, "axis middle", "layout");
  return drawing.markup();
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_LAYOUT_STEPS_CHART_HPP
