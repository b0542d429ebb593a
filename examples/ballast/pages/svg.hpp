// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "escaped_text.hpp"

#include <ballast/core.hpp>

#include <fmt/format.h>

#include <cmath>

namespace pages {

/// A picture, drawn shape by shape, that scales with the page around it.
///
/// The CSS class of a shape, which `chart_style` defines, says how it looks; its coordinates say
/// where it is: x grows to the right and y downwards, from (0, 0) to (width, height).
///
/// Units       the drawing's own; at its natural size one unit is one CSS pixel.
/// Expects     every coordinate is below 1e9 in magnitude.
/// Ensures     (1) markup() is one well-formed <svg> element with its description as the text
///                 that a screen reader reads out
///             (2) text and tooltips are escaped; coordinates are rounded to hundredths, so equal
///                 shapes give equal bytes
///             (3) later shapes lie over earlier ones
class svg_drawing {
 public:
  struct point {
    double x = 0;
    double y = 0;
  };
  struct box {
    double x = 0;
    double y = 0;
    double width = 0;
    double height = 0;
  };

  svg_drawing(double width, double height, std::string_view description)
      : markup_(fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
                            rounded(width), rounded(height), escaped_text(description)))
  {}

  void rectangle(box where, std::string_view css_class, std::string_view tooltip = {})
  {
    add("rect", css_class,
        fmt::format(R"(x="{}" y="{}" width="{}" height="{}")", rounded(where.x), rounded(where.y),
                    rounded(where.width), rounded(where.height)),
        tooltip);
  }

  void circle(point centre, double radius, std::string_view css_class,
              std::string_view tooltip = {})
  {
    add("circle", css_class,
        fmt::format(R"(cx="{}" cy="{}" r="{}")", rounded(centre.x), rounded(centre.y),
                    rounded(radius)),
        tooltip);
  }

  void line(point from, point to, std::string_view css_class)
  {
    add("line", css_class,
        fmt::format(R"(x1="{}" y1="{}" x2="{}" y2="{}")", rounded(from.x), rounded(from.y),
                    rounded(to.x), rounded(to.y)));
  }

  void polyline(std::vector<point> const& points, std::string_view css_class)
  {
    add("polyline", css_class, text_of(points));
  }

  /// The area inside the closed line through `points`.
  void polygon(std::vector<point> const& points, std::string_view css_class,
               std::string_view tooltip = {})
  {
    add("polygon", css_class, text_of(points), tooltip);
  }

  /// One line of text. Its class says whether it starts, ends or has its middle at `where`.
  void text(point where, std::string_view css_class, std::string_view content)
  {
    markup_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", css_class,
                           rounded(where.x), rounded(where.y), escaped_text(content));
  }

  [[nodiscard]] std::string markup() const { return markup_ + "</svg>\n"; }

 private:
  [[nodiscard]] static double rounded(double value)
  {
    BALLAST_EXPECTS(std::abs(value) < 1e9, "a drawing has a coordinate of ", value,
                    ", which is not between -1e9 and 1e9");
    return std::round(value * 100) / 100 + 0.0;  // which makes 0 of -0
  }

  [[nodiscard]] static std::string text_of(std::vector<point> const& points)
  {
    std::string text = "points=\"";
    for (point const& corner : points) {
      text += fmt::format("{}{},{}", &corner == points.data() ? "" : " ", rounded(corner.x),
                          rounded(corner.y));
    }
    return text += '"';
  }

  void add(std::string_view element, std::string_view css_class, std::string_view attributes,
           std::string_view tooltip = {})
  {
    markup_ += fmt::format("<{} class=\"{}\" {}", element, css_class, attributes);
    markup_ += tooltip.empty()
                   ? "/>\n"
                   : fmt::format("><title>{}</title></{}>\n", escaped_text(tooltip), element);
  }

  std::string markup_;
};

}  // namespace pages
