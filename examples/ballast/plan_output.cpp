// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"
#include "output_files.hpp"
#include "pages/chart_style.hpp"
#include "pages/html_page.hpp"
#include "pages/judged_bags.hpp"
#include "pages/load_chart.hpp"
#include "pages/number_text.hpp"
#include "pages/plan_figures.hpp"
#include "pages/plan_page.hpp"
#include "pages/step_bars.hpp"
#include "plan_command.hpp"
#include "plan_lines.hpp"

#include <ballast/core.hpp>
#include <ballast/report/chrome_trace.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>

namespace cli {
namespace {

namespace report = ballast::report;
using ballast::to_index;
using ballast::tokens;

/// Over the steps of one layout: means, except where the name says otherwise.
struct summary {
  std::optional<double> wir_before;  ///< empty where some step has a GPU without work
  std::optional<double> wir_after;
  double balance_ratio_before = 0;
  double balance_ratio_after = 0;
  double idle_before = 0;
  double idle_after = 0;
  double gap_mean = 0;
  double gap_max = 0;
  double moved_share = 0;
  double plan_seconds_median = 0;
};

summary summarise(planned const& layout)
{
  auto const& steps = layout.steps;
  auto const mean_of = [&steps](auto value) {
    double sum = 0;
    for (pages::plan_page_step const& step : steps) { sum += value(step); }
    return sum / static_cast<double>(steps.size());
  };
  auto const mean_wir = [&](report::balance_metrics pages::plan_page_step::* when) {
    bool const finite = std::ranges::all_of(
        steps, [when](auto const& step) { return (step.*when).imbalance_ratio().has_value(); });
    auto const wir = [when](auto const& step) { return (step.*when).imbalance_ratio().value(); };
    return finite ? std::optional(mean_of(wir)) : std::nullopt;
  };
  summary all;
  all.wir_before = mean_wir(&pages::plan_page_step::before);
  all.wir_after = mean_wir(&pages::plan_page_step::after);
  all.balance_ratio_before = mean_of([](auto const& step) { return step.before.balance_ratio(); });
  all.balance_ratio_after = mean_of([](auto const& step) { return step.after.balance_ratio(); });
  all.idle_before = mean_of([](auto const& step) { return step.before.idle_share(); });
  all.idle_after = mean_of([](auto const& step) { return step.after.idle_share(); });
  all.gap_mean = mean_of([](auto const& step) { return step.gap; });
  all.gap_max = std::ranges::max(steps, {}, &pages::plan_page_step::gap).gap;
  all.moved_share = std::accumulate(layout.moved_shares.begin(), layout.moved_shares.end(), 0.0) /
                    static_cast<double>(steps.size());
  std::vector<double> seconds;
  for (pages::plan_page_step const& step : steps) { seconds.push_back(step.plan_seconds); }
  std::ranges::sort(seconds);
  all.plan_seconds_median = (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
  return all;
}

/// Over the steps of one layout.
pipeline_figures mean_of(std::vector<pipeline_figures> const& steps)
{
  pipeline_figures mean;
  for (auto const figure : {&pipeline_figures::makespan_given, &pipeline_figures::makespan,
                            &pipeline_figures::lower_bound, &pipeline_figures::idle_share_given,
                            &pipeline_figures::idle_share, &pipeline_figures::order_seconds}) {
    for (pipeline_figures const& step : steps) {
      mean.*figure += step.*figure / static_cast<double>(steps.size());
    }
  }
  return mean;
}

void add_pipelines(nlohmann::ordered_json& json, plan_run const& run, planned const& layout)
{
  pipeline_figures const mean = mean_of(layout.pipelines);
  json["pipeline_stages"] = run.pipelines->stages();
  json["pipeline_ranks"] = run.pipelines->ranks();
  json["pipeline_schedule"] = run.options.ordering.schedule;
  json["pipeline_order"] = run.options.ordering.order;
  json["pipeline_makespan_given"] = mean.makespan_given;
  json["pipeline_makespan"] = mean.makespan;
  json["pipeline_lower_bound"] = mean.lower_bound;
  json["pipeline_idle_share_given"] = mean.idle_share_given;
  json["pipeline_idle_share"] = mean.idle_share;
  json["pipeline_millis"] = mean.order_seconds * 1e3;
}

nlohmann::ordered_json to_json(plan_run const& run, planned const& layout)
{
  summary const mean = summarise(layout);
  auto const number = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  nlohmann::ordered_json json = settings_json(run.job, layout.bags, layout.steps.front().samples);
  json["wir_before"] = number(mean.wir_before);
  json["wir_after"] = number(mean.wir_after);
  json["balance_ratio_before"] = mean.balance_ratio_before;
  json["balance_ratio_after"] = mean.balance_ratio_after;
  json["idle_share_before"] = mean.idle_before;
  json["idle_share_after"] = mean.idle_after;
  json["gap_mean"] = mean.gap_mean;
  json["gap_max"] = mean.gap_max;
  json["moved_share"] = mean.moved_share;
  json["plan_ms_median"] = mean.plan_seconds_median * 1e3;
  if (run.job.admits_short_samples()) { json["short_samples"] = layout.short_samples; }
  if (run.pipelines) { add_pipelines(json, run, layout); }
  for (pages::judged_bags const& each : layout.judged) {
    json["judged_bags"].push_back({{"bags", each.bags},
                                   {"fitted_ms", each.fitted_seconds * 1e3},
                                   {"scored_ms", each.scored_seconds * 1e3}});
  }
  json["digest"] = layout.digest.value();
  if (run.job.fit) { json["fit"] = fit_json(run.job); }
  json["owners"] = owners_json(layout.owners, run.job.ids);
  return json;
}

/// One block character per GPU, its height the work; of many GPUs every k-th.
std::string sparkline(std::vector<double> const& work, double highest)
{
  constexpr std::array<std::string_view, 9> blocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::size_t width = 64;
  std::string line;
  std::size_t const stride = (work.size() + width - 1) / width;
  for (std::size_t gpu = 0; gpu < work.size(); gpu += stride) {
    double const share = highest == 0 ? 0 : work[gpu] / highest;
    line += blocks[static_cast<std::size_t>(std::ceil(std::min(share, 1.0) * 8))];
  }
  return line;
}

std::string ratio_text(std::optional<double> ratio)
{
  return ratio ? fmt::format("{:.2f}", *ratio) : "inf";
}

std::string pipeline_table_of(plan_run const& run)
{
  ordering_options const& options = run.options.ordering;
  std::string out = fmt::format(
      "\npipelines of {} on {}, schedule {}, order {}\n\n{:<14}{:>32}{:>20}{:>12}\n",
      count_of(run.pipelines->stages(), "stage"), count_of(run.pipelines->ranks(), "rank"),
      options.schedule, options.order, "", "step of the slowest bag", "idle", "ordering");
  out += fmt::format("{:<14}{:>10}{:>11}{:>11}{:>10}{:>10}{:>12}\n", "bags", "given", "ordered",
                     "at least", "given", "ordered", "mean");
  for (planned const& layout : run.layouts) {
    pipeline_figures const mean = mean_of(layout.pipelines);
    out += fmt::format("{:<14}{:>10}{:>11}{:>11}{:>8.1f} %{:>8.1f} %{:>12}\n", layout.bags,
                       duration_text(mean.makespan_given), duration_text(mean.makespan),
                       duration_text(mean.lower_bound), 100 * mean.idle_share_given,
                       100 * mean.idle_share, duration_text(mean.order_seconds));
  }
  return out;
}

/// What a layout was chosen before: the next ones, and those of one size.
std::string judged_table(planned const& layout)
{
  std::string out = fmt::format("\n{:<26}{:>20}{:>10}{:>20}\n", "bags chosen before others",
                                "step, other batches", "longer", "batches chosen from");
  for (pages::judged_bags const& each : layout.judged) {
    double const least = layout.judged.front().scored_seconds;
    out +=
        fmt::format("{:<26}{:>20}{:>8.2f} %{:>20}\n", each.bags, duration_text(each.scored_seconds),
                    least > 0 ? 100 * (each.scored_seconds / least - 1) : 0.0,
                    duration_text(each.fitted_seconds));
  }
  return out;
}

std::string table_of(plan_run const& run)
{
  auto const& first = run.layouts.front();
  std::string out = heading_of(run.job, first.steps.front().samples);
  out += fmt::format("\n{0:<14}{1:>16}{2:>16}{3:>16}{4:>8}{5:>8}{6:>10}\n", "", "max / min",
                     "max / mean", "idle", "gap", "tokens", "planning");
  out += fmt::format("{0:<14}{1:>8}{2:>8}{1:>8}{2:>8}{1:>8}{2:>8}{3:>8}{4:>8}{5:>10}\n", "bags",
                     "before", "after", "at most", "moved", "median");
  for (planned const& layout : run.layouts) {
    summary const mean = summarise(layout);
    out += fmt::format(
        "{:<14}{:>8}{:>8}{:>8.3f}{:>8.3f}{:>6.1f} %{:>6.1f} %{:>6.1f} %{:>6.1f} %{:>10}\n",
        layout.bags, ratio_text(mean.wir_before), ratio_text(mean.wir_after),
        mean.balance_ratio_before, mean.balance_ratio_after, 100 * mean.idle_before,
        100 * mean.idle_after, 100 * mean.gap_max, 100 * mean.moved_share,
        duration_text(mean.plan_seconds_median));
  }
  if (run.job.admits_short_samples()) {
    out += "\n";
    for (planned const& layout : run.layouts) {
      out += short_samples_text(layout.bags, layout.short_samples, layout.samples) + "\n";
    }
  }
  for (planned const& layout : run.layouts) {
    if (!layout.judged.empty()) { out += judged_table(layout); }
  }
  if (run.pipelines) { out += pipeline_table_of(run); }
  if (prints_picture(run.options)) {
    auto const before = pages::work_per_gpu(first.first_before, run.job.gpus());
    double const highest = std::ranges::max(before);
    out += fmt::format("\nwork per GPU in the first step\n{:<14}  {}\n", "before",
                       sparkline(before, highest));
    for (planned const& layout : run.layouts) {
      out +=
          fmt::format("{:<14}  {}\n", layout.bags,
                      sparkline(pages::work_per_gpu(layout.first_after, run.job.gpus()), highest));
    }
  }
  return out + "\n";
}

std::vector<pages::html_page::setting> settings_of(plan_run const& run)
{
  job const& work = run.job;
  job_options const& options = work.options;
  auto const grouped = [](std::size_t count) {
    return pages::grouped_text(static_cast<std::int64_t>(count));
  };
  planned const& layout = run.layouts.front();
  std::vector<pages::html_page::setting> settings = {
      {"Samples",
       work.trace.empty()
           ? "data codes " + options.codes
           : fmt::format("{} ({}), {} rows, {} per step{}", work.source, options.length,
                         grouped(work.trace.size()),
                         pages::grouped_text(layout.steps.front().samples), short_step_text(work))},
      {"GPUs", fmt::format("{} in {}", grouped(work.gpus()), machines_text(work))},
      {"Bags", layout.bags + (layout.judged.empty() ? "" : ", chosen") +
                   (options.largest_bags_first ? ", largest first where they do not fit" : "")},
      {"Policy", policy_text(options)},
      {"Cost model", options.cost},
      {"Time",
       work.fit ? "measured, " + file_name_of(options.measured)
       : work.times_known
           ? fmt::format("predicted at {} TFLOP/s {}", options.tflops,
                         work.machines.gpu_speeds.empty() ? "per GPU" : "on the fastest GPU")
           : "unknown; pictures show a microsecond per token"},
      {"Steps", fmt::format("{}, seed {}", grouped(layout.steps.size()), options.seed)}};
  if (work.admits_short_samples()) {
    settings.push_back(
        {"Short samples", short_samples_text(layout.bags, layout.short_samples, layout.samples)});
  }
  if (!layout.first_moved.ranks.empty()) {
    settings.push_back({"Array moved", array_text(work)});
    settings.push_back({"Network", network_text(work.machines)});
  }
  if (work.fit) {
    settings.push_back(
        {"Fit", fmt::format("{}, R² {:.5f}, error {:.2f} %, {:.2f} % at most{}", fit_text(work),
                            work.fit->r_squared, 100 * work.fit->median_relative_error,
                            100 * work.fit->largest_relative_error, misfits_text(work))});
  }
  return settings;
}

/// What the means of the pictures of the first step weigh GPUs by.
pages::chart_speeds speeds_of(plan_run const& run)
{
  pages::chart_speeds speeds{run.job.machines.gpu_speeds};
  ballast::bag_layout const& bags = run.layouts.front().layout;
  for (std::uint32_t gpu = 0; gpu < speeds.before.size(); ++gpu) {
    std::size_t const bag = to_index(bags.bag_of(ballast::rank_id{gpu}));
    speeds.after.push_back(bags.speeds()[bag] / bags.sizes()[bag]);
  }
  return speeds;
}

pages::plan_page_data page_of(plan_run const& run)
{
  planned const& layout = run.layouts.front();
  pages::plan_page_data page;
  page.title = fmt::format("{} on {} in bags {}", run.job.source, count_of(run.job.gpus(), "GPU"),
                           layout.bags);
  page.unit = "s";
  page.settings = settings_of(run);
  page.steps = layout.steps;
  page.gpus = run.job.gpus();
  page.timeline_before = layout.first_before;
  page.timeline_after = layout.first_after;
  page.speeds = speeds_of(run);
  page.moved = layout.first_moved;
  page.moved_before = layout.first_moved_before;
  page.bytes_per_token = run.job.bytes_per_token;
  page.computed = run.job.compute;
  page.judged = layout.judged;
  // The model prices what a sample costs beside others; a call of its own is launched as well.
  for (auto const& each : run.job.measured) {
    page.measured_costs.push_back(
        {each.length, std::max(0.0, each.seconds - run.job.fit->seconds_per_call)});
  }
  if (run.lengths.empty()) { return page; }

  std::vector<tokens> lengths = run.lengths;
  std::ranges::sort(lengths);
  page.lengths = ballast::length_histogram(lengths).bins(48);
  auto next = lengths.begin();
  for (auto const& bin : page.lengths) {
    double& work = page.length_work.emplace_back(0.0);
    for (; next != lengths.end() && *next <= bin.longest; ++next) {
      work += static_cast<double>(run.job.cost(*next)) * run.job.seconds_per_unit;
    }
  }
  constexpr int points = 64;
  double const scale =
      run.job.seconds_per_unit / std::ldexp(1.0, static_cast<int>(run.job.cost.fraction_bits));
  for (int point = 0; point <= points; ++point) {
    auto const length = lengths.back() * point / points;
    auto const l = static_cast<double>(length);
    if (!page.cost_model.empty() && page.cost_model.back().length == length) { continue; }
    page.cost_model.push_back({length, static_cast<double>(run.job.cost.linear) * l * scale,
                               static_cast<double>(run.job.cost.quadratic) * l * l * scale});
  }
  for (auto const& [length, name] :
       {std::pair{lengths.front(), "shortest"}, std::pair{lengths[lengths.size() / 2], "median"},
        std::pair{lengths.back(), "longest"}}) {
    if (page.length_marks.empty() || page.length_marks.back().length < length) {
      page.length_marks.push_back({length, name});
    }
  }
  return page;
}

/// One track per GPU; on it every step, and within the step its samples one after the other.
ballast::result<std::string> timeline_of(plan_run const& run)
{
  planned const& layout = run.layouts.front();
  report::chrome_trace trace;
  trace.name_process(0, fmt::format("{} in bags {}", run.job.source, layout.bags));
  for (std::uint32_t gpu = 0; gpu < run.job.gpus(); ++gpu) {
    auto const bag = layout.layout.bag_of(ballast::rank_id{gpu});
    trace.name_track({0, gpu}, fmt::format("GPU {} (bag {})", gpu, to_index(bag)));
  }
  double now = 0;  // seconds; ends are rounded, not durations, so that what touches still does
  auto const nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
  for (std::size_t step = 0; step < layout.timeline.size(); ++step) {
    std::vector<double> busy_until(run.job.gpus(), 0.0);
    std::vector<std::int64_t> samples(run.job.gpus(), 0);
    for (pages::gantt_bar const& bar : layout.timeline[step]) {
      busy_until[to_index(bar.gpu)] = bar.start + bar.duration;
      ++samples[to_index(bar.gpu)];
    }
    double const last = std::ranges::max(busy_until);
    if (now + last > 9e9) {
      return ballast::fail(ballast::error_code::out_of_range, step,
                           "the steps last longer than a timeline can hold, 285 years; raise "
                           "--tflops or use fewer steps");
    }
    for (std::uint32_t gpu = 0; gpu < run.job.gpus(); ++gpu) {
      auto const start = nanoseconds(now);
      trace.add({{0, gpu},
                 fmt::format("step {}", step + 1),
                 "step",
                 start,
                 nanoseconds(now + busy_until[gpu]) - start},
                {{"samples", samples[gpu]}});
    }
    for (pages::gantt_bar const& bar : layout.timeline[step]) {
      auto const start = nanoseconds(now + bar.start);
      auto const end = nanoseconds(now + (bar.start + bar.duration));
      trace.add(
          {{0, static_cast<std::uint32_t>(bar.gpu)}, bar.label, "sample", start, end - start});
    }
    now += last;
  }
  return trace.json();
}

}  // namespace

outcome<void> show_plan(plan_run const& run)
{
  planned const& first = run.layouts.front();
  output_files files;
  files.add_plan(run.options.plan,
                 fmt::format("{}{}\n{}", plan_columns, run.job.ids.column(), first.plan_lines),
                 run.job.ids.are_numbers);
  if (!run.options.picture.empty()) {
    files.add("picture", run.options.picture,
              pages::standalone_svg(pages::load_chart(
                  pages::work_per_gpu(first.first_before, run.job.gpus()),
                  pages::work_per_gpu(first.first_after, run.job.gpus()), "s", speeds_of(run))));
  }
  if (!run.options.report.empty()) {
    files.add("page", run.options.report, pages::plan_page(page_of(run)));
  }
  if (!run.options.timeline.empty()) {
    auto timeline = timeline_of(run);
    if (!timeline) { return bad_data(timeline.error().message); }
    files.add("timeline", run.options.timeline, std::move(*timeline));
    if (first.steps.size() > most_timeline_steps) {
      files.add_note(fmt::format("(the first {} steps)", most_timeline_steps));
    }
  }
  if (auto const done = files.write(); !done) { return done; }

  if (run.options.job.format != "json") { return files.print_table(table_of(run)); }
  nlohmann::ordered_json json;
  for (planned const& layout : run.layouts) { json.push_back(to_json(run, layout)); }
  return print_json(json);
}

}  // namespace cli
