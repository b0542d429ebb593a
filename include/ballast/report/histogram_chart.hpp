// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_HISTOGRAM_CHART_HPP
#define BALLAST_REPORT_HISTOGRAM_CHART_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/units.hpp>
#include <ballast/report/axis.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/plot_frame.hpp>
#include <ballast/report/svg.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

/// The samples whose length is in [low, high), and the work they cause.
struct histogram_bin {
  tokens low = 0;
  tokens high = 0;
  std::int64_t samples = 0;
  double work = 0;  ///< in any unit, the same in all bins; 0 in all of them where it is unknown
};

/// How long the samples are, and which lengths cause the work, over a logarithmic length axis.
///
/// Bars are shares of the samples, the line is shares of the work. Where they part, few samples
/// decide how long a step takes.
///
/// Expects     bins are increasing and do not overlap: 0 <= low < high <= the next low; counts and
///             work are finite and not negative.
/// Ensures     (1) heights of bars are proportional to samples, those of the line to work
///             (2) the line is absent where no bin has work
/// Complexity  O(bins).
[[nodiscard]] inline std::string histogram_chart(std::span<histogram_bin const> bins)
{
  // A length of 0 has no logarithm: it is shown half an octave left of 1.
  auto const place = [](tokens length) { return std::max(static_cast<double>(length), 0.7); };

  double samples = 0;
  double work = 0;
  for (histogram_bin const& bin : bins) {
    BALLAST_EXPECTS(0 <= bin.low && bin.low < bin.high && bin.samples >= 0 && bin.work >= 0);
    samples += static_cast<double>(bin.samples);
    work += bin.work;
  }
  auto const share = [](double part, double whole) { return whole > 0 ? 100 * part / whole : 0; };
  double highest = 0;
  for (histogram_bin const& bin : bins) {
    highest = std::max(
        {highest, share(static_cast<double>(bin.samples), samples), share(bin.work, work)});
  }

  svg_drawing drawing(detail::chart_width, detail::chart_height,
                      "Histogram of " + grouped_text(static_cast<std::int64_t>(samples)) +
                          " sample lengths in tokens, and the share of the work by length");
  plot_frame const frame{
      {detail::plot_left, detail::plot_top, detail::plot_width, detail::plot_height},
      bins.empty()
          ? axis::logarithmic(1, 1000)
          : axis::logarithmic(place(bins.front().low), std::max(place(bins.back().high), 10.0)),
      axis::linear(highest * 1.06, 5)};
  drawing.rectangle({76, 8, 12, 12}, "samples");
  drawing.text({94, 18}, "note", "share of the samples");
  frame.draw_up(drawing, "share of all", "%");

  std::vector<svg_drawing::point> line;
  for (histogram_bin const& bin : bins) {
    double const sample_share = share(static_cast<double>(bin.samples), samples);
    double const work_share = share(bin.work, work);
    auto const top_left = frame.at(place(bin.low), sample_share);
    auto const bottom_right = frame.at(place(bin.high), 0);
    std::string tooltip = grouped_text(bin.low) + " to " + grouped_text(bin.high - 1) +
                          " tokens: " + grouped_text(bin.samples) + " samples (" +
                          decimal_text(sample_share, 1) + " %)";
    if (work > 0) { tooltip += ", " + decimal_text(work_share, 1) + " % of the work"; }
    double const gap = std::min(2.0, (bottom_right.x - top_left.x) / 4);
    drawing.rectangle({top_left.x + gap / 2, top_left.y, bottom_right.x - top_left.x - gap,
                       bottom_right.y - top_left.y},
                      "samples", tooltip);
    line.push_back(frame.at(place(bin.low), work_share));
    line.push_back(frame.at(place(bin.high), work_share));
  }
  if (work > 0) {
    drawing.line({244, 14}, {262, 14}, "work");
    drawing.text({268, 18}, "note", "share of the work");
    drawing.polyline(line, "work");
  }
  frame.draw_across(drawing, "length of a sample (tokens)", "");
  return drawing.markup();
}

}  // namespace ballast::inline v0

#endif  // BALLAST_REPORT_HISTOGRAM_CHART_HPP
