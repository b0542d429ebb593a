// SPDX-License-Identifier: Apache-2.0
#include "route_command.hpp"

#include "output.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "plan_lines.hpp"
#include "pricing.hpp"
#include "progress.hpp"
#include "steps.hpp"

#include <ballast/route/route_volume.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace cli {
namespace {

using ballast::route_volume;

/// Bytes as an integer where they are whole, which means need not be.
nlohmann::ordered_json bytes_json(double bytes)
{
  constexpr double past_exact = 9007199254740992.0;  // 2^53, above which doubles skip integers
  if (bytes < past_exact && bytes == std::floor(bytes)) { return static_cast<std::int64_t>(bytes); }
  return bytes;
}

nlohmann::ordered_json to_json(exchange_statistics const& exchange)
{
  route_volume::cost const mean = exchange.mean();
  route_volume::cost const& most = exchange.most();
  return {{"kept_share", mean.kept_share},
          {"messages_mean", mean.messages_mean},
          {"messages_max", static_cast<std::int64_t>(most.messages_max)},
          {"bytes_mean", bytes_json(mean.bytes_mean)},
          {"bytes_max", bytes_json(most.bytes_max)},
          {"within_node_bytes", bytes_json(mean.within_node_bytes)},
          {"between_nodes_bytes", bytes_json(mean.between_nodes_bytes)},
          {"memory_bytes_max", bytes_json(most.memory_bytes)},
          {"ms_mean", mean.seconds * 1e3},
          {"ms_max", most.seconds * 1e3}};
}

nlohmann::ordered_json to_json(route_run const& run, routed const& layout)
{
  job const& work = run.job;
  nlohmann::ordered_json json = settings_json(work, layout.bags, run.samples);
  json["bytes_per_token"] = static_cast<std::int64_t>(work.bytes_per_token);
  json["within_node_gb_per_s"] = work.machines.within_node_bytes_per_second / 1e9;
  json["between_nodes_gb_per_s"] = work.machines.between_nodes_bytes_per_second / 1e9;
  json["latency_us"] = work.machines.latency_seconds * 1e6;
  json["route"] = to_json(layout.exchange);
  if (work.options.place_by_node) { json["route_before"] = to_json(layout.exchange_before); }
  json["all_gather"] = to_json(run.all_gather);
  json["compute_ms_mean"] = nullptr;
  if (work.times_known) { json["compute_ms_mean"] = layout.compute_seconds * 1e3; }
  if (work.admits_short_samples()) { json["short_samples"] = layout.short_samples; }
  json["digest"] = layout.digest.value();
  if (work.fit) { json["fit"] = fit_json(work); }
  return json;
}

std::string row_of(std::string const& name, exchange_statistics const& exchange,
                   double compute_seconds)
{
  route_volume::cost const mean = exchange.mean();
  route_volume::cost const& most = exchange.most();
  std::string row =
      fmt::format("{:<14}{:>9}{:>9}{:>8.1f} %{:>7.1f}{:>8.0f}{:>10}{:>10}{:>10} {:>10}", name,
                  bytes_text(mean.bytes_mean), bytes_text(most.bytes_max), 100 * mean.kept_share,
                  mean.messages_mean, most.messages_max, bytes_text(mean.within_node_bytes),
                  bytes_text(mean.between_nodes_bytes), bytes_text(most.memory_bytes),
                  duration_text(mean.seconds));
  if (compute_seconds > 0) {
    row += fmt::format(" {:>8.2f} %", 100 * mean.seconds / compute_seconds);
  }
  return row + "\n";
}

std::string table_of(route_run const& run)
{
  job const& work = run.job;
  std::string out = heading_of(work, run.samples);
  out += fmt::format("an array of {}\n{}\n", array_text(work), network_text(work.machines));
  out += fmt::format("\n{:<14}{:>18}{:>10}{:>15}{:>20}{:>10}{:>11}{}\n", "", "sent per GPU",
                     "tokens", "messages", "sent by all GPUs", "memory", "time of",
                     work.times_known ? fmt::format("{:>11}", "part of") : "");
  out += fmt::format("{:<14}{:>9}{:>9}{:>10}{:>7}{:>8}{:>10}{:>10}{:>10}{:>11}{}\n", "bags", "mean",
                     "at most", "that stay", "mean", "at most", "in nodes", "between", "at most",
                     "exchange", work.times_known ? fmt::format("{:>11}", "computing") : "");
  for (routed const& layout : run.layouts) {
    if (work.options.place_by_node) {
      out += row_of(layout.bags, layout.exchange_before, layout.compute_seconds);
      out += row_of("  by node", layout.exchange, layout.compute_seconds);
    } else {
      out += row_of(layout.bags, layout.exchange, layout.compute_seconds);
    }
  }
  out += row_of("all-gather", run.all_gather, 0);
  if (work.admits_short_samples()) {
    out += "\n";
    for (routed const& layout : run.layouts) {
      out += short_samples_text(layout.bags, layout.short_samples, layout.samples) + "\n";
    }
  }
  out +=
      "\nOne exchange takes one array from where samples are read to where they are computed. The "
      "exchange\nback moves the same bytes in the same time. The forward and the backward pass "
      "need "
      "both: four\nexchanges for each array. Times are predicted from the bandwidths.\n";
  if (work.times_known) {
    out += fmt::format("Computing is that of the busiest GPU: {}.\n", work.compute);
  }
  if (work.options.place_by_node) {
    out += "By node: equal bags have exchanged what they own, so that few tokens cross nodes.\n";
  }
  return out +
         "All-gather is what dispatching costs without a plan: every GPU gathers all tokens.\n\n";
}

}  // namespace

outcome<route_run> run_route(route_options const& given)
{
  job_options const& options = given.job;
  if (!given.plan.empty() && options.bags.size() > 1) {
    return usage("--plan is of one layout; give one --bags with it");
  }
  if (auto const checked = check_plan(given.plan, options.format); !checked) {
    return tl::unexpected(checked.error());
  }
  if (auto const checked = check_paths(inputs_of(options), {{"--plan", &given.plan}}); !checked) {
    return tl::unexpected(checked.error());
  }
  progress shown;
  auto work = prepare_job(options, shown);
  if (!work) { return tl::unexpected(work.error()); }
  work->rows = {};  // all lengths are read
  if (auto const known = check_token_width(*work); !known) { return tl::unexpected(known.error()); }
  route_run run;
  run.job = std::move(*work);
  run.plan = given.plan;
  exchange_meter meter(run.job);
  for (named_layout const& bags : run.job.layouts) {
    bool const first = run.layouts.empty();
    routed result;
    result.bags = bags.bags;
    auto const done = for_each_step(run.job, bags, shown, [&](planned_step const& step) {
      meter.measure(step, bags.layout);
      result.exchange.add(meter.route());
      if (options.place_by_node) { result.exchange_before.add(meter.route_before()); }
      if (run.job.times_known) {
        result.compute_seconds += step.plan.makespan.value() * run.job.seconds_at_speed_one() /
                                  static_cast<double>(run.job.options.steps);
      }
      for (std::size_t sample = 0; !given.plan.empty() && sample < step.batch.lengths.size();
           ++sample) {
        add_plan_lines(result.plan_lines, step.index, step.batch, sample, bags.layout,
                       step.plan.owner[sample], 0, step.plan.costs[sample],
                       fmt::format(",{}{}", to_index(step.batch.source[sample]),
                                   run.job.ids.field(trace_row(step.batch, sample))));
      }
      result.samples += step.batch.lengths.size();
      result.short_samples += step.plan.short_samples;
      result.digest.add(step.plan.digest());
      if (first) { run.all_gather.add(meter.all_gather()); }
      if (step.index == 0) { run.samples = static_cast<std::int64_t>(step.batch.lengths.size()); }
    });
    if (!done) { return tl::unexpected(done.error()); }
    run.layouts.push_back(std::move(result));
  }
  return run;
}

outcome<void> show_route(route_run const& run)
{
  output_files files;
  files.add_plan(run.plan,
                 fmt::format("{},source{}\n{}", plan_columns, run.job.ids.column(),
                             run.layouts.front().plan_lines),
                 run.job.ids.are_numbers);
  if (auto const done = files.write(); !done) { return done; }
  if (run.job.options.format != "json") { return files.print_table(table_of(run)); }
  nlohmann::ordered_json json;
  for (routed const& layout : run.layouts) { json.push_back(to_json(run, layout)); }
  return print_json(json);
}

}  // namespace cli
