// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "number_text.hpp"
#include "plot_frame.hpp"
#include "step_bars.hpp"
#include "svg.hpp"
#include "visible_bars.hpp"

#include <ballast/core.hpp>

#include <fmt/format.h>

namespace pages {

/// When each GPU finishes.
[[nodiscard]] inline std::vector<double> finish_times(std::vector<gantt_bar> const& bars,
                                                      std::size_t gpus)
{
  std::vector<double> finish(gpus, 0);
  for (gantt_bar const& bar : bars) {
    double& end = finish[ballast::to_index(bar.gpu)];
    end = std::max(end, bar.start + bar.duration);
  }
  return finish;
}

/// The GPUs to show, from top to bottom: all in rank order, or, if there are more than `rows`,
/// `rows` of them, evenly picked from the one that finishes last to the one that finishes first.
[[nodiscard]] inline std::vector<std::size_t> shown_gpus(std::vector<double> const& finish,
                                                         std::size_t rows)
{
  std::vector<std::size_t> gpus(finish.size());
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) { gpus[gpu] = gpu; }
  if (gpus.size() <= rows) { return gpus; }
  std::sort(gpus.begin(), gpus.end(), [&finish](std::size_t a, std::size_t b) {
    return finish[a] != finish[b] ? finish[a] > finish[b] : a < b;
  });
  std::vector<std::size_t> picked(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    picked[row] = gpus[row * (gpus.size() - 1) / (rows - 1)];
  }
  return picked;
}

/// Draws the bars of one GPU, whose numbers are sorted by start. Neighbours too thin to see become
/// one bar.
inline void draw_gantt_row(svg_drawing& drawing, plot_frame const& frame, svg_drawing::box row,
                           std::vector<gantt_bar> const& bars, std::span<std::size_t const> of_gpu,
                           double longest, std::string_view unit, std::string_view css_class)
{
  constexpr double thinnest = 0.8;
  double const scale = frame.area.width / frame.across.highest();
  for_each_visible_bar(bars, of_gpu, thinnest / scale, [&](visible_bar const& bar) {
    gantt_bar const& first = bars[bar.of.front()];
    std::string label = first.label;
    if (bar.of.size() > 1) { label = grouped_text(bar.of.size()) + " bars"; }
    double const duration = bar.end - bar.start;
    int const tone = longest > 0 ? static_cast<int>(3.999 * duration / longest) : 0;
    std::string const classes = fmt::format("{} tone-{}", css_class, std::clamp(tone, 0, 3));
    std::string const gpu =
        fmt::format("GPU {}, {}: {}", to_index(first.gpu), label, si_text(duration, unit));
    drawing.rectangle({row.x + bar.start * scale, row.y, duration * scale, row.height}, classes,
                      gpu);
  });
}

/// Draws one step on every GPU before and after balancing, side by side on one time scale.
///
/// A row is a GPU, a bar is a sample (the longer, the stronger its colour), and grey is a GPU that
/// waits for the slowest one. Of more than 64 GPUs, 64 are shown, evenly picked from the one that
/// finishes last to the one that finishes first.
///
/// Units       times are in `unit`, which takes an SI prefix ("s", "FLOP").
/// Expects     every bar's GPU is below `gpus`, its start and duration are not negative and their
///             sum is at most 1e29.
/// Ensures     (1) both panels share one time scale that starts at 0
///             (2) the last GPU to finish is among those shown
/// Complexity  O(b log b + g log g) for b bars on g GPUs; the drawing's size is bounded by its
///             rows.
[[nodiscard]] inline std::string gantt_chart(std::vector<gantt_bar> const& before,
                                             std::vector<gantt_bar> const& after, std::size_t gpus,
                                             std::string_view unit, chart_size const& size = {})
{
  constexpr std::size_t most_rows = 64;
  constexpr double top = 48;

  std::size_t const rows = std::min(gpus, most_rows);
  double const pitch = rows <= 8 ? 22 : rows <= 32 ? 13 : 9;
  double const body = pitch * static_cast<double>(std::max<std::size_t>(rows, 1));
  std::vector<double> const finish_before = finish_times(before, gpus);
  std::vector<double> const finish_after = finish_times(after, gpus);
  double latest = 0;
  double longest = 0;
  for (auto const* finish : {&finish_before, &finish_after}) {
    for (double const end : *finish) { latest = std::max(latest, end); }
  }
  for (auto const* bars : {&before, &after}) {
    for (gantt_bar const& bar : *bars) { longest = std::max(longest, bar.duration); }
  }

  panel_places const places(size, top + body + 48, 72);  // names of rows are between the panels
  double const panel = places.width;
  svg_drawing drawing(size.width, places.height,
                      "Timeline of a step on every GPU, before and after");
  for (bool const balanced : {false, true}) {
    auto const [x, y] = places.at[balanced ? 1 : 0];
    std::vector<double> const& finish = balanced ? finish_after : finish_before;
    std::vector<std::size_t> const shown = shown_gpus(finish, most_rows);
    double const end = finish.empty() ? 0 : std::ranges::max(finish);
    plot_frame const frame{{x, y + top, panel, body}, axis::linear(latest, 4), axis::linear(1, 1)};

    std::vector<gantt_bar> const& bars = balanced ? after : before;
    auto const of_gpu =
        bars_by_row(bars, gpus, [](gantt_bar const& bar) { return ballast::to_index(bar.gpu); });
    for (std::size_t row = 0; row < shown.size(); ++row) {
      svg_drawing::box const place{x, y + top + pitch * static_cast<double>(row) + 1,
                                   panel * frame.across.fraction(end), pitch - 2};
      drawing.rectangle(place, "waiting", "waiting");
      draw_gantt_row(drawing, frame, place, bars, of_gpu[shown[row]], longest, unit,
                     balanced ? "after" : "before");
      if (row % (rows <= 16 ? 1 : rows <= 32 ? 4 : 8) == 0) {
        drawing.text({x - 8, place.y + pitch / 2 + 3}, "tick end",
                     fmt::format("GPU {}", shown[row]));
      }
    }
    double const finish_line = x + panel * frame.across.fraction(end);
    drawing.text({x, y + 18}, balanced ? "heading after-ink" : "heading before-ink",
                 balanced ? "After" : "Before");
    drawing.text({x + 60, y + 18}, "note", "the last GPU is done after " + si_text(end, unit));
    drawing.line({finish_line, y + top - 8}, {finish_line, y + top + body}, "mean");
    frame.draw_across(drawing, "from the start of the step", unit);
  }
  return drawing.markup();
}

}  // namespace pages
