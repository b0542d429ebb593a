// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_DETAIL_PLOT_FRAME_HPP
#define BALLAST_REPORT_DETAIL_PLOT_FRAME_HPP

#include <ballast/report/detail/axis.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/svg.hpp>

#include <string_view>

namespace ballast::inline v0::detail {

/// The sizes that all charts share: a plot in a drawing of chart_width, with room for the label
/// "250 GFLOP" left of the plot and for half of that label right of it.
inline constexpr double chart_width = 960;
inline constexpr double chart_height = 316;
inline constexpr double plot_left = 76;
inline constexpr double plot_width = 856;
inline constexpr double plot_top = 56;
inline constexpr double plot_height = 216;

/// One panel of a chart: an area of the drawing, and the axes that give its points a meaning.
///
/// Ensures     (1) at(lowest, lowest) is the area's lower left corner and at(highest, highest) its
///                 upper right one
///             (2) everything drawn lies within 76 units to the left of the area, 20 above it, 36
///                 below it and 28 to its right, if no label is longer than "250 GFLOP"
struct plot_frame {
  report::svg_drawing::box area;
  axis across;
  axis up;

  [[nodiscard]] report::svg_drawing::point at(double x, double y) const
  {
    return {area.x + area.width * across.fraction(x), area.y + area.height * (1 - up.fraction(y))};
  }

  /// Draws horizontal grid lines and, if `named`, their values on the left under `title`. A panel
  /// whose left neighbour has the same values need not name them again.
  void draw_up(report::svg_drawing& drawing, std::string_view title, std::string_view unit,
               bool named = true) const
  {
    for (double const tick : up.ticks()) {
      double const y = at(across.lowest(), tick).y;
      drawing.line({area.x, y}, {area.x + area.width, y}, "grid");
      if (named) { drawing.text({area.x - 8, y + 4}, "tick end", report::si_text(tick, unit)); }
    }
    if (named) { drawing.text({area.x - 68, area.y - 12}, "axis", title); }
  }

  /// Draws the base line, the values under it, and `title` under those. `offset` moves the labels:
  /// with 0.5 a label names the cell that begins at its value.
  void draw_across(report::svg_drawing& drawing, std::string_view title, std::string_view unit,
                   double offset = 0) const
  {
    double const bottom = area.y + area.height;
    drawing.line({area.x, bottom}, {area.x + area.width, bottom}, "base");
    for (double const tick : across.ticks()) {
      if (tick + offset > across.highest()) { continue; }
      double const x = area.x + area.width * across.fraction(tick + offset);
      drawing.line({x, bottom}, {x, bottom + 4}, "base");
      drawing.text({x, bottom + 17}, "tick middle", report::si_text(tick, unit));
    }
    drawing.text({area.x + area.width / 2, bottom + 34}, "axis middle", title);
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_REPORT_DETAIL_PLOT_FRAME_HPP
