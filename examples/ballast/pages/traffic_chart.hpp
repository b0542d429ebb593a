// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "number_text.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"

#include <ballast/route/route_volume.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pages {

/// Bytes of one GPU in one direction.
struct traffic_bar {
  double within_node = 0;
  double all = 0;
  std::uint32_t messages = 0;
};

/// Draws one bar per GPU, in rank order: what stays in the node below, what crosses nodes above.
inline void draw_traffic_bars(svg_drawing& drawing, plot_frame const& frame,
                              std::vector<traffic_bar> const& bars, std::string_view verb)
{
  double const slot = frame.area.width / static_cast<double>(bars.size());
  double const width = std::min(slot * 0.78, 48.0);
  for (std::size_t gpu = 0; gpu < bars.size(); ++gpu) {
    auto const& [within_node, all, messages] = bars[gpu];
    std::string const tooltip =
        fmt::format("GPU {} {} {} in {} message{}, {} between nodes", gpu, verb, si_text(all, "B"),
                    messages, messages == 1 ? "" : "s", si_text(all - within_node, "B"));

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
inline void draw_sorted_traffic(svg_drawing& drawing, plot_frame const& frame,
                                std::vector<traffic_bar> const& bars)
{
  std::vector<traffic_bar> sorted = bars;
  std::sort(sorted.begin(), sorted.end(), [](traffic_bar const& a, traffic_bar const& b) {
    return std::pair(a.all, a.within_node) > std::pair(b.all, b.within_node);
  });
  // The area of the bytes within nodes covers the lower part of the area of all bytes.
  for (bool const within : {false, true}) {
    auto const bytes = within ? &traffic_bar::within_node : &traffic_bar::all;
    auto const outline =
        staircase(frame, sorted.size(), [&](std::size_t gpu) { return sorted[gpu].*bytes; });
    drawing.polygon(outline, within ? "within" : "between", "GPUs sorted by bytes");
  }
}

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
[[nodiscard]] inline std::string traffic_chart(ballast::route_volume const& volume,
                                               double bytes_per_token, chart_size const& size = {})
{
  constexpr std::size_t most_bars = 128;
  panel_places const places(size, chart_height, 44);
  double const panel = places.width;
  std::size_t const gpus = std::max<std::size_t>(volume.ranks.size(), 1);
  bool const sorted = gpus > most_bars;

  struct direction {
    std::string_view heading;
    std::string_view verb;
    svg_drawing::point at;  // of the panel
    std::vector<traffic_bar> bars = {};
    double highest = 0;

    void add(ballast::route_volume::traffic const& traffic, double bytes_per_token)
    {
      bars.push_back({static_cast<double>(traffic.within_node) * bytes_per_token,
                      static_cast<double>(traffic.all()) * bytes_per_token, traffic.messages});
      highest = std::max(highest, bars.back().all);
    }
  };
  direction sent{"Sent", "sends", places.at[0]};
  direction received{"Received", "receives", places.at[1]};
  for (auto const& rank : volume.ranks) {
    sent.add(rank.sent, bytes_per_token);
    received.add(rank.received, bytes_per_token);
  }
  double const highest = std::max(sent.highest, received.highest);
  constexpr std::size_t intervals = 5;
  double const scale = std::max(highest * 1.06, static_cast<double>(intervals));

  svg_drawing drawing(size.width, places.height,
                      "Bytes per GPU in one exchange: the busiest sends " +
                          si_text(sent.highest, "B") + ", the busiest receives " +
                          si_text(received.highest, "B"));
  drawing.rectangle({size.left + 44, 32, 12, 12}, "within");
  drawing.text({size.left + 62, 42}, "note", "inside the node");
  drawing.rectangle({size.left + 164, 32, 12, 12}, "between");
  drawing.text({size.left + 182, 42}, "note", "between nodes");
  for (direction const* const each : {&sent, &received}) {
    auto const [x, y] = each->at;
    plot_frame const frame{
        {x, y + plot_top, panel, plot_height},
        axis::linear(static_cast<double>(gpus), size.intervals(std::min<std::size_t>(8, gpus))),
        axis::linear(scale, intervals)};
    drawing.text({x, y + 18}, "heading", each->heading);
    if (each->highest > 0) {
      double const heading = 9 * static_cast<double>(each->heading.size());  // its width, about
      drawing.text({x + heading + 8, y + 18}, "note", "busiest GPU " + si_text(each->highest, "B"));
    }
    if (highest > 0) {
      frame.draw_up(drawing, "bytes per GPU", "B", each == &sent || size.is_narrow());
    } else {
      drawing.text({x + panel / 2, y + plot_top + plot_height / 2}, "note middle",
                   "Nothing moves: every token is computed where it was read.");
    }
    if (sorted) {
      draw_sorted_traffic(drawing, frame, each->bars);
    } else if (!each->bars.empty()) {
      draw_traffic_bars(drawing, frame, each->bars, each->verb);
    }
    frame.draw_across(drawing, sorted ? "GPUs, busiest first" : "GPU", "", sorted ? 0 : 0.5);
  }
  return drawing.markup();
}

}  // namespace pages
