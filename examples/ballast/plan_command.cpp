// SPDX-License-Identifier: Apache-2.0
#include "plan_command.hpp"

#include "exchange_meter.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "pages/plan_figures.hpp"
#include "pages/step_bars.hpp"
#include "plan_lines.hpp"
#include "pricing.hpp"
#include "progress.hpp"
#include "steps.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <unistd.h>

#include <fmt/format.h>

namespace cli {
namespace {

namespace report = ballast::report;
using ballast::tokens;

outcome<void> check_outputs(plan_options const& options)
{
  if (auto const checked = check_trace_options(options); !checked) { return checked; }
  if (options.job.bags.size() > 1 && !(options.picture.empty() && options.report.empty() &&
                                       options.timeline.empty() && options.plan.empty())) {
    return usage(
        "--plan, --picture, --report and --timeline show one layout; give one --bags with them");
  }
  bool const chosen = std::ranges::any_of(options.job.bags, are_chosen);
  if (chosen && !options.stages.empty()) {
    return usage(
        "--bags auto: bags are chosen for steps without pipelines; write the bags with "
        "--stages");
  }
  std::string const unused = exchange_options(options.job);
  if (options.report.empty() && !unused.empty() && !chosen) {
    return usage(unused +
                 ": plan shows what moving samples takes on the page of --report only; give "
                 "--report as well, or use ballast route");
  }
  if (auto const checked = check_plan(options.plan, options.job.format); !checked) {
    return checked;
  }
  return check_paths(inputs_of(options.job), {{"--plan", &options.plan},
                                              {"--picture", &options.picture},
                                              {"--report", &options.report},
                                              {"--timeline", &options.timeline}});
}

/// Plans all steps over one layout.
outcome<planned> plan_layout(plan_run& run, named_layout const& bags, progress& shown)
{
  constexpr std::size_t most_lengths = 1'000'000;
  plan_options const& options = run.options;
  job const& work = run.job;
  bool const first_shown =
      !options.picture.empty() || !options.report.empty() || prints_picture(options);
  bool const exchange_shown = !options.report.empty() && work.bytes_per_token > 0;
  planned result;
  result.bags = bags.bags;
  result.layout = bags.layout;
  result.judged = bags.judged;
  exchange_meter meter(work);
  double const seconds = work.seconds_at_speed_one();
  outcome<void> ordered;
  auto const done = for_each_step(work, bags, shown, [&](planned_step const& step) {
    ballast::sample_batch const& batch = step.batch;
    ballast::partition_plan const& plan = step.plan;
    pages::plan_page_step& measured = result.steps.emplace_back(pages::plan_page_step{
        .samples = static_cast<std::int64_t>(batch.lengths.size()),
        .length = std::accumulate(batch.lengths.begin(), batch.lengths.end(), tokens{0}),
        .before = report::measure_as_read(batch, plan.costs, work.gpus(), work.machines.gpu_speeds),
        .after = report::measure_balance(plan.loads, bags.layout.speeds()),
        .gap = plan.gap(),
        .plan_seconds = step.plan_seconds});
    result.moved_shares.push_back(plan.moved.value());
    result.samples += batch.lengths.size();
    result.short_samples += plan.short_samples;
    result.digest.add(plan.digest());
    for (std::size_t sample = 0; !options.plan.empty() && sample < batch.lengths.size(); ++sample) {
      add_plan_lines(result.plan_lines, step.index, batch, sample, bags.layout, plan.owner[sample],
                     0, plan.costs[sample], work.ids.field(trace_row(batch, sample)));
    }
    if (options.job.format == "json") {
      step_owners& owners = result.owners.emplace_back();
      for (std::size_t sample = 0; sample < batch.lengths.size(); ++sample) {
        owners.samples.push_back(trace_row(batch, sample));
        owners.bags.push_back(to_index(plan.owner[sample]));
      }
    }
    if (work.times_known) { measured.compute_seconds = measured.after.heaviest * seconds; }
    if (exchange_shown) {
      meter.measure(step, bags.layout);
      measured.exchange = meter.route();
      measured.all_gather = meter.all_gather();
      if (step.index == 0) {
        result.first_moved = meter.volume();
        result.first_moved_before = meter.volume_before();
      }
    }

    auto const as_planned = [&] {
      return pages::bars_as_planned(plan, bags.layout, batch.lengths, seconds);
    };
    if (step.index == 0 && first_shown) {
      result.first_before =
          pages::bars_as_read(batch, plan.costs, work.gpus(), seconds, work.machines.gpu_speeds);
      result.first_after = as_planned();
    }
    if (!options.timeline.empty() && step.index < most_timeline_steps) {
      result.timeline.push_back(as_planned());
    }
    if (!options.report.empty() && run.lengths.size() < most_lengths) {
      run.lengths.insert(run.lengths.end(), batch.lengths.begin(), batch.lengths.end());
    }
    if (run.pipelines && ordered) {
      auto const figures = run.pipelines->order(work, step, bags.layout);
      if (figures) {
        result.pipelines.push_back(*figures);
      } else {
        ordered = tl::unexpected(figures.error());
      }
    }
  });
  if (!done) { return tl::unexpected(done.error()); }
  if (!ordered) { return tl::unexpected(ordered.error()); }
  return result;
}

}  // namespace

std::string exchange_options(job_options const& options)
{
  std::string given;
  for (auto const& [name, is_given] :
       {std::pair{"--place-by-node", options.place_by_node},
        std::pair{"--bytes-per-token", options.bytes_per_token != 0},
        std::pair{"--within-node-bandwidth", options.within_node_gb_per_s.has_value()},
        std::pair{"--between-nodes-bandwidth", options.between_nodes_gb_per_s.has_value()},
        std::pair{"--latency-us", options.latency_us.has_value()}}) {
    if (is_given) { (given += given.empty() ? "" : ", ") += name; }
  }
  return given;
}

outcome<void> check_trace_options(plan_options const& options)
{
  if (!options.job.codes.empty() && !(options.kind.empty() && options.target.empty())) {
    return usage(fmt::format("{} goes with --trace, since it names a column of it",
                             options.kind.empty() ? "--target" : "--kind"));
  }
  return {};
}

bool prints_picture(plan_options const& options)
{
  return options.job.format == "table" && isatty(STDOUT_FILENO) == 1;
}

outcome<plan_run> run_plan(plan_options const& options)
{
  if (auto const checked = check_outputs(options); !checked) {
    return tl::unexpected(checked.error());
  }
  progress shown;
  auto work = prepare_job(options.job, shown);
  if (!work) { return tl::unexpected(work.error()); }
  if (!exchange_options(options.job).empty()) {
    if (auto const known = check_token_width(*work); !known) {
      return tl::unexpected(known.error());
    }
  }
  plan_run run;
  run.options = options;
  run.job = std::move(*work);
  if (!options.stages.empty()) {
    auto pipelines = step_pipelines::make(run.job, options.stages, options.ordering);
    if (!pipelines) { return tl::unexpected(pipelines.error()); }
    run.pipelines = std::move(*pipelines);
  }
  run.job.rows = {};  // all lengths are read
  for (named_layout const& bags : run.job.layouts) {
    auto result = plan_layout(run, bags, shown);
    if (!result) { return tl::unexpected(result.error()); }
    run.layouts.push_back(std::move(*result));
  }
  return run;
}

}  // namespace cli
