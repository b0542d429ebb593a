// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_DETAIL_PLAN_PAGE_FIGURES_HPP
#define BALLAST_REPORT_DETAIL_PLAN_PAGE_FIGURES_HPP

#include <ballast/report/html_page.hpp>
#include <ballast/report/html_table.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/report/number_text.hpp>
#include <ballast/report/plan_page_step.hpp>
#include <ballast/route/exchange_cost.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::detail {

/// The mean over the steps of a ratio, which is a member function of balance_metrics. Empty where
/// the ratio of some step is.
template <class Ratio>
[[nodiscard]] std::optional<double> mean_over(
    std::vector<report::plan_page_step> const& steps,
    report::balance_metrics report::plan_page_step::* when, Ratio ratio)
{
  double sum = 0;
  for (report::plan_page_step const& step : steps) {
    std::optional<double> const value = ((step.*when).*ratio)();
    if (!value) { return std::nullopt; }
    sum += *value;
  }
  return sum / static_cast<double>(steps.size());
}

[[nodiscard]] inline double median_plan_seconds(std::vector<report::plan_page_step> const& steps)
{
  std::vector<double> seconds;
  seconds.reserve(steps.size());
  for (report::plan_page_step const& step : steps) { seconds.push_back(step.plan_seconds); }
  std::sort(seconds.begin(), seconds.end(), [](double a, double b) { return a < b; });
  std::size_t const half = seconds.size() / 2;
  return seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
}

[[nodiscard]] inline std::string ratio_or_infinite(std::optional<double> ratio)
{
  return ratio ? report::ratio_text(*ratio) : "\u221E";
}

[[nodiscard]] inline std::string plan_lead(std::vector<report::plan_page_step> const& steps)
{
  if (steps.empty()) { return "No step was planned."; }
  auto const ratio = &report::balance_metrics::balance_ratio;
  double const before = *mean_over(steps, &report::plan_page_step::before, ratio);
  double const after = *mean_over(steps, &report::plan_page_step::after, ratio);
  std::string const text =
      "Every step computes for as long as its busiest GPU. As the data came, that GPU had " +
      report::ratio_text(before) + " times the mean work; with this plan it has " +
      report::ratio_text(after) + " times";
  double const saved = 1 - after / before;
  if (saved < 0.0005) { return text + ", so computing takes no less time."; }
  return text + ", so computing takes " + report::percent_text(saved) + " less time" +
         (steps.front().exchange ? ". Bytes moved says what moving the samples takes." : ".");
}

/// The numbers at the top of the page.
[[nodiscard]] inline std::vector<report::html_page::figure> plan_figures(
    std::vector<report::plan_page_step> const& steps)
{
  if (steps.empty()) { return {}; }
  auto const change = [&steps](std::string_view name, auto ratio, auto text,
                               std::string_view hint) {
    return report::html_page::figure{
        std::string(name), text(mean_over(steps, &report::plan_page_step::after, ratio)),
        std::string(hint), text(mean_over(steps, &report::plan_page_step::before, ratio))};
  };
  auto const percent = [](std::optional<double> share) { return report::percent_text(*share); };
  double gap = 0;
  for (report::plan_page_step const& step : steps) { gap = std::max(gap, step.gap); }
  return {
      change("Busiest \u00F7 mean GPU", &report::balance_metrics::balance_ratio, ratio_or_infinite,
             "How much longer a step computes than with perfectly even work. 1 is ideal."),
      change("Busiest \u00F7 idlest GPU", &report::balance_metrics::imbalance_ratio,
             ratio_or_infinite,
             "Workload imbalance ratio. 1 is ideal; \u221E means that a GPU has no work."),
      change("Time spent waiting", &report::balance_metrics::idle_share, percent,
             "Share of a step in which the average GPU waits for the busiest one."),
      {"Above the optimum", "\u2264\u00A0" + report::percent_text(gap, true),
       "Certified: with these bags, no plan makes the computing of a step shorter by more than "
       "this."},
      {"Time to plan a step", report::si_text(median_plan_seconds(steps), "s"),
       "Median over " + report::grouped_text(static_cast<std::int64_t>(steps.size())) +
           (steps.size() == 1 ? " step." : " steps.")},
  };
}

/// The mean of counts as si_text writes it, but not finer than hundredths: nobody sends thousandths
/// of a message or byte.
[[nodiscard]] inline std::string mean_count_text(double mean, std::string_view unit)
{
  if (mean == 0 || mean >= 1) { return report::si_text(mean, unit); }
  std::string text = report::decimal_text(mean, 2);
  if (!unit.empty()) { (text += "\u00A0") += unit; }
  return text;
}

/// What exchanges cost. `computed` says what takes compute_seconds.
///
/// Expects     gpus >= 1; every step has an exchange.
[[nodiscard]] inline std::vector<report::html_page::figure> exchange_figures(
    std::vector<report::plan_page_step> const& steps, std::size_t gpus, std::string_view computed)
{
  if (steps.empty()) { return {}; }
  auto const mean = [&steps](auto value) {
    double sum = 0;
    for (report::plan_page_step const& step : steps) { sum += value(step); }
    return sum / static_cast<double>(steps.size());
  };
  using exchange_of = std::optional<exchange_cost> report::plan_page_step::*;
  auto const mean_of = [&mean](double exchange_cost::* figure,
                               exchange_of which = &report::plan_page_step::exchange) {
    return mean([=](report::plan_page_step const& step) { return *(step.*which).*figure; });
  };
  auto const beside_all_gather = [&](double exchange_cost::* figure, std::string_view unit) {
    if (!steps.front().all_gather) { return std::string(); }
    return " Dispatch by all-gather, without a plan: " +
           report::si_text(mean_of(figure, &report::plan_page_step::all_gather), unit) + '.';
  };
  double most_bytes = 0;
  double most_messages = 0;
  for (report::plan_page_step const& step : steps) {
    most_bytes = std::max(most_bytes, step.exchange->bytes_max);
    most_messages = std::max(most_messages, step.exchange->messages_max);
  }
  double const compute =
      mean([](report::plan_page_step const& step) { return step.compute_seconds; });
  std::string time = "Predicted from the bandwidths, for one exchange." +
                     beside_all_gather(&exchange_cost::seconds, "s");
  if (compute > 0) {
    time += " The busiest GPU computes for " + report::si_text(compute, "s");
    if (!computed.empty()) { (time += ": ") += computed; }
    time += '.';
  }
  return {
      {"Bytes that a GPU sends", mean_count_text(mean_of(&exchange_cost::bytes_mean), "B"),
       "Mean. No GPU sends or receives more than " + report::si_text(most_bytes, "B") +
           " in a step." + beside_all_gather(&exchange_cost::bytes_mean, "B")},
      {"Tokens that stay", report::percent_text(mean_of(&exchange_cost::kept_share)),
       "Share of the tokens that are computed by the GPU that read them. Plans even out work and "
       "leave this to chance: about " +
           report::percent_text(1 / static_cast<double>(gpus)) + " with " +
           report::grouped_text(static_cast<std::int64_t>(gpus)) +
           (gpus == 1 ? " GPU." : " GPUs.")},
      {"Messages that a GPU sends", mean_count_text(mean_of(&exchange_cost::messages_mean), ""),
       "Mean. No GPU sends or receives more than " + report::si_text(most_messages, "") +
           " in a step."},
      {"Time of the exchange", report::si_text(mean_of(&exchange_cost::seconds), "s"), time},
  };
}

[[nodiscard]] inline std::string step_table(std::vector<report::plan_page_step> const& steps,
                                            std::size_t rows)
{
  std::vector<std::string_view> columns = {
      "Step",    "Samples",       "Tokens",   "Busiest \u00F7 mean", "Busiest \u00F7 idlest",
      "Waiting", "Above optimum", "Plan time"};
  bool const with_exchange = !steps.empty() && steps.front().exchange.has_value();
  if (with_exchange) { columns.emplace_back("Exchange"); }
  auto const change = [](std::string const& before, std::string const& after) {
    return before + " \u2192 " + after;
  };
  report::html_table table(columns);
  for (std::size_t index = 0; index < std::min(rows, steps.size()); ++index) {
    report::plan_page_step const& step = steps[index];
    std::vector<std::string> cells = {report::grouped_text(static_cast<std::int64_t>(index + 1)),
                                      report::grouped_text(step.samples),
                                      report::grouped_text(step.length),
                                      change(report::ratio_text(step.before.balance_ratio()),
                                             report::ratio_text(step.after.balance_ratio())),
                                      change(ratio_or_infinite(step.before.imbalance_ratio()),
                                             ratio_or_infinite(step.after.imbalance_ratio())),
                                      change(report::percent_text(step.before.idle_share()),
                                             report::percent_text(step.after.idle_share())),
                                      "\u2264\u00A0" + report::percent_text(step.gap, true),
                                      report::si_text(step.plan_seconds, "s")};
    if (with_exchange) { cells.push_back(report::si_text(step.exchange->seconds, "s")); }
    table.add_row(cells);
  }
  return table.markup();
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_REPORT_DETAIL_PLAN_PAGE_FIGURES_HPP
