// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_PIPELINE_CHART_HPP
#define BALLAST_REPORT_PIPELINE_CHART_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/report/detail/axis.hpp>
#include <ballast/report/detail/bars_by_row.hpp>
#include <ballast/report/detail/numbers.hpp>
#include <ballast/report/detail/plot_frame.hpp>
#include <ballast/report/detail/visible_bars.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/pipeline_bar.hpp>
#include <ballast/report/svg.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::detail {

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

/// "rank 2, stage 5, backward of microbatch 3: 12.3".
[[nodiscard]] inline std::string tooltip_of(visible_bar const& bar,
                                            report::pipeline_bar const& first,
                                            std::string_view unit)
{
  std::string text = "rank ";
  append_integer(text, static_cast<std::int64_t>(first.rank));
  if (bar.of.size() > 1) {
    text.append(", ").append(report::grouped_text(static_cast<std::int64_t>(bar.of.size())));
    text += " tasks";
  } else {
    append_integer(text += ", stage ", static_cast<std::int64_t>(first.stage));
    text += first.pass == pass::forward ? ", forward" : ", backward";
    append_integer(text += " of microbatch ", static_cast<std::int64_t>(first.microbatch));
  }
  return text.append(": ").append(report::si_text(bar.end - bar.start, unit));
}

/// Draws the tasks of one rank, and in each bar that is wide enough the number of its microbatch.
inline void draw_pipeline_row(report::svg_drawing& drawing, report::svg_drawing::box row,
                              double scale, std::vector<report::pipeline_bar> const& bars,
                              std::span<std::size_t const> of_rank, std::string_view unit,
                              bool ordered)
{
  constexpr double thinnest = 1.5;
  constexpr double digit_width = 6.2;  // of the class "inside", which is 10 px high
  for_each_visible_bar(bars, of_rank, thinnest / scale, [&](visible_bar const& bar) {
    report::pipeline_bar const& first = bars[bar.of.front()];
    bool const forward = first.pass == pass::forward;
    report::svg_drawing::box const place{row.x + bar.start * scale, row.y,
                                         (bar.end - bar.start) * scale, row.height};
    std::string_view const light = ordered ? "after tone-0" : "before tone-0";
    std::string_view const strong = ordered ? "after-ink tone-3" : "before-ink tone-3";
    drawing.rectangle(place, forward ? light : strong, tooltip_of(bar, first, unit));
    std::string name;
    append_integer(name, static_cast<std::int64_t>(first.microbatch));
    if (place.width > digit_width * static_cast<double>(name.size()) + 3) {
      drawing.text({place.x + place.width / 2, row.y + row.height / 2 + 3.5},
                   forward ? "inside" : "inside on-ink", name);
    }
  });
}

/// The share of the time until `end` in which the ranks, on average, do not compute.
[[nodiscard]] inline double idle_share_of(std::vector<report::pipeline_bar> const& bars,
                                          std::size_t ranks, double end)
{
  if (end <= 0) { return 0; }
  double busy = 0;
  for (report::pipeline_bar const& bar : bars) { busy += bar.duration / end; }
  return std::max(0.0, 1 - busy / static_cast<double>(ranks));
}

}  // namespace ballast::inline v0::detail

namespace ballast::inline v0::report {

/// Draws a step of a pipeline twice on one time scale: with its microbatches as given and, below,
/// as ordered.
///
/// A row is a pipeline rank. Light bars are forwards and strong ones backwards, with the number of
/// their microbatch where there is room; grey is a rank that waits. Of more than 32 ranks, 32 are
/// shown, evenly picked from the first to the last. Tasks too thin to be seen are drawn together.
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
                                                double bound = 0)
{
  constexpr double top = 48;
  constexpr double below = 64;  // for the axis of a panel, and the distance to the next
  detail::pipeline_rows const rows(ranks);
  auto const end_of = [ranks](std::vector<pipeline_bar> const& bars) {
    double end = 0;
    for (pipeline_bar const& bar : bars) {
      BALLAST_EXPECTS(to_index(bar.rank) < ranks, "bar ", &bar - bars.data(), " is on rank ",
                      bar.rank, " of ", ranks);
      BALLAST_EXPECTS(bar.start >= 0 && bar.duration >= 0, "bar ", &bar - bars.data(),
                      " starts at ", bar.start, " and lasts ", bar.duration,
                      ", and the least of both is 0");
      end = std::max(end, bar.start + bar.duration);
    }
    return end;
  };
  BALLAST_EXPECTS(bound >= 0, "the bound is ", bound, ", and the least is 0");
  detail::axis const time =
      detail::axis::linear(std::max({end_of(given), end_of(ordered), bound}), 8);

  svg_drawing drawing(detail::chart_width, 2 * (top + rows.height() + below) - 16,
                      "Timeline of a pipeline, as given and as ordered");
  double y = top;
  for (bool const after : {false, true}) {
    std::vector<pipeline_bar> const& bars = after ? ordered : given;
    double const end = end_of(bars);
    double const scale = detail::plot_width / time.highest();
    detail::bars_by_row const of_rank(bars, ranks,
                                      [](pipeline_bar const& bar) { return to_index(bar.rank); });
    for (std::size_t row = 0; row < rows.shown; ++row) {
      std::size_t const rank = rows.rank_of(row);
      svg_drawing::box const place{detail::plot_left, y + rows.pitch * static_cast<double>(row) + 1,
                                   end * scale, rows.pitch - 2};
      drawing.rectangle(place, "waiting", "waiting");
      detail::draw_pipeline_row(drawing, place, scale, bars, of_rank[rank], unit, after);
      std::string name = "rank ";
      detail::append_integer(name, static_cast<std::int64_t>(rank));
      drawing.text({detail::plot_left - 8, place.y + rows.pitch / 2 + 3}, "tick end", name);
    }
    if (bound > 0) {
      double const x = detail::plot_left + bound * scale;
      drawing.line({x, y - 8}, {x, y + rows.height()}, "mark");
    }
    drawing.text({detail::plot_left, y - 30}, after ? "heading after-ink" : "heading before-ink",
                 after ? "Ordered" : "As given");
    drawing.text({detail::plot_left + 80, y - 30}, "note",
                 "the step takes " + si_text(end, unit) + ", and ranks wait for " +
                     percent_text(detail::idle_share_of(bars, ranks, end)) + " of it");
    detail::plot_frame const frame{{detail::plot_left, y, detail::plot_width, rows.height()},
                                   time,
                                   detail::axis::linear(1, 1)};
    frame.draw_across(drawing, "from the start of the step", unit);
    y += rows.height() + below + top;
  }
  return drawing.markup();
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_PIPELINE_CHART_HPP
