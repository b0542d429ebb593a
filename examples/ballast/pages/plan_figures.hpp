// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "html_page.hpp"
#include "number_text.hpp"

#include <ballast/core.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/route/route_volume.hpp>

#include <fmt/format.h>

namespace pages {

/// One step, before and after balancing.
struct plan_page_step {
  std::int64_t samples = 0;
  ballast::tokens length = 0;                    ///< of all samples together
  ballast::report::balance_metrics before = {};  ///< of the GPUs with the samples as they were read
  ballast::report::balance_metrics after = {};
  double gap = 0;              ///< makespan / certified lower bound - 1
  double plan_seconds = 0;     ///< time to make the plan
  double compute_seconds = 0;  ///< of the busiest GPU after balancing; 0 where it is unknown
  std::optional<ballast::route_volume::cost> exchange =
      {};  ///< of the route; all steps have one, or none has
  std::optional<ballast::route_volume::cost> all_gather =
      {};  ///< to compare with; all steps have one, or none
};

/// The mean over the steps of a ratio, which is a member function of
/// ballast::report::balance_metrics. Empty where the ratio of some step is.
template <class Ratio>
[[nodiscard]] std::optional<double> mean_over(
    std::vector<plan_page_step> const& steps,
    ballast::report::balance_metrics plan_page_step::* when, Ratio ratio)
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

[[nodiscard]] inline std::string plan_lead(std::vector<plan_page_step> const& steps)
{
  if (steps.empty()) { return "No step was planned."; }
  auto const ratio = &ballast::report::balance_metrics::balance_ratio;
  double const before = *mean_over(steps, &plan_page_step::before, ratio);
  double const after = *mean_over(steps, &plan_page_step::after, ratio);
  std::string const text =
      "Every step computes for as long as its busiest GPU. As the data came, that GPU had " +
      ratio_text(before) + " times the mean work; with this plan it has " + ratio_text(after) +
      " times";
  double const saved = 1 - after / before;
  if (saved < 0.0005) { return text + ", so computing takes no less time."; }
  return text + ", so computing takes " + percent_text(saved) + " less time" +
         (steps.front().exchange ? ". Bytes moved says what moving the samples takes." : ".");
}

/// The numbers at the top of the page.
[[nodiscard]] inline std::vector<html_page::figure> plan_figures(
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
      change("Busiest \u00F7 mean GPU", &ballast::report::balance_metrics::balance_ratio,
             ratio_or_infinite,
             "How much longer a step computes than with perfectly even work. 1 is ideal."),
      change("Busiest \u00F7 idlest GPU", &ballast::report::balance_metrics::imbalance_ratio,
             ratio_or_infinite,
             "Workload imbalance ratio. 1 is ideal; \u221E means that a GPU has no work."),
      change("Time spent waiting", &ballast::report::balance_metrics::idle_share, percent,
             "Share of a step in which the average GPU waits for the busiest one."),
      {"Above the optimum", "\u2264\u00A0" + percent_text(gap, true),
       "Certified: with these bags, no plan makes the computing of a step shorter by more than "
       "this."},
      {"Time to plan a step", si_text(median_plan_seconds(steps), "s"),
       "Median over " + grouped_text(steps.size()) + (steps.size() == 1 ? " step." : " steps.")},
  };
}

/// The mean of counts as si_text writes it, but not finer than hundredths: nobody sends thousandths
/// of a message or byte.
[[nodiscard]] inline std::string mean_count_text(double mean, std::string_view unit)
{
  if (mean == 0 || mean >= 1) { return si_text(mean, unit); }
  return fmt::format("{:.2f}{}{}", mean, unit.empty() ? "" : "\u00A0", unit);
}

/// What exchanges cost. `computed` says what takes compute_seconds.
///
/// Expects     gpus >= 1; every step has an exchange.
[[nodiscard]] inline std::vector<html_page::figure> exchange_figures(
    std::vector<plan_page_step> const& steps, std::size_t gpus, std::string_view computed)
{
  if (steps.empty()) { return {}; }
  auto const mean = [&steps](auto value) {
    double sum = 0;
    for (plan_page_step const& step : steps) { sum += value(step); }
    return sum / static_cast<double>(steps.size());
  };
  using exchange_of = std::optional<ballast::route_volume::cost> plan_page_step::*;
  auto const mean_of = [&mean](double ballast::route_volume::cost::* figure,
                               exchange_of which = &plan_page_step::exchange) {
    return mean([=](plan_page_step const& step) { return *(step.*which).*figure; });
  };
  auto const beside_all_gather = [&](double ballast::route_volume::cost::* figure,
                                     std::string_view unit) {
    if (!steps.front().all_gather) { return std::string(); }
    return " Dispatch by all-gather, without a plan: " +
           si_text(mean_of(figure, &plan_page_step::all_gather), unit) + '.';
  };
  double most_bytes = 0;
  double most_messages = 0;
  for (plan_page_step const& step : steps) {
    most_bytes = std::max(most_bytes, step.exchange->bytes_max);
    most_messages = std::max(most_messages, step.exchange->messages_max);
  }
  double const compute = mean([](plan_page_step const& step) { return step.compute_seconds; });
  std::string time = "Predicted from the bandwidths, for one exchange." +
                     beside_all_gather(&ballast::route_volume::cost::seconds, "s");
  if (compute > 0) {
    time += " The busiest GPU computes for " + si_text(compute, "s");
    if (!computed.empty()) { (time += ": ") += computed; }
    time += '.';
  }
  return {
      {"Bytes that a GPU sends",
       mean_count_text(mean_of(&ballast::route_volume::cost::bytes_mean), "B"),
       "Mean. No GPU sends or receives more than " + si_text(most_bytes, "B") + " in a step." +
           beside_all_gather(&ballast::route_volume::cost::bytes_mean, "B")},
      {"Tokens that stay", percent_text(mean_of(&ballast::route_volume::cost::kept_share)),
       "Share of the tokens that are computed by the GPU that read them. Plans even out work and "
       "leave this to chance: about " +
           percent_text(1 / static_cast<double>(gpus)) + " with " + grouped_text(gpus) +
           (gpus == 1 ? " GPU." : " GPUs.")},
      {"Messages that a GPU sends",
       mean_count_text(mean_of(&ballast::route_volume::cost::messages_mean), ""),
       "Mean. No GPU sends or receives more than " + si_text(most_messages, "") + " in a step."},
      {"Time of the exchange", si_text(mean_of(&ballast::route_volume::cost::seconds), "s"), time},
  };
}

[[nodiscard]] inline std::string step_table(std::vector<plan_page_step> const& steps,
                                            std::size_t rows)
{
  std::vector<std::string> columns = {
      "Step",    "Samples",       "Tokens",   "Busiest \u00F7 mean", "Busiest \u00F7 idlest",
      "Waiting", "Above optimum", "Plan time"};
  bool const with_exchange = !steps.empty() && steps.front().exchange.has_value();
  if (with_exchange) { columns.emplace_back("Exchange"); }
  auto const change = [](std::string const& before, std::string const& after) {
    return before + " \u2192 " + after;
  };
  html_table table(columns);
  for (std::size_t index = 0; index < std::min(rows, steps.size()); ++index) {
    plan_page_step const& step = steps[index];
    std::vector<std::string> cells = {
        grouped_text(index + 1),
        grouped_text(step.samples),
        grouped_text(step.length),
        change(ratio_text(step.before.balance_ratio()), ratio_text(step.after.balance_ratio())),
        change(ratio_or_infinite(step.before.imbalance_ratio()),
               ratio_or_infinite(step.after.imbalance_ratio())),
        change(percent_text(step.before.idle_share()), percent_text(step.after.idle_share())),
        "\u2264\u00A0" + percent_text(step.gap, true),
        si_text(step.plan_seconds, "s")};
    if (with_exchange) { cells.push_back(si_text(step.exchange->seconds, "s")); }
    table.add_row(cells);
  }
  return table.markup();
}

}  // namespace pages
