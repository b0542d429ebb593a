// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "html_page.hpp"
#include "number_text.hpp"
#include "pipeline_chart.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"
#include "verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pages {

/// The least, the mean and the most that GPUs have of something in a step.
struct spread {
  double least = 0;
  double mean = 0;
  double most = 0;

  /// Share of the most that is missing, on average, on a GPU.
  [[nodiscard]] double waiting() const { return most > 0 ? 1 - mean / most : 0; }
};

/// The microbatches of the bags of a step, slot by slot.
struct log_page_cells {
  std::size_t bags = 0;
  std::vector<double> loads = {};   ///< of each cell: slot * bags + bag; per unit of speed
  std::vector<double> filled = {};  ///< shares of their cap that cells have; empty without one
  std::size_t empty = 0;            ///< cells without a sample: their ranks run a dummy
  double all_filled = 0;            ///< of all steps, the mean share of the cap; 0 without a cap
  double most_filled = 0;           ///< the largest
  double all_empty = 0;             ///< the share of empty cells

  [[nodiscard]] std::size_t slots() const { return bags > 0 ? loads.size() / bags : 0; }
};

/// A step of a log.
struct log_page_step {
  std::uint64_t step = 0;
  std::size_t samples = 0;
  std::int64_t tokens = 0;
  spread load = {};      ///< per unit of speed, over bags
  double gap = 0;        ///< makespan / lower bound - 1
  spread measured = {};  ///< seconds, over ranks; 0 where nothing was measured
  std::size_t microbatches = 1;
  std::size_t empty_cells = 0;
  double filled = 0;       ///< the mean share of the cap that cells have; 0 without a cap
  double most_filled = 0;  ///< the largest
};

/// A step of a pipeline in a log; bars are in seconds.
struct log_page_pipeline {
  std::uint64_t step = 0;
  std::size_t ranks = 0;
  std::vector<pipeline_bar> measured = {};
  std::vector<pipeline_bar> simulated = {};  ///< or none

  /// When the last bar ends.
  [[nodiscard]] static double end_of(std::vector<pipeline_bar> const& bars)
  {
    double end = 0;
    for (pipeline_bar const& bar : bars) { end = std::max(end, bar.start + bar.duration); }
    return end;
  }
};

/// All steps of a pipeline in a log.
struct log_page_pipelines {
  std::size_t steps = 0;
  std::vector<double> ratios = {};  ///< measured to simulated, of those that were simulated
  log_page_pipeline last = {};

  void add(log_page_pipeline step)
  {
    ++steps;
    double const simulated = log_page_pipeline::end_of(step.simulated);
    if (simulated > 0) { ratios.push_back(log_page_pipeline::end_of(step.measured) / simulated); }
    last = std::move(step);
  }
};

/// Everything that the page of a log shows.
struct log_page_data {
  std::string title;
  std::vector<log_page_step> steps;
  verdict of_steps;
  prediction times;
  log_page_cells cells;  ///< of the last step of several microbatches
  std::uint64_t cells_step = 0;
  log_page_pipelines pipelines;
  verdict of_pipelines;
  std::vector<html_page::setting> settings;
};

/// Adds what was lost, why, and what to change: a row for each reason.
inline void add_verdict(html_page& page, std::string_view heading, verdict const& found)
{
  if (found.losses.empty()) { return; }
  std::string body = "<ol class=\"verdict\">\n";
  for (loss const& each : found.losses) {
    body += fmt::format("<li><b>{}</b><div>{} <strong>{}</strong></div></li>\n",
                        fmt::format("{:.1f}\u00A0%", 100 * each.share), escaped_text(each.what),
                        escaped_text(each.remedy));
  }
  page.add_section(heading,
                   "Why, and what to change; shares of the time of all GPUs, as computed from the "
                   "log.",
                   body + "</ol>\n");
}

/// Shows the last step of a pipeline, measured below simulated, and how all steps went.
inline void add_pipelines(html_page& page, log_page_pipelines const& pipelines)
{
  log_page_pipeline const& last = pipelines.last;
  std::vector<double> over = pipelines.ratios;
  std::ranges::sort(over);
  std::string note = fmt::format(
      "What every rank of the pipeline did in step {}, as measured, below what was simulated.",
      grouped_text(last.step));
  if (!over.empty()) {
    std::string const of =
        over.size() == 1 ? "It" : fmt::format("Of {} steps the median", grouped_text(over.size()));
    note += fmt::format(" {} took {} times as long as simulated.", of,
                        ratio_text(over[over.size() / 2]));
  }
  page.add_chart("Pipeline", note, [&last](chart_size const& size) {
    return pipeline_chart(last.simulated, last.measured, last.ranks, "s", 0,
                          {"Simulated", "Measured"}, size);
  });
}

/// Draws how something went over the steps, which are all on the picture: of many steps, neighbours
/// share a point, that of the most among them.
template <class SpreadOf>
[[nodiscard]] std::string steps_chart(std::vector<log_page_step> const& steps,
                                      std::string_view title, std::string_view unit,
                                      std::string_view description, SpreadOf const& spread_of,
                                      chart_size const& size = {})
{
  auto const most_of = [&](log_page_step const& step) { return spread_of(step).most; };
  double highest = 0;
  for (auto const& step : steps) { highest = std::max(highest, most_of(step)); }
  svg_drawing drawing(size.width, chart_height, description);
  plot_frame const frame{{size.left, plot_top, size.plot(), plot_height},
                         axis::linear(static_cast<double>(steps.size()), size.intervals()),
                         axis::linear(highest * 1.06, 5)};
  frame.draw_up(drawing, title, unit);
  std::size_t const points = std::min(steps.size(), static_cast<std::size_t>(size.plot()) / 2);
  std::vector<svg_drawing::point> most;
  std::vector<svg_drawing::point> mean;
  std::vector<svg_drawing::point> least;
  for (std::size_t point = 0; point < points; ++point) {
    std::size_t const first = point * steps.size() / points;
    std::size_t const past = (point + 1) * steps.size() / points;
    auto const highest_step =
        *std::max_element(steps.begin() + static_cast<std::ptrdiff_t>(first),
                          steps.begin() + static_cast<std::ptrdiff_t>(past),
                          [&](auto const& a, auto const& b) { return most_of(a) < most_of(b); });
    double const x = static_cast<double>(first) + 0.5;
    most.push_back(frame.at(x, most_of(highest_step)));
    mean.push_back(frame.at(x, spread_of(highest_step).mean));
    least.push_back(frame.at(x, spread_of(highest_step).least));
  }
  std::vector<svg_drawing::point> band = most;
  band.insert(band.end(), least.rbegin(), least.rend());
  drawing.polygon(band, "waiting", "from the GPU with least to the one with most");
  drawing.polyline(mean, "edge");
  drawing.line({size.left + 152, 14}, {size.left + 170, 14}, "edge");
  drawing.text({size.left + 176, 18}, "note", "mean");
  drawing.polyline(most, "work");
  for (auto const& at : most) {
    if (points <= 64) { drawing.circle(at, 2.5, "measured"); }
  }
  drawing.line({size.left, 14}, {size.left + 18, 14}, "work");
  drawing.text({size.left + 24, 18}, "note", "GPU with most");
  frame.draw_across(drawing, "steps, in the order of the log", "");
  return drawing.markup();
}

/// Draws measured times over planned ones, on equal axes: on the dashed line both are the same.
[[nodiscard]] inline std::string prediction_chart(prediction const& times,
                                                  chart_size const& size = {})
{
  double longest = 0;
  for (auto const& each : times.points) {
    longest = std::max({longest, each.planned, each.measured});
  }
  double const tall = size.is_narrow() ? plot_height : 320;
  svg_drawing drawing(size.width, plot_top + tall + 44,
                      "Measured times of ranks over planned ones");
  plot_frame const frame{{size.left, plot_top, size.plot(), tall},
                         axis::linear(longest * 1.06, size.intervals()),
                         axis::linear(longest * 1.06, 5)};
  frame.draw_up(drawing, "measured time of a rank", "s");
  drawing.line(frame.at(0, 0), frame.at(longest * 1.06, longest * 1.06), "mean");
  for (auto const& each : times.points) {
    drawing.circle(frame.at(each.planned, each.measured), 2.5, "measured",
                   fmt::format("step {}, rank {}: {} measured, {} planned", each.step, each.rank,
                               si_text(each.measured, "s"), si_text(each.planned, "s")));
  }
  drawing.line({size.left, 14}, {size.left + 18, 14}, "mean");
  drawing.text({size.left + 24, 18}, "note", "as planned");
  frame.draw_across(drawing, "planned time of a rank", "s");
  return drawing.markup();
}

/// Draws the microbatches of a step: a row for each bag, a cell for each of its slots, strong from
/// three quarters of its cap on, or of the largest load where there is no cap. Of more than 64 bags, 64 are shown.
[[nodiscard]] inline std::string cells_chart(log_page_cells const& cells,
                                             chart_size const& size = {})
{
  constexpr std::size_t most_rows = 64;
  constexpr double top = 30;
  std::size_t const rows = std::min(cells.bags, most_rows);
  double const pitch = rows <= 16 ? 24 : 14;
  double const width = size.plot() / static_cast<double>(std::max<std::size_t>(cells.slots(), 1));
  svg_drawing drawing(size.width, top + pitch * static_cast<double>(rows) + 44,
                      "How full the microbatches of a step are");
  double const most = cells.loads.empty() ? 0 : std::ranges::max(cells.loads);
  for (std::size_t row = 0; row < rows; ++row) {
    std::size_t const bag = rows < cells.bags ? row * (cells.bags - 1) / (rows - 1) : row;
    double const y = top + pitch * static_cast<double>(row);
    if (pitch > 20 || row % 4 == 0) {
      drawing.text({size.left - 8, y + pitch / 2 + 3}, "tick end", fmt::format("bag {}", bag));
    }
    for (std::size_t slot = 0; slot < cells.slots(); ++slot) {
      std::size_t const cell = slot * cells.bags + bag;
      double const load = most > 0 ? cells.loads[cell] / most : 0;
      double const share = cells.filled.empty() ? load : cells.filled[cell];
      double const x = size.left + width * static_cast<double>(slot);
      std::string const shown = fmt::format("{:.0f}", 100 * share);
      std::string tooltip = fmt::format("bag {}, microbatch {}: ", bag, slot);
      if (!cells.filled.empty()) { tooltip += percent_text(share) + " of its cap, "; }
      tooltip += percent_text(load) + " of the largest load";
      svg_drawing::box const place{x + 0.5, y + 1, std::max(width - 1, 0.5), pitch - 2};
      if (load <= 0 && share <= 0) {
        drawing.rectangle(place, "waiting", tooltip);
        continue;
      }
      bool const is_full = share >= 0.75;
      drawing.rectangle(place, is_full ? "after-ink tone-3" : "after tone-0", tooltip);
      if (width > 26 && pitch > 12) {
        drawing.text({x + width / 2, y + pitch / 2 + 3.5}, is_full ? "inside on-ink" : "inside",
                     shown);
      }
    }
  }
  drawing.text({size.left, 18}, "note",
               cells.filled.empty() ? "percent of the largest load of a cell"
                                    : "percent of the cap that a cell has");
  plot_frame const frame{{size.left, top, size.plot(), pitch * static_cast<double>(rows)},
                         axis::linear(static_cast<double>(cells.slots()),
                                      std::clamp<std::size_t>(cells.slots(), 1, size.intervals())),
                         axis::linear(1, 1)};
  frame.draw_across(drawing, "microbatch", "", 0.5);
  return drawing.markup();
}

/// How near the planned times came to the measured ones: figures, a picture and a table.
inline void add_prediction(html_page& page, prediction const& times)
{
  if (times.points.empty()) { return; }
  std::vector<html_page::figure> figures = {
      {"Median error", percent_text(times.median_error), "of planned times against measured ones"},
      {"Correlation", fmt::format("{:.3f}", times.correlation), "of both; 1 is perfect"}};
  if (times.fitted_error > 0) {
    figures.push_back({"Error of a fitted cost", percent_text(times.fitted_error),
                       "the same, of a cost by length that was fitted to this log"});
  }
  page.add_chart(
      "Planned and measured times",
      fmt::format("A point is a rank in one of {} steps. Costs have no time: they are scaled by "
                  "one factor for the whole log.",
                  grouped_text(times.steps)),
      [&times](chart_size const& size) { return prediction_chart(times, size); }, figures);
  html_table table({"Rank", "Planned", "Measured", "Median error", "As long as others"});
  for (std::size_t rank = 0; rank < times.ranks.size(); ++rank) {
    prediction::rank const& own = times.ranks[rank];
    table.add_row({grouped_text(rank), si_text(own.planned, "s"), si_text(own.measured, "s"),
                   percent_text(own.error), fmt::format("{:.2f} x", own.factor)});
  }
  page.add_section(
      "Ranks",
      "Means of the times; the last column is how long a rank takes for the same work, "
      "against the median rank.",
      table.markup());
}

/// How full the microbatches were of their cap, and the cells of the last step that has several.
inline void add_cells(html_page& page, log_page_data const& data)
{
  if (data.cells.slots() < 1) { return; }
  log_page_cells const& cells = data.cells;
  std::vector<html_page::figure> figures;
  if (cells.all_filled > 0) {
    figures.push_back(
        {"Filled", percent_text(cells.all_filled), "of the cap, mean over the microbatches"});
    figures.push_back({"Fullest", percent_text(cells.most_filled), "of the cap, any microbatch"});
  }
  figures.push_back(
      {"Dummies", percent_text(cells.all_empty), "of the microbatches have no sample"});
  std::string note = fmt::format(
      "The microbatches of step {}: a row is a bag, strong cells are at least three quarters full, "
      "and grey ones run a dummy.",
      grouped_text(data.cells_step));
  if (cells.bags > 64) {
    note += fmt::format(" Shown are 64 of {} bags.", grouped_text(cells.bags));
  }
  page.add_chart(
      "Microbatches", note, [&cells](chart_size const& size) { return cells_chart(cells, size); },
      figures);
}

/// The table of all steps, those in which GPUs waited longest first; of very many the first ones.
inline void add_steps(html_page& page, std::vector<log_page_step> steps, bool is_measured,
                      bool has_cells)
{
  constexpr std::size_t most_rows = 5000;
  std::size_t const all = steps.size();
  auto const badness = [is_measured](log_page_step const& step) {
    return is_measured ? step.measured.waiting() : step.load.waiting();
  };
  std::ranges::sort(steps, {}, [&badness](log_page_step const& step) {
    return std::pair(-badness(step), step.step);
  });
  steps.resize(std::min(all, most_rows));
  std::vector<std::string> columns = {
      "Step", "Waiting", "Samples", "Tokens", "Busiest \u00F7 mean", "Above the bound"};
  if (is_measured) { columns.emplace_back("Slowest rank"); }
  if (has_cells) { columns.insert(columns.end(), {"Microbatches", "Dummies", "Filled"}); }
  html_table table(columns);
  for (auto const& step : steps) {
    std::vector<std::string> row = {
        grouped_text(step.step),
        percent_text(badness(step)),
        grouped_text(step.samples),
        grouped_text(step.tokens),
        ratio_text(step.load.mean > 0 ? step.load.most / step.load.mean : 1),
        percent_text(step.gap, true)};
    if (is_measured) {
      row.push_back(step.measured.most > 0 ? si_text(step.measured.most, "s") : "\u2013");
    }
    if (has_cells) {
      row.push_back(grouped_text(step.microbatches));
      row.push_back(grouped_text(step.empty_cells));
      row.push_back(step.filled > 0 ? percent_text(step.filled) : "\u2013");
    }
    table.add_row(row);
  }
  std::string text = is_measured ? "Those in which ranks waited longest, as measured, come first."
                                 : "Those in which GPUs wait longest, as planned, come first.";
  if (all > most_rows) {
    text += fmt::format(" The worst {} of {}; the log has all.", grouped_text(most_rows),
                        grouped_text(all));
  }
  page.add_section("Steps", text, table.markup());
}

/// A page that shows the log of a training run.
///
/// Expects     at least one step, of plans or of a pipeline.
/// Ensures     (1) one self-contained HTML file that says first what was lost, with the sections What
///                 to change, Load per GPU, and, where there are any, Measured
///                 times, Planned and measured times, Ranks and Microbatches; Steps; What to change
///                 in the pipeline and Pipeline; Settings
///             (2) apart from the texts and the ranks, its size is bounded
[[nodiscard]] inline std::string log_page(log_page_data const& data)
{
  std::vector<log_page_step> const& steps = data.steps;
  std::string const lead = data.of_steps.sentence +
                           (steps.empty() || data.pipelines.steps == 0 ? "" : " ") +
                           data.of_pipelines.sentence;
  html_page page(data.title, lead);
  if (steps.empty()) {
    add_verdict(page, "What to change in the pipeline", data.of_pipelines);
    add_pipelines(page, data.pipelines);
    page.add_settings("Settings", "What the page was made of.", data.settings);
    return page.markup();
  }
  std::vector<log_page_step> measured;
  std::ranges::copy_if(steps, std::back_inserter(measured),
                       [](auto const& step) { return step.measured.most > 0; });
  bool const is_measured = !measured.empty();
  double ratio = 0;
  double gap = 0;
  double seconds = 0;
  double waiting = 0;
  for (auto const& step : steps) {
    auto const count = static_cast<double>(steps.size());
    ratio += (step.load.mean > 0 ? step.load.most / step.load.mean : 1) / count;
    gap = std::max(gap, step.gap);
  }
  for (auto const& step : measured) {
    auto const count = static_cast<double>(measured.size());
    seconds += step.measured.most / count;
    waiting += step.measured.waiting() / count;
  }
  std::vector<html_page::figure> figures = {
      {"Busiest \u00F7 mean GPU", ratio_text(ratio), "Planned, mean over the steps. 1 is ideal."},
      {"Above the bound", "\u2264\u00A0" + percent_text(gap, true),
       "The most of any step. No plan makes a step shorter by more than this."}};
  if (is_measured) {
    std::string const mean_text =
        measured.size() == steps.size()
            ? "Measured, mean over the steps."
            : fmt::format("Mean of the measured steps: {} of {}.", grouped_text(measured.size()),
                          grouped_text(steps.size()));
    figures.push_back({"Slowest rank", si_text(seconds, "s"), mean_text});
    figures.push_back(
        {"Time spent waiting", percent_text(waiting),
         "Measured: share of a step in which the average rank waits for the slowest."});
  }
  add_verdict(page, "What to change", data.of_steps);
  if (data.pipelines.steps > 0) {
    add_verdict(page, "What to change in the pipeline", data.of_pipelines);
  }
  page.add_figures(figures);
  auto const load_of = [](log_page_step const& step) { return step.load; };
  page.add_chart(
      "Load per GPU",
      "What the plan gave to the GPUs, in the unit of the cost model: the more the upper "
      "line leaves the mean, the longer GPUs wait.",
      [&](chart_size const& size) {
        return steps_chart(steps, "load per GPU", "", "Load per GPU over the steps", load_of, size);
      });
  if (is_measured) {
    page.add_chart("Measured times", "How long the ranks computed.", [&](chart_size const& size) {
      return steps_chart(
          measured, "time of a rank", "s", "Measured times over the steps",
          [](log_page_step const& step) { return step.measured; }, size);
    });
  }
  add_prediction(page, data.times);
  add_cells(page, data);
  add_steps(page, steps, is_measured, data.cells.slots() > 0);
  if (data.pipelines.steps > 0) { add_pipelines(page, data.pipelines); }
  page.add_settings("Settings", "What the page was made of.", data.settings);
  return page.markup();
}

}  // namespace pages
