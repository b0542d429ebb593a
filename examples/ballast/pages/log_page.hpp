// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "html_page.hpp"
#include "number_text.hpp"
#include "pipeline_chart.hpp"
#include "plot_frame.hpp"
#include "svg.hpp"

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

/// A step of a log.
struct log_page_step {
  std::uint64_t step = 0;
  std::size_t samples = 0;
  std::int64_t tokens = 0;
  spread load = {};      ///< per unit of speed, over bags
  double gap = 0;        ///< makespan / lower bound - 1
  spread measured = {};  ///< seconds, over ranks; 0 where nothing was measured
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
  page.add_chart(
      "Pipeline", note,
      pipeline_chart(last.simulated, last.measured, last.ranks, "s", 0, {"Simulated", "Measured"}));
}

/// Draws how something went over the steps, which are all on the picture: of many steps, neighbours
/// share a point, that of the most among them. `mean` and `least` may be left out.
template <class MostOf, class SpreadOf>
[[nodiscard]] std::string steps_chart(std::vector<log_page_step> const& steps,
                                      std::string_view title, std::string_view unit,
                                      std::string_view description, MostOf const& most_of,
                                      SpreadOf const& spread_of, bool with_spread)
{
  double highest = 0;
  for (auto const& step : steps) { highest = std::max(highest, most_of(step)); }
  svg_drawing drawing(chart_width, chart_height, description);
  plot_frame const frame{{plot_left, plot_top, plot_width, plot_height},
                         axis::linear(static_cast<double>(steps.size()), 8),
                         axis::linear(highest * 1.06, 5)};
  frame.draw_up(drawing, title, unit);
  std::size_t const points = std::min(steps.size(), static_cast<std::size_t>(plot_width) / 2);
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
  if (with_spread) {
    std::vector<svg_drawing::point> band = most;
    band.insert(band.end(), least.rbegin(), least.rend());
    drawing.polygon(band, "waiting", "from the GPU with least to the one with most");
    drawing.polyline(mean, "edge");
    drawing.line({228, 14}, {246, 14}, "edge");
    drawing.text({252, 18}, "note", "mean");
  }
  drawing.polyline(most, "work");
  for (auto const& at : most) {
    if (points <= 64) { drawing.circle(at, 2.5, "measured"); }
  }
  drawing.line({76, 14}, {94, 14}, "work");
  drawing.text({100, 18}, "note", with_spread ? "GPU with most" : "of the step");
  frame.draw_across(drawing, "steps, in the order of the log", "");
  return drawing.markup();
}

/// A page that shows the log of a training run.
///
/// Expects     at least one step, of plans or of a pipeline.
/// Ensures     (1) one self-contained HTML file with the sections Load per GPU, Above the bound,
///                 Measured times where there are any, Worst steps, of plans, Pipeline and Settings
///             (2) apart from the texts, its size is bounded
[[nodiscard]] inline std::string log_page(std::string_view title,
                                          std::vector<log_page_step> const& steps,
                                          log_page_pipelines const& pipelines,
                                          std::vector<html_page::setting> const& settings)
{
  if (steps.empty()) {
    html_page page(title,
                   fmt::format("{} step{} of a pipeline, as the trainer wrote them down.",
                               grouped_text(pipelines.steps), pipelines.steps == 1 ? "" : "s"));
    add_pipelines(page, pipelines);
    page.add_settings("Settings", "What the page was made of.", settings);
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
  html_page page(title, fmt::format("{} step{}, as the trainer wrote them down.",
                                    grouped_text(steps.size()), steps.size() == 1 ? "" : "s"));
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
  page.add_figures(figures);
  auto const load_of = [](log_page_step const& step) { return step.load; };
  page.add_chart(
      "Load per GPU",
      "What the plan gave to the GPUs, in the unit of the cost model: the more the upper "
      "line leaves the mean, the longer GPUs wait.",
      steps_chart(
          steps, "load per GPU", "", "Load per GPU over the steps",
          [](log_page_step const& step) { return step.load.most; }, load_of, true));
  auto const gap_of = [](log_page_step const& step) { return 100 * step.gap; };
  page.add_chart("Above the bound",
                 "How far the plan of a step is above its certified bound, in percent.",
                 steps_chart(steps, "above the bound", "%", "Gap to the bound over the steps",
                             gap_of, load_of, false));
  if (is_measured) {
    page.add_chart("Measured times", "How long the ranks computed.",
                   steps_chart(
                       measured, "time of a rank", "s", "Measured times over the steps",
                       [](log_page_step const& step) { return step.measured.most; },
                       [](log_page_step const& step) { return step.measured; }, true));
  }
  auto const badness = [is_measured](log_page_step const& step) {
    return is_measured ? step.measured.waiting() : step.load.waiting();
  };
  std::vector<log_page_step> worst = is_measured ? measured : steps;
  std::ranges::sort(worst, {}, [&badness](log_page_step const& step) {
    return std::pair(-badness(step), step.step);
  });
  worst.resize(std::min<std::size_t>(worst.size(), 20));
  html_table table({"Step", "Samples", "Tokens", "Busiest \u00F7 mean", "Above the bound",
                    "Slowest rank", "Waiting"});
  for (auto const& step : worst) {
    table.add_row({grouped_text(step.step), grouped_text(step.samples), grouped_text(step.tokens),
                   ratio_text(step.load.mean > 0 ? step.load.most / step.load.mean : 1),
                   percent_text(step.gap, true), si_text(step.measured.most, "s"),
                   percent_text(badness(step))});
  }
  page.add_section("Worst steps",
                   is_measured ? "Those in which ranks waited longest, as measured."
                               : "Those in which GPUs wait longest, as planned.",
                   table.markup());
  if (pipelines.steps > 0) { add_pipelines(page, pipelines); }
  page.add_settings("Settings", "What the page was made of.", settings);
  return page.markup();
}

}  // namespace pages
