// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_SVG_HPP
#define BALLAST_REPORT_SVG_HPP

#include <ballast/core/contract.hpp>
#include <ballast/report/detail/numbers.hpp>
#include <ballast/text/detail/text_escape.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::report {

/// A picture, drawn shape by shape, that scales with the page around it.
///
/// The CSS class of a shape, which `chart_style` defines, says how it looks; its coordinates say
/// where it is.
///
/// Shapes      x grows to the right and y downwards, from (0, 0) to (width, height).
/// Units       the drawing's own; at its natural size one unit is one CSS pixel.
/// Expects     every coordinate is finite and below 1e9 in magnitude.
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
  {
    append_number(markup_ += R"(<svg viewBox="0 0 )", width);
    append_number(markup_ += ' ', height);
    detail::append_xml_text(markup_ += R"(" role="img" aria-label=")", description);
    markup_ += "\">\n";
  }

  void rectangle(box where, std::string_view css_class, std::string_view tooltip = {})
  {
    open("rect", css_class);
    attribute("x", where.x);
    attribute("y", where.y);
    attribute("width", where.width);
    attribute("height", where.height);
    close("rect", tooltip);
  }

  void circle(point centre, double radius, std::string_view css_class,
              std::string_view tooltip = {})
  {
    open("circle", css_class);
    attribute("cx", centre.x);
    attribute("cy", centre.y);
    attribute("r", radius);
    close("circle", tooltip);
  }

  void line(point from, point to, std::string_view css_class)
  {
    open("line", css_class);
    attribute("x1", from.x);
    attribute("y1", from.y);
    attribute("x2", to.x);
    attribute("y2", to.y);
    close("line", {});
  }

  void polyline(std::vector<point> const& points, std::string_view css_class)
  {
    path("polyline", points, css_class, {});
  }

  /// The area inside the closed line through `points`.
  void polygon(std::vector<point> const& points, std::string_view css_class,
               std::string_view tooltip = {})
  {
    path("polygon", points, css_class, tooltip);
  }

  /// One line of text. Its class says whether it starts, ends or has its middle at `where`.
  void text(point where, std::string_view css_class, std::string_view content)
  {
    open("text", css_class);
    attribute("x", where.x);
    attribute("y", where.y);
    detail::append_xml_text(markup_ += '>', content);
    markup_ += "</text>\n";
  }

  [[nodiscard]] std::string markup() const { return markup_ + "</svg>\n"; }

 private:
  static void append_number(std::string& out, double value)
  {
    BALLAST_EXPECTS(detail::is_finite(value) && std::abs(value) < 1e9,
                    "a drawing has a coordinate of ", value, ", which is not between -1e9 and 1e9");
    std::int64_t const hundredths = std::llround(value * 100);
    if (hundredths < 0) { out += '-'; }
    std::int64_t const magnitude = hundredths < 0 ? -hundredths : hundredths;
    detail::append_integer(out, magnitude / 100);
    if (magnitude % 100 == 0) { return; }
    out += '.';
    out += static_cast<char>('0' + magnitude % 100 / 10);
    if (magnitude % 10 != 0) { out += static_cast<char>('0' + magnitude % 10); }
  }

  void open(std::string_view element, std::string_view css_class)
  {
    (markup_ += '<') += element;
    detail::append_xml_text(markup_ += " class=\"", css_class);
    markup_ += '"';
  }

  void attribute(std::string_view name, double value)
  {
    (markup_ += ' ') += name;
    append_number(markup_ += "=\"", value);
    markup_ += '"';
  }

  void path(std::string_view element, std::vector<point> const& points, std::string_view css_class,
            std::string_view tooltip)
  {
    open(element, css_class);
    markup_ += " points=\"";
    std::string_view separator;
    for (point const& corner : points) {
      append_number(markup_ += separator, corner.x);
      append_number(markup_ += ',', corner.y);
      separator = " ";
    }
    markup_ += '"';
    close(element, tooltip);
  }

  void close(std::string_view element, std::string_view tooltip)
  {
    if (tooltip.empty()) {
      markup_ += "/>\n";
      return;
    }
    detail::append_xml_text(markup_ += "><title>", tooltip);
    ((markup_ += "</title></") += element) += ">\n";
  }

  std::string markup_;
};

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_SVG_HPP
