// SPDX-License-Identifier: Apache-2.0
#include "plan_command.hpp"

#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {
namespace {

using ballast::to_index;
using ballast::tokens;

/// Means over the steps of one layout.
struct summary {
  double samples = 0;
  std::optional<double> wir_before = 0;  ///< none where some step has a GPU without work
  std::optional<double> wir_after = 0;
  double balance_ratio_before = 0;
  double balance_ratio_after = 0;
  double idle_before = 0;
  double idle_after = 0;
  double gap_mean = 0;
  double gap_max = 0;
  double plan_seconds_median = 0;
  std::uint64_t digest = 0;  ///< of the digests of all steps
};

summary summarise(planned const& layout)
{
  auto const& steps = layout.steps;
  auto const mean_of = [&steps](auto value) {
    double sum = 0;
    for (planned_step const& step : steps) { sum += value(step); }
    return sum / static_cast<double>(steps.size());
  };
  auto const mean_wir = [&](ballast::balance_metrics planned_step::* when) {
    bool const finite = std::ranges::all_of(
        steps, [when](auto const& step) { return (step.*when).imbalance_ratio().has_value(); });
    auto const wir = [when](auto const& step) { return (step.*when).imbalance_ratio().value(); };
    return finite ? std::optional(mean_of(wir)) : std::nullopt;
  };
  summary all;
  all.samples = mean_of([](auto const& step) { return static_cast<double>(step.samples); });
  all.wir_before = mean_wir(&planned_step::before);
  all.wir_after = mean_wir(&planned_step::after);
  all.balance_ratio_before = mean_of([](auto const& step) { return step.before.balance_ratio(); });
  all.balance_ratio_after = mean_of([](auto const& step) { return step.after.balance_ratio(); });
  all.idle_before = mean_of([](auto const& step) { return step.before.idle_share(); });
  all.idle_after = mean_of([](auto const& step) { return step.after.idle_share(); });
  all.gap_mean = mean_of([](auto const& step) { return step.gap; });
  all.gap_max = std::ranges::max(steps, {}, &planned_step::gap).gap;
  std::vector<double> seconds;
  ballast::digest digest;
  for (planned_step const& step : steps) {
    seconds.push_back(step.seconds);
    digest.add(step.digest);
  }
  std::ranges::sort(seconds);
  all.plan_seconds_median = (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
  all.digest = digest.value();
  return all;
}

nlohmann::ordered_json to_json(plan_run const& run, planned const& layout)
{
  summary const mean = summarise(layout);
  auto const number = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  nlohmann::ordered_json json = {{"source", run.source},
                                 {"bags", layout.bags},
                                 {"policy", run.options.policy},
                                 {"cost", run.options.cost},
                                 {"seed", run.options.seed},
                                 {"steps", layout.steps.size()},
                                 {"gpus", run.gpus},
                                 {"samples", mean.samples},
                                 {"wir_before", number(mean.wir_before)},
                                 {"wir_after", number(mean.wir_after)},
                                 {"balance_ratio_before", mean.balance_ratio_before},
                                 {"balance_ratio_after", mean.balance_ratio_after},
                                 {"idle_share_before", mean.idle_before},
                                 {"idle_share_after", mean.idle_after},
                                 {"gap_mean", mean.gap_mean},
                                 {"gap_max", mean.gap_max},
                                 {"plan_ms_median", mean.plan_seconds_median * 1e3},
                                 {"digest", mean.digest}};
  if (run.fit) {
    json["fit"] = {{"gamma", run.fit->gamma},
                   {"seconds_per_flop", run.fit->seconds_per_flop},
                   {"r_squared", run.fit->r_squared},
                   {"rms_relative_error", run.fit->rms_relative_error}};
  }
  return json;
}

/// One block character per GPU, its height the load; of many GPUs every k-th.
std::string sparkline(std::vector<double> const& loads, double highest)
{
  constexpr std::array<std::string_view, 9> blocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::size_t width = 64;
  std::string line;
  std::size_t const stride = (loads.size() + width - 1) / width;
  for (std::size_t gpu = 0; gpu < loads.size(); gpu += stride) {
    double const share = highest == 0 ? 0 : loads[gpu] / highest;
    line += blocks[static_cast<std::size_t>(std::ceil(share * 8))];
  }
  return line;
}

std::vector<double> seconds_before(plan_run const& run, planned const& layout)
{
  std::vector<double> loads;
  for (auto const load : layout.first_before) {
    loads.push_back(static_cast<double>(load) * run.seconds_per_unit);
  }
  return loads;
}

std::vector<double> seconds_after(plan_run const& run, planned const& layout)
{
  std::vector<double> loads(run.gpus);
  for (std::size_t gpu = 0; gpu < run.gpus; ++gpu) {
    auto const bag = layout.layout.bag_of(ballast::to_id<ballast::rank_id>(gpu));
    loads[gpu] = static_cast<double>(layout.first.loads[to_index(bag)]) * run.seconds_per_unit /
                 layout.layout[bag].gpus;
  }
  return loads;
}

std::string ratio_text(std::optional<double> ratio)
{
  return ratio ? fmt::format("{:.2f}", *ratio) : "inf";
}

std::string duration_text(double seconds)
{
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6)
                        : fmt::format("{:.2f} ms", seconds * 1e3);
}

void print_table(plan_run const& run)
{
  auto const& first = run.layouts.front();
  fmt::print("\n{}\n", run.source);
  if (run.trace_samples != 0) { fmt::print("{} samples in the trace, ", run.trace_samples); }
  fmt::print("{:.0f} samples per step, {} steps, {} GPUs\ncost {}, policy {}, seed {}\n",
             summarise(first).samples, first.steps.size(), run.gpus, run.options.cost,
             run.options.policy, run.options.seed);
  if (run.fit) {
    fmt::print("gamma {:.4f} fitted to {} measurements, R^2 {:.5f}, error {:.2f} % rms\n",
               run.fit->gamma, run.measured.size(), run.fit->r_squared,
               100 * run.fit->rms_relative_error);
  }
  fmt::print("\n{0:<16}  {1:^18}  {2:^18}  {3:^18}  {4:^16}  {5:>8}\n", "", "max / min",
             "max / mean", "idle", "gap", "planning");
  fmt::print("{0:<16}  {1:>9}{2:>9}  {1:>9}{2:>9}  {1:>9}{2:>9}  {3:>8}{4:>8}  {5:>8}\n", "bags",
             "before", "after", "mean", "max", "median");
  for (planned const& layout : run.layouts) {
    summary const mean = summarise(layout);
    fmt::print(
        "{:<16}  {:>9}{:>9}  {:>9.3f}{:>9.3f}  {:>7.1f} %{:>7.1f} %  {:>6.2f} %{:>6.2f} %  "
        "{:>8}\n",
        layout.bags, ratio_text(mean.wir_before), ratio_text(mean.wir_after),
        mean.balance_ratio_before, mean.balance_ratio_after, 100 * mean.idle_before,
        100 * mean.idle_after, 100 * mean.gap_mean, 100 * mean.gap_max,
        duration_text(mean.plan_seconds_median));
  }
  if (isatty(STDOUT_FILENO) == 1) {
    auto const before = seconds_before(run, first);
    double const highest = std::ranges::max(before);
    fmt::print("\nwork per GPU in the first step\n{:<16}  {}\n", "before",
               sparkline(before, highest));
    for (planned const& layout : run.layouts) {
      fmt::print("{:<16}  {}\n", layout.bags, sparkline(seconds_after(run, layout), highest));
    }
  }
  fmt::print("\n");
}

/// Bars of the first step: each GPU works off its samples one after the other.
std::vector<ballast::gantt_bar> bars(plan_run const& run, planned const& layout, bool balanced)
{
  auto const& batch = run.batches.front();
  std::vector<ballast::gantt_bar> result;
  std::vector<double> busy_until(run.gpus, 0.0);
  auto const add = [&](std::size_t gpu, std::size_t sample, std::uint32_t gpus) {
    double const seconds =
        static_cast<double>(layout.first.costs[sample]) * run.seconds_per_unit / gpus;
    result.push_back({ballast::to_id<ballast::rank_id>(gpu), busy_until[gpu], seconds,
                      fmt::format("sample {}, {} tokens{}", sample, batch.lengths[sample],
                                  gpus == 1 ? "" : fmt::format(" over {} GPUs", gpus))});
    busy_until[gpu] += seconds;
  };
  for (std::size_t sample = 0; sample < batch.lengths.size(); ++sample) {
    if (!balanced) {
      add(to_index(batch.source[sample]), sample, 1);
      continue;
    }
    auto const bag = layout.layout[layout.first.owner[sample]];
    for (std::size_t gpu = 0; gpu < bag.gpus; ++gpu) {
      add(to_index(bag.first) + gpu, sample, bag.gpus);
    }
  }
  return result;
}

ballast::plan_page_data page_of(plan_run const& run)
{
  planned const& layout = run.layouts.front();
  ballast::plan_page_data page;
  page.title = fmt::format("{} on {} GPUs in bags {}", run.source, run.gpus, layout.bags);
  page.unit = "s";
  page.settings = {
      {"Samples", run.trace_samples == 0 ? fmt::format("data codes {}", run.options.codes)
                                         : fmt::format("{} ({}), {} rows", run.options.trace,
                                                       run.options.length, run.trace_samples)},
      {"GPUs", fmt::format("{} in nodes of {}", run.gpus, run.options.gpus_per_node)},
      {"Bags", layout.bags},
      {"Policy", run.options.policy},
      {"Cost model", run.options.cost},
      {"Time", run.fit ? fmt::format("fitted to {}", run.options.measured)
                       : fmt::format("predicted at {} TFLOP/s per GPU", run.options.tflops)},
      {"Steps", fmt::format("{}, seed {}", layout.steps.size(), run.options.seed)}};
  if (run.fit) {
    page.settings.push_back(
        {"Fit", fmt::format("gamma {:.4f}, R² {:.5f}, error {:.2f} % rms, {:.2f} % at most",
                            run.fit->gamma, run.fit->r_squared, 100 * run.fit->rms_relative_error,
                            100 * run.fit->largest_relative_error)});
  }
  for (planned_step const& step : layout.steps) {
    page.steps.push_back({static_cast<std::int64_t>(step.samples), step.length, step.before,
                          step.after, step.gap, step.seconds});
  }
  page.load_before = seconds_before(run, layout);
  page.load_after = seconds_after(run, layout);
  page.timeline_before = bars(run, layout, false);
  page.timeline_after = bars(run, layout, true);

  std::vector<tokens> lengths;
  for (auto const& batch : run.batches) {
    lengths.insert(lengths.end(), batch.lengths.begin(), batch.lengths.end());
  }
  if (lengths.empty()) { return page; }
  std::ranges::sort(lengths);
  auto next = lengths.begin();
  for (auto const& bin : ballast::length_histogram(lengths).bins(48)) {
    double work = 0;
    for (; next != lengths.end() && *next <= bin.longest; ++next) {
      work += static_cast<double>(run.cost(*next)) * run.seconds_per_unit;
    }
    page.lengths.push_back(
        {bin.shortest, bin.longest, static_cast<std::int64_t>(bin.samples), work});
  }
  constexpr int points = 64;
  double const scale =
      run.seconds_per_unit / std::ldexp(1.0, static_cast<int>(run.cost.fraction_bits));
  for (int point = 0; point <= points; ++point) {
    auto const length = lengths.back() * point / points;
    auto const l = static_cast<double>(length);
    if (!page.cost_model.empty() && page.cost_model.back().length == length) { continue; }
    page.cost_model.push_back({length, static_cast<double>(run.cost.linear) * l * scale,
                               static_cast<double>(run.cost.quadratic) * l * l * scale});
  }
  for (auto const& each : run.measured) {
    page.measured_costs.push_back({each.length, each.seconds});
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
  auto const nanoseconds = [&](ballast::cost_units cost, std::uint32_t gpus) {
    return static_cast<std::int64_t>(static_cast<double>(cost) / gpus * run.seconds_per_unit * 1e9);
  };
  ballast::chrome_trace trace;
  trace.name_process(0, fmt::format("{} in bags {}", run.source, layout.bags));
  for (std::uint32_t gpu = 0; gpu < run.gpus; ++gpu) {
    auto const bag = layout.layout.bag_of(ballast::rank_id{gpu});
    trace.name_track({0, gpu}, fmt::format("GPU {} (bag {})", gpu, to_index(bag)));
  }
  std::int64_t step_start = 0;
  for (std::size_t step = 0; step < layout.plans.size(); ++step) {
    auto const& plan = layout.plans[step];
    std::int64_t step_end = step_start;
    for (std::uint32_t gpu = 0; gpu < run.gpus; ++gpu) {
      auto const id = layout.layout.bag_of(ballast::rank_id{gpu});
      std::uint32_t const gpus = layout.layout[id].gpus;
      std::int64_t at = step_start;
      for (auto const sample : plan.samples[id]) {
        tokens const length = run.batches[step].lengths[to_index(sample)];
        std::int64_t const duration = nanoseconds(plan.costs[to_index(sample)], gpus);
        trace.add({{0, gpu}, fmt::format("sample {}", to_index(sample)), "sample", at, duration},
                  {{"tokens", length}, {"gpus", gpus}});
        at += duration;
      }
      trace.add({{0, gpu}, fmt::format("step {}", step), "step", step_start, at - step_start},
                {{"samples", static_cast<std::int64_t>(plan.samples[id].size())}});
      step_end = std::max(step_end, at);
    }
    step_start = step_end;
  }
  return trace.json();
}

}  // namespace

outcome<void> show_plan(plan_run const& run)
{
  planned const& first = run.layouts.front();
  std::string
      written;  // said after the table, but done before: a full disk leaves no output behind
  auto const write = [&](std::string const& path, auto const& content, std::string_view what) {
    if (path.empty()) { return ballast::result<void>(); }
    written += fmt::format("{} {}\n", what, path);
    ballast::result<std::string> const text = content();
    return text ? ballast::write_file(path, *text) : tl::unexpected(text.error());
  };
  auto const picture = [&] {
    return ballast::standalone_svg(
        ballast::load_chart(seconds_before(run, first), seconds_after(run, first), "s"));
  };
  auto const done =
      write(run.options.picture, picture, "picture ")
          .and_then([&] {
            return write(
                run.options.report, [&] { return ballast::plan_page(page_of(run)); }, "page    ");
          })
          .and_then([&] {
            return write(run.options.timeline, [&] { return timeline_of(run); }, "timeline");
          });
  if (!done) { return tl::unexpected(failure{1, done.error().message}); }

  if (run.options.format == "json") {
    nlohmann::ordered_json json;
    for (planned const& layout : run.layouts) { json.push_back(to_json(run, layout)); }
    fmt::print("{}\n", (run.layouts.size() == 1 ? json.front() : json).dump(2));
  } else {
    print_table(run);
    fmt::print("{}", written);
  }
  return {};
}

}  // namespace cli
