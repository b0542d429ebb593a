// SPDX-License-Identifier: Apache-2.0
#include "grid_command.hpp"

#include "output.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "pages/gantt_chart.hpp"
#include "pages/html_page.hpp"
#include "pages/load_chart.hpp"
#include "pages/step_bars.hpp"
#include "plan_lines.hpp"
#include "progress.hpp"
#include "steps.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/padded/pad_grid.hpp>
#include <ballast/report/chrome_trace.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <chrono>
#include <cmath>
#include <tuple>

namespace cli {
namespace {

using ballast::grid_meeting;
using ballast::tokens;

outcome<void> check_grid_options(plan_options const& options)
{
  job_options const& job = options.job;
  for (auto const& [name, given, instead] :
       {std::tuple{"--stages", !options.stages.empty(), "pipelines order whole steps"},
        std::tuple{"--place-by-node", job.place_by_node, "slots do not exchange ranks"},
        std::tuple{"--policy", options.policy_given, "grids have a planner of their own"}}) {
    if (given) {
      return usage(fmt::format("--microbatches and {} do not go together: {}", name, instead));
    }
  }
  if (job.bags.size() > 1 || std::ranges::any_of(job.bags, are_chosen)) {
    return usage("--microbatches plans one layout; give one --bags, written out");
  }
  if (std::string const unused = exchange_options(job); !unused.empty()) {
    return usage(unused +
                 ": --microbatches does not show what moving samples takes; leave it out, or use "
                 "ballast route");
  }
  if (auto const checked = check_trace_options(options); !checked) { return checked; }
  if (auto const checked = check_plan(options.plan, job.format); !checked) { return checked; }
  return check_paths(inputs_of(job), {{"--plan", &options.plan},
                                      {"--picture", &options.picture},
                                      {"--report", &options.report},
                                      {"--timeline", &options.timeline}});
}

/// The cells of a step, each as long as it takes: one after the other, or slot by slot.
std::vector<pages::gantt_bar> bars_of_cells(ballast::grid_plan const& plan,
                                            ballast::bag_layout const& bags, double seconds)
{
  std::vector<pages::gantt_bar> bars;
  std::vector<double> busy_until(plan.ranks, 0);
  for (std::size_t slot = 0; slot < plan.microbatches; ++slot) {
    if (plan.meet == grid_meeting::microbatch) {
      std::ranges::fill(busy_until, std::ranges::max(busy_until));
    }
    for (std::size_t rank = 0; rank < plan.ranks; ++rank) {
      auto const id = ballast::to_id<ballast::rank_id>(rank);
      double const duration =
          static_cast<double>(plan.load(id, slot)) * seconds / bags.speeds()[rank];
      ballast::bag const bag = bags[ballast::to_id<ballast::bag_id>(rank)];
      for (std::uint32_t gpu = 0; gpu < bag.gpus && !plan.is_empty(id, slot); ++gpu) {
        bars.push_back(
            {ballast::to_id<ballast::rank_id>(to_index(bag.first) + gpu), busy_until[rank],
             duration,
             fmt::format("microbatch {} of {}, {}, {}", slot + 1, plan.microbatches,
                         count_of(plan.microbatch(id, slot).size(), "sample"),
                         count_of(static_cast<std::size_t>(plan.weight(id, slot)), "token"))});
      }
      busy_until[rank] += duration;
    }
  }
  return bars;
}

/// Over the steps.
template <class Value>
double mean_of(grid_run const& run, Value grid_step_figures::* value)
{
  double sum = 0;
  for (grid_step_figures const& step : run.steps) { sum += static_cast<double>(step.*value); }
  return sum / static_cast<double>(run.steps.size());
}

double worst_gap(grid_run const& run)
{
  return std::ranges::max(run.steps, {}, &grid_step_figures::gap).gap;
}

double median_seconds(grid_run const& run)
{
  std::vector<double> seconds;
  for (grid_step_figures const& step : run.steps) { seconds.push_back(step.plan_seconds); }
  std::ranges::sort(seconds);
  return (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
}

/// "7", or "6 to 8" where steps differ.
std::string microbatches_text(grid_run const& run, std::size_t grid_step_figures::* which)
{
  auto const [least, most] = std::ranges::minmax(run.steps, {}, which);
  return least.*which == most.*which ? fmt::format("{}", least.*which)
                                     : fmt::format("{} to {}", least.*which, most.*which);
}

std::string meeting_text(plan_options const& options)
{
  return options.meet == "step" ? "once a step" : "in every microbatch";
}

/// What a refusal for too few samples says behind its sentence, where the step is a short one.
std::string short_step_remedy(job const& work, std::size_t step)
{
  std::size_t const left = work.left_for_step(step);
  if (left == 0) { return {}; }
  return fmt::format("; step {} has the last {} of the trace, and --steps {} leaves it out",
                     step + 1, count_of(left, "row"), step);
}

std::string short_text(grid_run const& run)
{
  return short_samples_text(run.job.layouts.front().bags, run.short_samples, run.all_samples);
}

std::string table_of(grid_run const& run)
{
  plan_options const& options = run.options;
  std::string out = heading_of(run.job, static_cast<std::int64_t>(run.samples));
  out += fmt::format("ranks meet {}{}", meeting_text(options),
                     options.is_padded ? ", samples are padded to the longest" : "");
  out += fmt::format("\n\n{:<14}{:>20}{:>18}{:>10}{:>8}{:>9}{:>10}\n", "", "microbatches",
                     "step / mean", "gap", "empty", "tokens", "planning");
  out += fmt::format("{:<14}{:>10}{:>10}{:>9}{:>9}{:>10}{:>8}{:>9}{:>10}\n", "bags", "planned",
                     "at least", "before", "after", "at most", "cells", "moved", "median");
  out += fmt::format(
      "{:<14}{:>10}{:>10}{:>9.3f}{:>9.3f}{:>8.1f} %{:>6.1f} %{:>7.1f} %{:>10}\n",
      run.job.layouts.front().bags, microbatches_text(run, &grid_step_figures::microbatches),
      microbatches_text(run, &grid_step_figures::fewest),
      mean_of(run, &grid_step_figures::ratio_before), mean_of(run, &grid_step_figures::ratio_after),
      100 * worst_gap(run), 100 * mean_of(run, &grid_step_figures::empty_share),
      100 * mean_of(run, &grid_step_figures::moved_share), duration_text(median_seconds(run)));
  auto const most = std::ranges::max_element(run.steps, {}, &grid_step_figures::microbatches);
  out += fmt::format("\nmicrobatches of step {}: {}\n", most - run.steps.begin() + 1, most->why);
  if (run.job.admits_short_samples()) { out += "\n" + short_text(run) + "\n"; }
  return out + "\n";
}

nlohmann::ordered_json json_of(grid_run const& run)
{
  plan_options const& options = run.options;
  auto json =
      settings_json(run.job, run.job.layouts.front().bags, static_cast<std::int64_t>(run.samples));
  json["meet"] = options.meet;
  if (!options.kind.empty()) { json["kind"] = options.kind; }
  if (options.is_padded) { json["padded"] = true; }
  if (!options.target.empty()) { json["target"] = options.target; }
  json["microbatches_mean"] = mean_of(run, &grid_step_figures::microbatches);
  json["fewest_microbatches_mean"] = mean_of(run, &grid_step_figures::fewest);
  json["microbatches_why"] = nlohmann::ordered_json::array();
  for (grid_step_figures const& step : run.steps) { json["microbatches_why"].push_back(step.why); }
  json["balance_ratio_before"] = mean_of(run, &grid_step_figures::ratio_before);
  json["balance_ratio_after"] = mean_of(run, &grid_step_figures::ratio_after);
  json["gap_mean"] = mean_of(run, &grid_step_figures::gap);
  json["gap_max"] = worst_gap(run);
  json["empty_share"] = mean_of(run, &grid_step_figures::empty_share);
  json["moved_share"] = mean_of(run, &grid_step_figures::moved_share);
  json["plan_ms_median"] = 1e3 * median_seconds(run);
  if (run.job.admits_short_samples()) { json["short_samples"] = run.short_samples; }
  json["digest"] = run.digest.value();
  json["owners"] = owners_json(run.owners, run.job.ids);
  return json;
}

std::string page_of(grid_run const& run)
{
  using pages::html_page;
  job const& work = run.job;
  std::string const unit = work.times_known ? "s" : "";
  html_page page(fmt::format("{} on {}", work.source, count_of(work.gpus(), "GPU")),
                 fmt::format("{} microbatches on every rank; ranks meet {}.",
                             microbatches_text(run, &grid_step_figures::microbatches),
                             meeting_text(run.options)));
  page.add_figures(
      {{"Step / mean", fmt::format("{:.3f}", mean_of(run, &grid_step_figures::ratio_after)),
        "1 is even", fmt::format("{:.3f}", mean_of(run, &grid_step_figures::ratio_before))},
       {"Gap", fmt::format("{:.1f} %", 100 * worst_gap(run)), "above the best plan, at most"},
       {"Microbatches", microbatches_text(run, &grid_step_figures::microbatches),
        "no plan has fewer than " + microbatches_text(run, &grid_step_figures::fewest)},
       {"Empty cells", fmt::format("{:.1f} %", 100 * mean_of(run, &grid_step_figures::empty_share)),
        "ranks run a dummy there"}});
  page.add_chart("Work per GPU", "The first step: as its samples were read, and as planned.",
                 [&](pages::chart_size const& size) {
                   return pages::load_chart(pages::work_per_gpu(run.first_before, work.gpus()),
                                            pages::work_per_gpu(run.first_after, work.gpus()), unit,
                                            {}, size);
                 });
  page.add_chart("Grid",
                 "The first step again, over time. Each row is a GPU. Before, a bar is a sample; "
                 "after, it is a microbatch (stronger colour: longer), and grey is a GPU that "
                 "waits.",
                 [&](pages::chart_size const& size) {
                   return pages::gantt_chart(run.first_before, run.first_after, work.gpus(), unit,
                                             size);
                 });
  pages::html_table table(
      {"Step", "Microbatches", "At least", "Step / mean", "Gap", "Empty cells", "Why so many"});
  constexpr std::size_t most_rows = 5000;
  for (std::size_t step = 0; step < std::min(run.steps.size(), most_rows); ++step) {
    grid_step_figures const& each = run.steps[step];
    table.add_row({fmt::format("{}", step + 1), fmt::format("{}", each.microbatches),
                   fmt::format("{}", each.fewest), fmt::format("{:.3f}", each.ratio_after),
                   fmt::format("{:.1f} %", 100 * each.gap),
                   fmt::format("{:.1f} %", 100 * each.empty_share), each.why});
  }
  page.add_section("Steps", "A row for each step; of more than 5\u202F000, for the first.",
                   table.markup());
  page.add_settings("Settings", "What was planned; the same settings give the same plan.",
                    {{"Samples", work.source + ", " + count_of(run.samples, "sample") +
                                     " per step" + short_step_text(work)},
                     {"GPUs", machines_text(work)},
                     {"Bags", work.layouts.front().bags},
                     {"Plan", policy_text(work.options)},
                     {"Cost model", work.options.cost},
                     {"Seed", fmt::format("{}", work.options.seed)}});
  return page.markup();
}

/// A step of padded microbatches. Of a number that is not given, the first is tried that has room
/// for the batches that samples are packed into.
ballast::result<void> pad_into(ballast::grid_plan& plan, ballast::sample_batch const& batch,
                               std::span<tokens const> targets, ballast::bag_layout const& bags,
                               ballast::microbatches slots, job const& work,
                               ballast::placement_limits limits)
{
  std::vector<ballast::padded_lengths> lengths;
  for (std::size_t sample = 0; sample < batch.lengths.size(); ++sample) {
    lengths.push_back({batch.lengths[sample], targets.empty() ? 0 : targets[sample]});
  }
  auto const cost_of = [&](tokens source, tokens target) {
    return work.cost(source) + work.cost(target);
  };
  auto const weight_of = [](tokens source, tokens target) { return source + target; };
  bool const is_capped = limits.most_per_gpu != ballast::no_limit;
  bool const is_found = !slots.number && is_capped && bags.size() > 0;
  std::size_t const multiple = std::exchange(slots.multiple_of, 1);
  std::size_t fewest = 1;
  if (is_found) {
    auto const packed = ballast::pad_to_cap(
        lengths, weight_of, limits.most_per_gpu * static_cast<std::int64_t>(bags.sizes()[0]));
    if (!packed) { return tl::unexpected(packed.error()); }
    auto const slots_of = [&](std::size_t batches) {
      std::size_t const needed =
          std::max<std::size_t>(1, (batches + bags.size() - 1) / bags.size());
      return (needed + multiple - 1) / multiple * multiple;
    };
    slots.number = slots_of(packed->bins());
    fewest = slots_of(packed->lower_bound);
  }
  if (!slots.number) { slots.number = multiple; }
  limits.home = {};  // padded microbatches are not planned by it
  auto padded = ballast::pad_grid(lengths, bags, slots, cost_of, weight_of, limits);
  while (!padded && is_found && *slots.number < lengths.size()) {
    *slots.number += multiple;
    padded = ballast::pad_grid(lengths, bags, slots, cost_of, weight_of, limits);
  }
  if (!padded) { return tl::unexpected(padded.error()); }
  plan = std::move(*padded);
  plan.fewest_microbatches = fewest;
  using decided_by = ballast::grid_plan::decision::reason;
  plan.decided.by = !is_found                 ? decided_by::given
                    : *slots.number == fewest ? decided_by::cap
                                              : decided_by::search;
  std::int64_t moved = 0;
  std::int64_t total = 0;
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    bool const stays =
        to_index(bags.bag_of(batch.source[sample])) == to_index(plan.owner[sample]) % plan.ranks;
    total += batch.lengths[sample];
    moved += stays ? 0 : batch.lengths[sample];
  }
  plan.moved = {moved, std::max<std::int64_t>(total, 1)};
  return {};
}

outcome<std::string> timeline_of(grid_run const& run)
{
  ballast::report::chrome_trace trace;
  trace.name_process(0, fmt::format("{} in bags {}", run.job.source, run.job.layouts[0].bags));
  for (std::uint32_t gpu = 0; gpu < run.job.gpus(); ++gpu) {
    trace.name_track({0, gpu}, fmt::format("GPU {}", gpu));
  }
  double now = 0;
  auto const nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
  for (auto const& bars : run.timeline) {
    double last = 0;
    for (pages::gantt_bar const& bar : bars) { last = std::max(last, bar.start + bar.duration); }
    if (now + last > 9e9) {
      return bad_data(
          "the steps last longer than a timeline can hold, 285 years; raise --tflops or use fewer "
          "steps");
    }
    for (pages::gantt_bar const& bar : bars) {
      auto const start = nanoseconds(now + bar.start);
      trace.add({{0, static_cast<std::uint32_t>(bar.gpu)},
                 bar.label,
                 "microbatch",
                 start,
                 nanoseconds(now + (bar.start + bar.duration)) - start});
    }
    now += last;
  }
  auto json = trace.json();
  if (!json) { return bad_data(json.error().message); }
  return *json;
}

}  // namespace

outcome<grid_run> run_grid(plan_options const& options)
{
  if (auto const checked = check_grid_options(options); !checked) {
    return tl::unexpected(checked.error());
  }
  ballast::microbatches grid;
  if (options.microbatches != "auto") {
    constexpr std::string_view multiple = "multiple_of:";
    bool const is_multiple = options.microbatches.starts_with(multiple);
    std::string_view const text =
        std::string_view(options.microbatches).substr(is_multiple ? multiple.size() : 0);
    std::size_t number = 0;
    auto const [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    constexpr std::size_t most = std::size_t{1} << 20;
    if (wrong != std::errc() || end != text.data() + text.size() || number == 0 || number > most) {
      return usage(
          fmt::format("--microbatches: '{}' is no number from 1 to {}; give one, multiple_of:N, or "
                      "auto",
                      options.microbatches, most));
    }
    if (is_multiple) {
      grid.multiple_of = number;
    } else {
      grid.number = number;
    }
  }
  grid.meet = options.meet == "step" ? grid_meeting::step : grid_meeting::microbatch;

  progress shown;
  auto work = prepare_job(options.job, shown);
  if (!work) { return tl::unexpected(work.error()); }
  grid_run run;
  run.options = options;
  run.job = std::move(*work);
  run.job.options.policy = "partition_grid";
  named_layout const& bags = run.job.layouts.front();
  step_limits limits(run.job, bags);
  std::vector<std::int64_t> kind_of_row;
  if (!options.kind.empty()) {
    auto numbers = numbers_of_column(run.job.rows, "--kind", options.kind);
    if (!numbers) { return tl::unexpected(numbers.error()); }
    kind_of_row = std::move(*numbers);
  }
  std::vector<std::int64_t> target_of_row;
  if (!options.target.empty()) {
    auto lengths = read_lengths(run.job.rows, options.target, "--target");
    if (!lengths) { return tl::unexpected(lengths.error()); }
    target_of_row = std::move(*lengths);
  }
  step_source source(run.job);
  std::size_t const steps = run.job.options.steps;
  ballast::sample_batch batch;
  ballast::grid_plan plan;
  ballast::workspace memory;
  std::vector<std::int64_t> kinds;
  std::vector<std::int64_t> targets;
  double const seconds = run.job.seconds_at_speed_one();
  double const speeds = std::reduce(bags.layout.speeds().begin(), bags.layout.speeds().end(), 0.0);
  for (std::size_t step = 0; step < steps; ++step) {
    shown.update(
        [&] { return fmt::format("planning {}, step {} of {}", bags.bags, step + 1, steps); });
    if (auto const drawn = source.next_into(batch); !drawn) {
      return usage("--codes", drawn.error());
    }
    values_of_rows(kinds, batch, kind_of_row);
    values_of_rows(targets, batch, target_of_row);
    grid.kinds = kinds;
    run.all_samples += batch.lengths.size();
    for (std::size_t sample = 0; sample < batch.lengths.size(); ++sample) {
      run.short_samples += bags.layout.is_short(batch.lengths[sample]) ? 1 : 0;
    }
    if (grid.number.value_or(0) > std::max<std::size_t>(batch.lengths.size(), 1)) {
      return usage(
          fmt::format("--microbatches: {} are more than the {} of step {}; give at most "
                      "that many, or auto{}",
                      *grid.number, count_of(batch.lengths.size(), "sample"), step + 1,
                      short_step_remedy(run.job, step)));
    }
    auto const start = std::chrono::steady_clock::now();
    auto const done =
        options.is_padded
            ? pad_into(plan, batch, targets, bags.layout, grid, run.job, limits.of(batch))
            : ballast::partition_grid_into(plan, memory, batch.lengths, bags.layout, grid,
                                           run.job.cost, limits.of(batch));
    std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - start;
    if (!done) {
      std::size_t const sample = done.error().position;
      std::string const why = refusal(bags.layout, batch, done.error());
      bool const has_row =
          sample < batch.rows.size() && why.find(fmt::format("sample {} ", sample)) != why.npos;
      return bad_data(
          fmt::format("step {}, bags {}: {}{}", step + 1, bags.bags, why,
                      has_row ? fmt::format(" (row {} of the trace)", batch.rows[sample] + 1)
                              : short_step_remedy(run.job, step)));
    }
    if (step == 0) { run.samples = batch.lengths.size(); }
    double const total = static_cast<double>(
        std::reduce(plan.costs.begin(), plan.costs.end(), ballast::cost_units{0}));
    run.steps.push_back(
        {.microbatches = plan.microbatches,
         .fewest = plan.fewest_microbatches,
         .why = plan.why(),
         .ratio_before = ballast::report::measure_as_read(batch, plan.costs, run.job.gpus(),
                                                          run.job.machines.gpu_speeds)
                             .balance_ratio(),
         .ratio_after = total == 0 ? 1 : plan.makespan.value() * speeds / total,
         .gap = plan.gap(),
         .empty_share = static_cast<double>(plan.empty_cells()) /
                        static_cast<double>(plan.ranks * plan.microbatches),
         .moved_share = plan.moved.value(),
         .plan_seconds = taken.count()});
    run.digest.add(plan.digest());
    if (step == 0) {
      run.first_before = pages::bars_as_read(batch, plan.costs, run.job.gpus(), seconds,
                                             run.job.machines.gpu_speeds);
      run.first_after = bars_of_cells(plan, bags.layout, seconds);
    }
    if (!options.timeline.empty() && step < most_timeline_steps) {
      run.timeline.push_back(bars_of_cells(plan, bags.layout, seconds));
    }
    bool const is_json = options.job.format == "json";
    if (is_json) { run.owners.emplace_back(); }
    for (std::size_t sample = 0; sample < batch.lengths.size(); ++sample) {
      std::size_t const cell = to_index(plan.owner[sample]);
      if (!options.plan.empty()) {
        add_plan_lines(run.plan_lines, step, batch, sample, bags.layout,
                       ballast::to_id<ballast::bag_id>(cell % plan.ranks), cell / plan.ranks,
                       plan.costs[sample], run.job.ids.field(trace_row(batch, sample)));
      }
      if (is_json) {
        run.owners.back().samples.push_back(trace_row(batch, sample));
        run.owners.back().bags.push_back(cell % plan.ranks);
        run.owners.back().slots.push_back(cell / plan.ranks);
      }
    }
  }
  return run;
}

outcome<void> show_grid(grid_run const& run)
{
  output_files files;
  plan_options const& options = run.options;
  files.add_plan(options.plan,
                 fmt::format("{}{}\n{}", plan_columns, run.job.ids.column(), run.plan_lines),
                 run.job.ids.are_numbers);
  if (!options.picture.empty()) {
    files.add("picture", options.picture,
              pages::standalone_svg(
                  pages::load_chart(pages::work_per_gpu(run.first_before, run.job.gpus()),
                                    pages::work_per_gpu(run.first_after, run.job.gpus()), "s")));
  }
  if (!options.report.empty()) { files.add("page", options.report, page_of(run)); }
  if (!options.timeline.empty()) {
    auto timeline = timeline_of(run);
    if (!timeline) { return tl::unexpected(timeline.error()); }
    files.add("timeline", options.timeline, std::move(*timeline));
  }
  if (auto const done = files.write(); !done) { return done; }
  if (options.job.format == "json") { return print_json(json_of(run)); }
  return files.print_table(table_of(run));
}

}  // namespace cli
