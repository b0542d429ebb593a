// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_TRAFFIC_CHART_HPP
#define BALLAST_REPORT_TRAFFIC_CHART_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/report/detail/axis.hpp>
#include <ballast/report/detail/numbers.hpp>
#include <ballast/report/detail/plot_frame.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/svg.hpp>
#include <ballast/route/route_volume.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::detail {

/// Bytes of one GPU in one direction.
struct traffic_bar {
  double within_node = 0;
  double all = 0;
  std::uint32_t messages = 0;
};

/// Draws one bar per GPU, in rank order: what stays in the node below, what crosses nodes above.
inline void draw_traffic_bars(report::svg_drawing& drawing, plot_frame const& frame,
                              std::vector<traffic_bar> const& bars, std::string_view verb)
{
  double const slot = frame.area.width / static_cast<double>(bars.size());
  double const width = std::min(slot * 0.78, 48.0);
  for (std::size_t gpu = 0; gpu < bars.size(); ++gpu) {
    auto const& [within_node, all, messages] = bars[gpu];
    std::string tooltip = "GPU ";
    append_integer(tooltip, static_cast<std::int64_t>(gpu));
    ((tooltip += ' ') += verb) += ' ' + report::si_text(all, "B") + " in ";
    append_integer(tooltip, messages);
    tooltip += messages == 1 ? " message, " : " messages, ";
    tooltip += report::si_text(all - within_node, "B") + " between nodes";

    auto const draw = [&](double from, double to, std::string_view css_class) {
      if (!(to > from)) { return; }
      auto const top = frame.at(static_cast<double>(gpu) + 0.5, to);
      drawing.rectangle(
          {top.x - width / 2, top.y, width, frame.at(frame.across.lowest(), from).y - top.y},
          css_class, tooltip);
    };
    draw(0, within_node, "within");
    draw(within_node, all, "between");
  }
}

/// Draws a staircase from the GPU with most bytes to the one with fewest, of at most one step per
/// drawing unit.
inline void draw_sorted_traffic(report::svg_drawing& drawing, plot_frame const& frame,
                                std::vector<traffic_bar> const& bars)
{
  std::vector<traffic_bar> sorted = bars;
  std::sort(sorted.begin(), sorted.end(), [](traffic_bar const& a, traffic_bar const& b) {
    return precedes(b.all, a.all, b.within_node, a.within_node);
  });
  std::size_t const stairs = std::min(sorted.size(), static_cast<std::size_t>(frame.area.width));
  // The area of the bytes within nodes covers the lower part of the area of all bytes.
  for (bool const within : {false, true}) {
    auto const bytes = within ? &traffic_bar::within_node : &traffic_bar::all;
    std::vector<report::svg_drawing::point> outline = {frame.at(0, 0)};
    for (std::size_t stair = 0; stair < stairs; ++stair) {
      std::size_t const first = stair * sorted.size() / stairs;
      std::size_t const past = (stair + 1) * sorted.size() / stairs;
      outline.push_back(frame.at(static_cast<double>(first), sorted[first].*bytes));
      outline.push_back(frame.at(static_cast<double>(past), sorted[first].*bytes));
    }
    outline.push_back(frame.at(frame.across.highest(), 0));
    drawing.polygon(outline, within ? "within" : "between", "GPUs sorted by bytes");
  }
}

}  // namespace ballast::inline v0::detail

namespace ballast::inline v0::report {

/// Draws the bytes that every GPU sends and receives in one exchange, side by side on one scale.
/// Each bar is split into what stays inside the node and what crosses nodes.
///
/// Up to 128 GPUs are bars in rank order; more are a staircase, as in load_chart. Where nothing
/// moves, a sentence says so in place of the bars.
///
/// Expects     bytes_per_token >= 0; no GPU has more than 1e29 bytes.
/// Ensures     (1) both panels share one vertical scale that starts at 0
///             (2) heights are proportional to bytes
///             (3) the scale names whole bytes only
/// Complexity  O(n log n) for n GPUs.
[[nodiscard]] inline std::string traffic_chart(route_volume const& volume, double bytes_per_token)
{
  constexpr std::size_t most_bars = 128;
  constexpr double gap = 44;  // between the panels
  constexpr double panel = (detail::plot_width - gap) / 2;
  std::size_t const gpus = std::max<std::size_t>(volume.ranks.size(), 1);
  bool const sorted = gpus > most_bars;

  struct direction {
    std::string_view heading;
    std::string_view verb;
    double x;  // of the panel
    std::vector<detail::traffic_bar> bars = {};
    double highest = 0;

    void add(rank_traffic const& traffic, double bytes_per_token)
    {
      bars.push_back({static_cast<double>(traffic.within_node) * bytes_per_token,
                      static_cast<double>(traffic.all()) * bytes_per_token, traffic.messages});
      highest = std::max(highest, bars.back().all);
    }
  };
  direction sent{"Sent", "sends", detail::plot_left};
  direction received{"Received", "receives", detail::plot_left + panel + gap};
  for (auto const& rank : volume.ranks) {
    sent.add(rank.sent, bytes_per_token);
    received.add(rank.received, bytes_per_token);
  }
  double const highest = std::max(sent.highest, received.highest);
  constexpr std::size_t intervals = 5;
  double const scale = std::max(highest * 1.06, static_cast<double>(intervals));

  svg_drawing drawing(detail::chart_width, detail::chart_height,
                      "Bytes per GPU in one exchange: the busiest sends " +
                          si_text(sent.highest, "B") + ", the busiest receives " +
                          si_text(received.highest, "B"));
  drawing.rectangle({120, 32, 12, 12}, "within");
  drawing.text({138, 42}, "note", "inside the node");
  drawing.rectangle({260, 32, 12, 12}, "between");
  drawing.text({278, 42}, "note", "between nodes");
  for (direction const* const each : {&sent, &received}) {
    detail::plot_frame const frame{
        {each->x, detail::plot_top, panel, detail::plot_height},
        detail::axis::linear(static_cast<double>(gpus), std::min<std::size_t>(8, gpus)),
        detail::axis::linear(scale, intervals)};
    drawing.text({each->x, 18}, "heading", each->heading);
    if (each->highest > 0) {
      double const heading = 9 * static_cast<double>(each->heading.size());  // its width, about
      drawing.text({each->x + heading + 8, 18}, "note",
                   "busiest GPU " + si_text(each->highest, "B"));
    }
    if (highest > 0) {
      frame.draw_up(drawing, "bytes per GPU", "B", each == &sent);
    } else {
      drawing.text({each->x + panel / 2, detail::plot_top + detail::plot_height / 2}, "note middle",
                   "Nothing moves: every token is computed where it was read.");
    }
    if (sorted) {
      detail::draw_sorted_traffic(drawing, frame, each->bars);
    } else if (!each->bars.empty()) {
      detail::draw_traffic_bars(drawing, frame, each->bars, each->verb);
    }
    frame.draw_across(drawing, sorted ? "GPUs, busiest first" : "GPU", "", sorted ? 0 : 0.5);
  }
  return drawing.markup();
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_TRAFFIC_CHART_HPP
