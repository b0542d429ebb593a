// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "number_text.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"
#include "visible_bars.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <fmt/format.h>

namespace pages {

/// A pipeline rank busy with one task.
struct pipeline_bar {
  ballast::pipeline_rank rank{};
  ballast::stage_id stage{};
  ballast::microbatch_id microbatch{};
  ballast::pass pass = ballast::pass::forward;
  double start = 0;
  double duration = 0;
};

/// Returns what every pipeline rank does in a simulated step.
///
/// Shapes      order[microbatches]: the microbatch at each position.
/// Units       time_per_unit is how long one unit of the timeline is; the bars are in its unit.
/// Expects     timeline is what simulate() returns for the schedule and the order.
/// Ensures     (1) one bar per task, rank by rank, each in the order in which it does them
/// Complexity  O(tasks).
[[nodiscard]] inline std::vector<pipeline_bar> pipeline_bars(
    ballast::compiled_schedule const& schedule, ballast::pipeline_timeline const& timeline,
    std::vector<ballast::microbatch_id> const& order, double time_per_unit = 1)
{
  std::vector<pipeline_bar> bars;
  bars.reserve(schedule.tasks().size());
  for (std::size_t index = 0; index < schedule.stages().ranks(); ++index) {
    auto const rank = ballast::to_id<ballast::pipeline_rank>(index);
    for (std::uint32_t const number : schedule.tasks_on(rank)) {
      ballast::pipeline_task const& task = schedule.tasks()[number];
      double const start = static_cast<double>(timeline.start[number]) * time_per_unit;
      double const end = static_cast<double>(timeline.end[number]) * time_per_unit;
      bars.push_back({rank, task.stage, order[task.position], task.pass, start, end - start});
    }
  }
  return bars;
}

/// The rows of one panel of a pipeline chart: how many ranks it shows, and how high a row is.
struct pipeline_rows {
  std::size_t ranks = 0;
  std::size_t shown = 0;
  double pitch = 0;

  explicit pipeline_rows(std::size_t count)
      : ranks(count),
        shown(std::min(count, most)),
        pitch(count <= 8    ? 26
              : count <= 16 ? 20
                            : 14)
  {}

  static constexpr std::size_t most = 32;

  [[nodiscard]] double height() const
  {
    return pitch * static_cast<double>(std::max<std::size_t>(shown, 1));
  }
  /// The rank that a row shows: of more than 32 ranks, 32 evenly picked from the first to the last.
  [[nodiscard]] std::size_t rank_of(std::size_t row) const
  {
    return ranks <= most ? row : row * (ranks - 1) / (most - 1);
  }
};

[[nodiscard]] constexpr std::string_view pass_name(ballast::pass pass)
{
  return pass == ballast::pass::forward    ? "forward"
         : pass == ballast::pass::backward ? "backward"
                                           : "weights pass";
}

/// "rank 2, stage 5, backward of microbatch 3: 12.3".
[[nodiscard]] inline std::string tooltip_of(visible_bar const& bar, pipeline_bar const& first,
                                            std::string_view unit)
{
  std::string const what = bar.of.size() > 1
                               ? grouped_text(bar.of.size()) + " tasks"
                               : fmt::format("stage {}, {} of microbatch {}", to_index(first.stage),
                                             pass_name(first.pass), to_index(first.microbatch));
  return fmt::format("rank {}, {}: {}", to_index(first.rank), what,
                     si_text(bar.end - bar.start, unit));
}

/// Draws the tasks of one rank, and in each bar that is wide enough the number of its microbatch.
inline void draw_pipeline_row(svg_drawing& drawing, svg_drawing::box row, double scale,
                              std::vector<pipeline_bar> const& bars,
                              std::span<std::size_t const> of_rank, std::string_view unit,
                              bool ordered)
{
  constexpr double thinnest = 1.5;
  constexpr double digit_width = 6.2;  // of the class "inside", which is 10 px high
  for_each_visible_bar(bars, of_rank, thinnest / scale, [&](visible_bar const& bar) {
    pipeline_bar const& first = bars[bar.of.front()];
    bool const forward = first.pass == ballast::pass::forward;
    svg_drawing::box const place{row.x + bar.start * scale, row.y, (bar.end - bar.start) * scale,
                                 row.height};
    constexpr std::array<std::array<std::string_view, 3>, 2> tones = {
        {{"before tone-0", "before-ink tone-3", "before-ink tone-1"},
         {"after tone-0", "after-ink tone-3", "after-ink tone-1"}}};
    drawing.rectangle(place, tones[ordered ? 1 : 0][static_cast<std::size_t>(first.pass)],
                      tooltip_of(bar, first, unit));
    std::string const name = fmt::format("{}", to_index(first.microbatch));
    if (place.width > digit_width * static_cast<double>(name.size()) + 3) {
      drawing.text({place.x + place.width / 2, row.y + row.height / 2 + 3.5},
                   forward ? "inside" : "inside on-ink", name);
    }
  });
}

/// The share of the time until `end` in which the ranks, on average, do not compute.
[[nodiscard]] inline double idle_share_of(std::vector<pipeline_bar> const& bars, std::size_t ranks,
                                          double end)
{
  if (end <= 0) { return 0; }
  double busy = 0;
  for (pipeline_bar const& bar : bars) { busy += bar.duration / end; }
  return std::max(0.0, 1 - busy / static_cast<double>(ranks));
}

/// What the two panels of a pipeline chart show.
struct pipeline_panels {
  std::string_view above = "As given";
  std::string_view below = "Ordered";
};

/// Draws a step of a pipeline twice on one time scale: with its microbatches as given and, below,
/// as ordered, or as the panels say.
///
/// A row is a pipeline rank. Light bars are forwards, strong ones backwards and those between weights
/// passes, with the number of their microbatch where there is room; grey is a rank that waits. Of
/// more than 32 ranks, 32 are shown, evenly picked from the first to the last. Tasks too thin to be
/// seen are drawn together.
///
/// Units       times are in `unit`, which takes an SI prefix ("s") or is empty.
/// Expects     every bar's rank is below `ranks`, its start and duration are not negative and their
///             sum is at most 1e29; the bound is from 0 to 1e29.
/// Ensures     (1) both panels share one time scale that starts at 0
///             (2) a dotted line marks the bound, unless that is 0; no order ends before it
/// Complexity  O(b log b) for b bars; the drawing's size is bounded.
[[nodiscard]] inline std::string pipeline_chart(std::vector<pipeline_bar> const& given,
                                                std::vector<pipeline_bar> const& ordered,
                                                std::size_t ranks, std::string_view unit,
                                                double bound = 0, pipeline_panels panels = {},
                                                chart_size const& size = {})
{
  double const top = size.is_narrow() ? 64 : 48;
  constexpr double below = 64;  // for the axis of a panel, and the distance to the next
  pipeline_rows const rows(ranks);
  auto const end_of = [](std::vector<pipeline_bar> const& bars) {
    double end = 0;
    for (pipeline_bar const& bar : bars) { end = std::max(end, bar.start + bar.duration); }
    return end;
  };
  axis const time =
      axis::linear(std::max({end_of(given), end_of(ordered), bound}), size.intervals());

  svg_drawing drawing(size.width, 2 * (top + rows.height() + below) - 16,
                      fmt::format("Timeline of a pipeline: {}, {}", panels.above, panels.below));
  double y = top;
  for (bool const after : {false, true}) {
    std::vector<pipeline_bar> const& bars = after ? ordered : given;
    double const end = end_of(bars);
    double const scale = size.plot() / time.highest();
    auto const of_rank = bars_by_row(
        bars, ranks, [](pipeline_bar const& bar) { return ballast::to_index(bar.rank); });
    for (std::size_t row = 0; row < rows.shown; ++row) {
      std::size_t const rank = rows.rank_of(row);
      svg_drawing::box const place{size.left, y + rows.pitch * static_cast<double>(row) + 1,
                                   end * scale, rows.pitch - 2};
      drawing.rectangle(place, "waiting", "waiting");
      draw_pipeline_row(drawing, place, scale, bars, of_rank[rank], unit, after);
      std::string const name = fmt::format("rank {}", rank);
      drawing.text({size.left - 8, place.y + rows.pitch / 2 + 3}, "tick end", name);
    }
    if (bound > 0) {
      double const x = size.left + bound * scale;
      drawing.line({x, y - 8}, {x, y + rows.height()}, "mark");
    }
    drawing.text({size.left, y - (size.is_narrow() ? 46 : 30)},
                 after ? "heading after-ink" : "heading before-ink",
                 after ? panels.below : panels.above);
    drawing.text(
        {size.is_narrow() ? size.left : size.left + 88, y - (size.is_narrow() ? 26 : 30)}, "note",
        (size.is_narrow() ? si_text(end, unit) + ", of which ranks wait for "
                          : "the step takes " + si_text(end, unit) + ", and ranks wait for ") +
            percent_text(idle_share_of(bars, ranks, end)) + (size.is_narrow() ? "" : " of it"));
    plot_frame const frame{{size.left, y, size.plot(), rows.height()}, time, axis::linear(1, 1)};
    frame.draw_across(drawing,
                      unit.empty() ? "from the start of the step, in the unit of the times"
                                   : "from the start of the step",
                      unit);
    y += rows.height() + below + top;
  }
  return drawing.markup();
}

}  // namespace pages
