// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_PLAN_PAGE_HPP
#define BALLAST_REPORT_PLAN_PAGE_HPP

#include <ballast/core/units.hpp>
#include <ballast/report/cost_chart.hpp>
#include <ballast/report/gantt_chart.hpp>
#include <ballast/report/histogram_chart.hpp>
#include <ballast/report/html_page.hpp>
#include <ballast/report/html_table.hpp>
#include <ballast/report/load_chart.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/step_bars.hpp>
#include <ballast/workload/length_histogram.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

/// How one step came out.
struct plan_page_step {
  std::int64_t samples = 0;
  tokens length = 0;       ///< of all samples together
  balance_metrics before;  ///< of the GPUs as the data came
  balance_metrics after;
  double gap = 0;           ///< makespan / certified lower bound - 1
  double plan_seconds = 0;  ///< time to make the plan
};

/// Everything the page of a plan shows. Pictures show the first step; numbers are over all steps.
/// What is left empty is shown as empty.
struct plan_page_data {
  std::string title;                         ///< "nextqa_video on 32 GPUs"
  std::vector<html_page::setting> settings;  ///< what was planned: trace, bags, cost, policy, seed
  std::vector<plan_page_step> steps;
  std::string unit;                 ///< of all work and time: "s", "FLOP", or none
  std::vector<length_bin> lengths;  ///< over all steps
  std::vector<double> length_work;  ///< of each bin; empty where it is unknown
  std::vector<cost_point> cost_model;
  std::vector<measured_cost> measured_costs;
  std::vector<length_mark> length_marks;
  std::size_t gpus = 0;
  std::vector<gantt_bar> timeline_before;  ///< what each GPU does; its sum is the work per GPU
  std::vector<gantt_bar> timeline_after;
};

namespace detail {

/// The mean over the steps of a member function of balance_metrics; none as soon as a step has none.
template <class Ratio>
[[nodiscard]] std::optional<double> mean_over(std::vector<plan_page_step> const& steps,
                                              balance_metrics plan_page_step::* when, Ratio ratio)
{
  double sum = 0;
  for (plan_page_step const& step : steps) {
    std::optional<double> const value = ((step.*when).*ratio)();
    if (!value) { return std::nullopt; }
    sum += *value;
  }
  return sum / static_cast<double>(steps.size());
}

[[nodiscard]] inline double median_plan_seconds(std::vector<plan_page_step> const& steps)
{
  std::vector<double> seconds;
  seconds.reserve(steps.size());
  for (plan_page_step const& step : steps) { seconds.push_back(step.plan_seconds); }
  std::ranges::sort(seconds);
  std::size_t const half = seconds.size() / 2;
  return seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
}

[[nodiscard]] inline std::string ratio_or_infinite(std::optional<double> ratio)
{
  return ratio ? ratio_text(*ratio) : "\u221E";
}

/// Percent, with about two digits that matter. `up` rounds a bound upwards, so that it stays one.
[[nodiscard]] inline std::string percent_text(double share, bool up = false)
{
  double const percent = 100 * share;
  int const decimals = percent >= 10 || percent == 0 ? 0
                       : percent >= 1                ? 1
                       : percent >= 0.1              ? 2
                                                     : 3;
  double const scale = std::pow(10.0, decimals);
  return decimal_text(up ? std::ceil(percent * scale) / scale : percent, decimals) + "\u00A0%";
}

[[nodiscard]] inline std::string lead_of(std::vector<plan_page_step> const& steps)
{
  if (steps.empty()) { return "No step was planned."; }
  auto const ratio = &balance_metrics::balance_ratio;
  double const before = *mean_over(steps, &plan_page_step::before, ratio);
  double const after = *mean_over(steps, &plan_page_step::after, ratio);
  std::string const text =
      "Every step lasts as long as its busiest GPU. As the data came, that GPU had " +
      ratio_text(before) + " times the mean work; with this plan it has " + ratio_text(after) +
      " times";
  double const saved = 1 - after / before;
  if (saved < 0.0005) { return text + ", so steps are no shorter."; }
  return text + ", so a step takes " + percent_text(saved) + " less time.";
}

/// The numbers to see first.
[[nodiscard]] inline std::vector<html_page::figure> figures_of(
    std::vector<plan_page_step> const& steps)
{
  if (steps.empty()) { return {}; }
  auto const change = [&steps](std::string_view name, auto ratio, auto text,
                               std::string_view hint) {
    return html_page::figure{
        std::string(name), text(mean_over(steps, &plan_page_step::after, ratio)), std::string(hint),
        text(mean_over(steps, &plan_page_step::before, ratio))};
  };
  auto const percent = [](std::optional<double> share) { return percent_text(*share); };
  double gap = 0;
  for (plan_page_step const& step : steps) { gap = std::max(gap, step.gap); }
  return {
      change("Busiest \u00F7 mean GPU", &balance_metrics::balance_ratio, ratio_or_infinite,
             "How much longer a step takes than with perfectly even work. 1 is ideal."),
      change("Busiest \u00F7 idlest GPU", &balance_metrics::imbalance_ratio, ratio_or_infinite,
             "Workload imbalance ratio. 1 is ideal; \u221E means that a GPU has no work."),
      change("Time spent waiting", &balance_metrics::idle_share, percent,
             "Share of a step in which the average GPU waits for the busiest one."),
      {"Above the optimum", "\u2264\u00A0" + percent_text(gap, true),
       "Certified: no plan for these bags makes any step shorter by more than this."},
      {"Time to plan a step", si_text(median_plan_seconds(steps), "s"),
       "Median over " + grouped_text(static_cast<std::int64_t>(steps.size())) +
           (steps.size() == 1 ? " step." : " steps.")},
  };
}

[[nodiscard]] inline std::string step_table(std::vector<plan_page_step> const& steps,
                                            std::size_t rows)
{
  constexpr std::array<std::string_view, 8> columns = {
      "Step",    "Samples",       "Tokens",   "Busiest \u00F7 mean", "Busiest \u00F7 idlest",
      "Waiting", "Above optimum", "Plan time"};
  auto const change = [](std::string const& before, std::string const& after) {
    return before + " \u2192 " + after;
  };
  html_table table(columns);
  for (std::size_t index = 0; index < std::min(rows, steps.size()); ++index) {
    plan_page_step const& step = steps[index];
    table.add_row(std::array<std::string, 8>{
        grouped_text(static_cast<std::int64_t>(index + 1)), grouped_text(step.samples),
        grouped_text(step.length),
        change(ratio_text(step.before.balance_ratio()), ratio_text(step.after.balance_ratio())),
        change(ratio_or_infinite(step.before.imbalance_ratio()),
               ratio_or_infinite(step.after.imbalance_ratio())),
        change(percent_text(step.before.idle_share()), percent_text(step.after.idle_share())),
        "\u2264\u00A0" + percent_text(step.gap, true), si_text(step.plan_seconds, "s")});
  }
  return table.markup();
}

}  // namespace detail

/// A page that shows what a plan did: how uneven the work was, how even it is, and why.
///
/// Expects     numbers are finite and not negative; what each chart expects of its part.
/// Ensures     (1) one self-contained HTML file with the sections Work per GPU, Step timeline,
///                 Sample lengths, Cost of a sample, Steps and Settings
///             (2) equal data give equal bytes
/// Complexity  O(n log n) in the size of the data; above 128 GPUs, 64 rows, or 100 steps the page
///             does not grow with them.
[[nodiscard]] inline std::string plan_page(plan_page_data const& data)
{
  constexpr std::size_t most_step_rows = 100;

  html_page page(data.title, detail::lead_of(data.steps));
  page.add_figures(detail::figures_of(data.steps));
  page.add_chart("Work per GPU",
                 "The first step. It is over when the tallest bar is; what the other bars lack is "
                 "waiting.",
                 load_chart(work_per_gpu(data.timeline_before, data.gpus),
                            work_per_gpu(data.timeline_after, data.gpus), data.unit));
  std::string timeline =
      "The first step again, over time. Each row is a GPU, each bar a sample (stronger colour: "
      "longer), and grey is a GPU that waits.";
  if (data.gpus > 64) {
    timeline += " Shown are 64 of " + grouped_text(static_cast<std::int64_t>(data.gpus)) +
                " GPUs, from the last to finish to the first.";
  }
  page.add_chart("Step timeline", timeline,
                 gantt_chart(data.timeline_before, data.timeline_after, data.gpus, data.unit));
  page.add_chart("Sample lengths",
                 "Bars count samples, the line counts their work. Where the line rises above the "
                 "bars, few samples cause much of the work. The length axis is logarithmic.",
                 histogram_chart(data.lengths, data.length_work));
  page.add_chart("Cost of a sample",
                 "What the plan assumes. Attention grows with the square of the length, so one "
                 "long sample costs more than many short ones with as many tokens.",
                 cost_chart(data.cost_model, data.measured_costs, data.length_marks, data.unit));

  std::string steps = "Each step before and after balancing; ratios are of work per GPU.";
  if (data.steps.size() > most_step_rows) {
    steps += " The first 100 of " + grouped_text(static_cast<std::int64_t>(data.steps.size())) +
             " steps.";
  }
  page.add_section("Steps", steps, detail::step_table(data.steps, most_step_rows));
  page.add_settings("Settings", "What was planned; the same settings give the same plan.",
                    data.settings);
  return page.markup();
}

}  // namespace ballast::inline v0

#endif  // BALLAST_REPORT_PLAN_PAGE_HPP
