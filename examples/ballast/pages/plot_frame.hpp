// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "number_text.hpp"
#include "svg.hpp"

#include <ballast/core.hpp>

#include <array>
#include <cmath>

namespace pages {

/// Where values lie along one side of a chart, and which round values to name there.
///
/// Expects     bounds are finite and at most 1e30; linear: highest >= 0 and intervals >= 1;
///             logarithmic: 1e-30 <= lowest < highest.
/// Ensures     (1) fraction is 0 at the lowest value, 1 at the highest, and grows between them;
///                 a linear axis begins at 0, and one that would end below 1e-30 ends at 1
///             (2) ticks are increasing, within the bounds, and round: a linear axis names the
///                 multiples of a 1, 2 or 5 times a power of ten, the finest that makes at most
///                 `intervals` intervals
///             (3) a logarithmic axis names 1, 2 and 5 in each decade; only 1 where there are more
///                 than four decades; and linear steps where fewer than three of these lie within
///                 the bounds
class axis {
 public:
  [[nodiscard]] static axis linear(double highest, std::size_t intervals)
  {
    BALLAST_EXPECTS(highest >= 0 && highest <= 1e30, "the highest value of a chart is ", highest,
                    ", which is not from 0 to 1e30");
    axis made(0, highest >= 1e-30 ? highest : 1, false);
    made.add_multiples(round_step(made.highest_, intervals));
    return made;
  }

  [[nodiscard]] static axis logarithmic(double lowest, double highest)
  {
    axis made(lowest, highest, true);
    bool const only_decades = highest / lowest > 1e4;
    double decade = 1;
    while (decade > lowest) { decade /= 10; }
    for (; decade <= highest; decade *= 10) {
      for (double const digit : {1.0, 2.0, 5.0}) {
        double const tick = digit * decade;
        bool const within = tick >= lowest && tick <= highest;
        if (within && (digit < 2 || !only_decades)) { made.ticks_.push_back(tick); }
      }
    }
    if (made.ticks_.size() < 3) {
      made.ticks_.clear();
      made.add_multiples(round_step(highest - lowest, 6));
    }
    return made;
  }

  /// Where `value` lies between the ends; outside [0, 1] for a value beyond them.
  [[nodiscard]] double fraction(double value) const
  {
    if (!logarithmic_) { return value / highest_; }
    return std::log(value / lowest_) / std::log(highest_ / lowest_);
  }

  [[nodiscard]] double lowest() const noexcept { return lowest_; }
  [[nodiscard]] double highest() const noexcept { return highest_; }
  [[nodiscard]] std::vector<double> const& ticks() const noexcept { return ticks_; }

 private:
  axis(double lowest, double highest, bool logarithmic)
      : lowest_(lowest), highest_(highest), logarithmic_(logarithmic)
  {}

  [[nodiscard]] static double round_step(double range, std::size_t intervals)
  {
    auto const finest = range / static_cast<double>(intervals);
    double decade = 1;
    while (decade > finest) { decade /= 10; }
    while (decade * 10 <= finest) { decade *= 10; }
    for (double const digit : {1.0, 2.0, 5.0}) {
      if (digit * decade >= finest) { return digit * decade; }
    }
    return 10 * decade;
  }

  void add_multiples(double step)
  {
    // A tick that is the end itself may come out just past it.
    double const end = highest_ + step * 1e-9;
    for (double count = std::ceil(lowest_ / step); count * step <= end; ++count) {
      ticks_.push_back(std::min(count * step, highest_));
    }
  }

  double lowest_;
  double highest_;
  bool logarithmic_;
  std::vector<double> ticks_;
};

/// How wide a chart is drawn. A page has each chart twice, for wide and for narrow screens, and shows
/// one: scaled down to a phone, the labels of the wide one could not be read.
struct chart_size {
  double width = 960;
  double left = 76;  ///< of the plot, with room for the label "250 GFLOP"

  /// How wide the plot is, with half of that label right of it.
  [[nodiscard]] constexpr double plot() const { return width - left - 28; }
  [[nodiscard]] constexpr bool is_narrow() const { return width < 600; }
  /// Of so many values on an axis across, those that have room.
  [[nodiscard]] constexpr std::size_t intervals(std::size_t wide = 8) const
  {
    return is_narrow() ? std::min<std::size_t>(wide, 4) : wide;
  }
};

inline constexpr chart_size wide_chart{};
inline constexpr chart_size narrow_chart{.width = 380, .left = 70};

/// The heights that charts share.
inline constexpr double chart_height = 316;
inline constexpr double plot_top = 56;
inline constexpr double plot_height = 216;

/// Where the two panels of a chart lie: side by side, or on a narrow page below each other.
struct panel_places {
  double width = 0;   ///< of a panel
  double height = 0;  ///< of the whole drawing
  std::array<svg_drawing::point, 2> at{};

  /// Panels of a drawing that is so high, with a gap between them.
  panel_places(chart_size const& size, double tall, double gap)
      : width(size.is_narrow() ? size.plot() : (size.plot() - gap) / 2),
        height(size.is_narrow() ? 2 * tall : tall),
        at{{{size.left, 0},
            {size.is_narrow() ? size.left : size.left + width + gap, size.is_narrow() ? tall : 0}}}
  {}
};

/// One panel of a chart: an area of the drawing, and the axes that give its points a meaning.
///
/// Ensures     (1) at(lowest, lowest) is the area's lower left corner and at(highest, highest) its
///                 upper right one
///             (2) everything drawn lies within 76 units to the left of the area, 20 above it, 36
///                 below it and 28 to its right, if no label is longer than "250 GFLOP"
struct plot_frame {
  svg_drawing::box area;
  axis across;
  axis up;

  [[nodiscard]] svg_drawing::point at(double x, double y) const
  {
    return {area.x + area.width * across.fraction(x), area.y + area.height * (1 - up.fraction(y))};
  }

  /// Draws horizontal grid lines and, if `named`, their values on the left under `title`. A panel
  /// whose left neighbour has the same values need not name them again.
  void draw_up(svg_drawing& drawing, std::string_view title, std::string_view unit,
               bool named = true) const
  {
    for (double const tick : up.ticks()) {
      double const y = at(across.lowest(), tick).y;
      drawing.line({area.x, y}, {area.x + area.width, y}, "grid");
      if (named) { drawing.text({area.x - 8, y + 4}, "tick end", si_text(tick, unit)); }
    }
    if (named) { drawing.text({area.x - 68, area.y - 12}, "axis", title); }
  }

  /// Draws the base line, the values under it, and `title` under those. `offset` moves the labels:
  /// with 0.5 a label names the cell that begins at its value.
  void draw_across(svg_drawing& drawing, std::string_view title, std::string_view unit,
                   double offset = 0) const
  {
    double const bottom = area.y + area.height;
    drawing.line({area.x, bottom}, {area.x + area.width, bottom}, "base");
    for (double const tick : across.ticks()) {
      if (tick + offset > across.highest()) { continue; }
      double const x = area.x + area.width * across.fraction(tick + offset);
      drawing.line({x, bottom}, {x, bottom + 4}, "base");
      drawing.text({x, bottom + 17}, "tick middle", si_text(tick, unit));
    }
    drawing.text({area.x + area.width / 2, bottom + 34}, "axis middle", title);
  }
};

/// The outline of a staircase over the values, from the first to the last, of at most one step per
/// drawing unit.
template <class ValueOf>
[[nodiscard]] std::vector<svg_drawing::point> staircase(plot_frame const& frame, std::size_t values,
                                                        ValueOf const& value_of)
{
  std::size_t const stairs = std::min(values, static_cast<std::size_t>(frame.area.width));
  std::vector<svg_drawing::point> outline = {frame.at(0, 0)};
  for (std::size_t stair = 0; stair < stairs; ++stair) {
    std::size_t const first = stair * values / stairs;
    std::size_t const past = (stair + 1) * values / stairs;
    outline.push_back(frame.at(static_cast<double>(first), value_of(first)));
    outline.push_back(frame.at(static_cast<double>(past), value_of(first)));
  }
  outline.push_back(frame.at(frame.across.highest(), 0));
  return outline;
}

}  // namespace pages
