// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "number_text.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"

#include <ballast/core.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <fmt/format.h>

namespace pages {

/// Draws how long the samples are and which lengths cause the work, over a logarithmic length axis.
///
/// Bars are shares of the samples, the line is shares of the work. Where the line is far above the
/// bars, few samples decide how long a step takes.
///
/// Shapes      bins[n]; work[n] in any unit, or empty where it is unknown.
/// Expects     bins are increasing and do not overlap, as those of `length_histogram`; work is
///             finite and not negative.
/// Ensures     (1) heights of bars are proportional to samples, those of the line to work
///             (2) the line is absent where no bin has work
/// Complexity  O(bins).
[[nodiscard]] inline std::string histogram_chart(std::vector<ballast::length_bin> const& bins,
                                                 std::vector<double> const& work = {},
                                                 chart_size const& size = {})
{
  // A length of 0 has no logarithm: it is shown half an octave left of 1.
  auto const place = [](ballast::tokens length) {
    return std::max(static_cast<double>(length), 0.7);
  };

  auto const work_of = [work](std::size_t bin) { return work.empty() ? 0.0 : work[bin]; };
  double all_samples = 0;
  double all_work = 0;
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    all_samples += static_cast<double>(bins[bin].samples);
    all_work += work_of(bin);
  }
  auto const share = [](double part, double whole) { return whole > 0 ? 100 * part / whole : 0; };
  auto const sample_share = [&](std::size_t bin) {
    return share(static_cast<double>(bins[bin].samples), all_samples);
  };
  double highest = 0;
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    highest = std::max({highest, sample_share(bin), share(work_of(bin), all_work)});
  }

  // At least a factor of two from end to end, or all ticks would have the same three digits.
  double lowest = bins.empty() ? 1 : place(bins.front().shortest);
  double longest = bins.empty() ? 1000 : std::max(place(bins.back().longest + 1), 10.0);
  if (longest < 2 * lowest) {
    lowest /= 1.5;
    longest *= 1.5;
  }

  svg_drawing drawing(size.width, chart_height,
                      "Histogram of " + grouped_text(static_cast<std::int64_t>(all_samples)) +
                          " sample lengths in tokens, and the share of the work by length");
  plot_frame const frame{{size.left, plot_top, size.plot(), plot_height},
                         axis::logarithmic(lowest, longest),
                         axis::linear(highest * 1.06, 5)};
  drawing.rectangle({size.left, 8, 12, 12}, "samples");
  drawing.text({size.left + 18, 18}, "note", "share of the samples");
  frame.draw_up(drawing, "share of all", "%");

  std::vector<svg_drawing::point> line;
  for (std::size_t index = 0; index < bins.size(); ++index) {
    ballast::length_bin const& bin = bins[index];
    double const work_share = share(work_of(index), all_work);
    auto const top_left = frame.at(place(bin.shortest), sample_share(index));
    auto const bottom_right = frame.at(place(bin.longest + 1), 0);
    std::string tooltip = grouped_text(bin.shortest) + " to " + grouped_text(bin.longest) +
                          " tokens: " + grouped_text(bin.samples) + " samples (" +
                          fmt::format("{:.1f} %)", sample_share(index));
    if (all_work > 0) { tooltip += ", " + fmt::format("{:.1f} % of the work", work_share); }
    double const gap = std::min(2.0, (bottom_right.x - top_left.x) / 4);
    drawing.rectangle({top_left.x + gap / 2, top_left.y, bottom_right.x - top_left.x - gap,
                       bottom_right.y - top_left.y},
                      "samples", tooltip);
    line.push_back(frame.at(place(bin.shortest), work_share));
    line.push_back(frame.at(place(bin.longest + 1), work_share));
  }
  if (all_work > 0) {
    drawing.line({size.left + 148, 14}, {size.left + 166, 14}, "work");
    drawing.text({size.left + 172, 18}, "note", "share of the work");
    drawing.polyline(line, "work");
  }
  frame.draw_across(drawing, "length of a sample (tokens)", "");
  return drawing.markup();
}

}  // namespace pages
