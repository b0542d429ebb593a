// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "number_text.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"

#include <ballast/core.hpp>

#include <fmt/format.h>

namespace pages {

/// What a sample of one length costs.
struct cost_point {
  ballast::tokens length = 0;
  double linear = 0;     ///< the part that grows with the length: dense layers
  double quadratic = 0;  ///< the part that grows with its square: attention
};

/// A measured sample, to compare the model with.
struct measured_cost {
  ballast::tokens length = 0;
  double cost = 0;
};

/// A length that the chart marks by name, such as the shortest, the median and the longest.
struct length_mark {
  ballast::tokens length = 0;
  std::string name;
};

/// Draws cost against length: dense layers below, attention on top of them, and lines at the marks.
///
/// Units       costs are in `unit`, which takes an SI prefix ("s", "FLOP").
/// Expects     lengths and costs are finite and not negative; model points and marks
///             increase in length.
/// Ensures     (1) the areas' upper edges are linear and linear + quadratic
///             (2) every measurement and every mark lies within the axes
/// Complexity  O(points).
[[nodiscard]] inline std::string cost_chart(std::vector<cost_point> const& model,
                                            std::vector<measured_cost> const& measured,
                                            std::vector<length_mark> const& marks,
                                            std::string_view unit, chart_size const& size = {})
{
  double longest = 0;
  double highest = 0;
  for (cost_point const& point : model) {
    longest = std::max(longest, static_cast<double>(point.length));
    highest = std::max(highest, point.linear + point.quadratic);
  }
  for (measured_cost const& point : measured) {
    longest = std::max(longest, static_cast<double>(point.length));
    highest = std::max(highest, point.cost);
  }
  for (length_mark const& mark : marks) {
    longest = std::max(longest, static_cast<double>(mark.length));
  }

  double const lower = size.is_narrow() ? 34 : 0;  // the legend has a row for each
  std::string description = "Cost of a sample against its length";
  if (!model.empty()) {
    description += ", up to " + si_text(model.back().linear + model.back().quadratic, unit) +
                   " at " + grouped_text(model.back().length) + " tokens";
  }
  svg_drawing drawing(size.width, chart_height + lower, description);
  plot_frame const frame{{size.left, plot_top + lower, size.plot(), plot_height},
                         axis::linear(longest, size.intervals()),
                         axis::linear(highest * 1.06, 5)};
  frame.draw_up(drawing, "cost of a sample", unit);

  // Each area runs along its upper edge and then back along the edge below it.
  std::vector<svg_drawing::point> dense;
  std::vector<svg_drawing::point> attention;
  for (cost_point const& point : model) {
    auto const length = static_cast<double>(point.length);
    dense.push_back(frame.at(length, point.linear));
    attention.push_back(frame.at(length, point.linear + point.quadratic));
  }
  std::vector<svg_drawing::point> const edge = attention;
  for (std::size_t point = dense.size(); point > 0; --point) {
    attention.push_back(dense[point - 1]);
  }
  if (!model.empty()) {
    dense.push_back(frame.at(static_cast<double>(model.back().length), 0));
    dense.push_back(frame.at(static_cast<double>(model.front().length), 0));
  }
  drawing.polygon(dense, "dense");
  drawing.polygon(attention, "attention");
  drawing.polyline(edge, "edge");
  for (measured_cost const& point : measured) {
    drawing.circle(frame.at(static_cast<double>(point.length), point.cost), 3, "measured",
                   grouped_text(point.length) + " tokens: " + si_text(point.cost, unit));
  }

  double const left = size.is_narrow() ? 8 : size.left;
  auto const place = [&](double row, double beside) {
    return size.is_narrow() ? svg_drawing::point{left, 8 + 18 * row}
                            : svg_drawing::point{left + beside, 8};
  };
  auto const [dense_x, dense_y] = place(0, 0);
  drawing.rectangle({dense_x, dense_y, 12, 12}, "dense");
  drawing.text({dense_x + 18, dense_y + 10}, "note", "dense layers, grow with the length");
  auto const [attention_x, attention_y] = place(1, 256);
  drawing.rectangle({attention_x, attention_y, 12, 12}, "attention");
  drawing.text({attention_x + 18, attention_y + 10}, "note", "attention, grows with its square");
  if (!measured.empty()) {
    auto const [circle_x, circle_y] = size.is_narrow() ? place(0, 0) : place(0, 500);
    double const x = circle_x + (size.is_narrow() ? 256 : 6);
    drawing.circle({x, circle_y + 6}, 3, "measured");
    drawing.text({x + 10, circle_y + 10}, "note", "measured");
  }
  double last_x = -1e6;
  double label_y = 0;
  for (length_mark const& mark : marks) {
    auto const top = frame.at(static_cast<double>(mark.length), frame.up.highest());
    bool const near_end = top.x > frame.area.x + 0.8 * frame.area.width;
    label_y = top.x - last_x < 160 ? label_y + 16 : top.y + 10;  // under a label it would overlap
    last_x = top.x;
    drawing.line(top, {top.x, frame.area.y + frame.area.height}, "mark");
    drawing.text({near_end ? top.x - 6 : top.x + 6, label_y}, near_end ? "halo end" : "halo",
                 mark.name + " " + grouped_text(mark.length));
  }
  frame.draw_across(drawing, "length of a sample (tokens)", "");
  return drawing.markup();
}

}  // namespace pages
