// SPDX-License-Identifier: Apache-2.0
#include "units_command.hpp"

#include "output.hpp"
#include "output_paths.hpp"
#include "pricing.hpp"
#include "progress.hpp"
#include "shown_text.hpp"
#include "steps.hpp"

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <system_error>

namespace cli {
namespace {

using ballast::process_grid;
using ballast::unit_plan;
using ballast::unit_sizes;
using ballast::unit_strategy;

constexpr std::array figures = {&unit_plan::cost::messages,
                                &unit_plan::cost::messages_max,
                                &unit_plan::cost::bytes,
                                &unit_plan::cost::bytes_max,
                                &unit_plan::cost::within_node_bytes,
                                &unit_plan::cost::between_nodes_bytes,
                                &unit_plan::cost::memory_bytes,
                                &unit_plan::cost::seconds};

char const* text_of(unit_strategy strategy)
{
  switch (strategy) {
    case unit_strategy::direct: return "direct";
    case unit_strategy::one_rank: return "through one rank";
    case unit_strategy::brokers: return "through brokers";
  }
  return "";
}

/// A whole number of up to seven digits at the beginning of `text`, which is taken off; 0 if none.
std::uint32_t take_number(std::string_view& text)
{
  std::uint32_t number = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{}) { return 0; }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char expected)
{
  if (text.empty() || text.front() != expected) { return false; }
  text.remove_prefix(1);
  return true;
}

/// D, or DxPxT; a number of 0 if it is neither.
unit_sizes take_unit(std::string_view& text)
{
  unit_sizes sizes;
  sizes.data = take_number(text);
  if (take(text, 'x')) {
    sizes.pipeline = take_number(text);
    sizes.tensor = take(text, 'x') ? take_number(text) : 0;
  }
  return sizes;
}

/// The GPUs of the job are those of both units, in nodes of which the last need not be full.
outcome<job_options> job_of(units_options const& options, std::size_t ranks)
{
  job_options job = options.job;
  if (job.trace.empty()) { return usage("--units goes with --trace and --length"); }
  if (job.gpus != 0 && job.gpus != ranks) {
    return usage(fmt::format("--units {} takes {} GPUs, and --gpus says {}; leave out --gpus",
                             options.units, ranks, job.gpus));
  }
  if (!job.nodes.empty()) { return job; }
  std::size_t const per_node = job.gpus_per_node == 0 ? 8 : job.gpus_per_node;
  job.gpus = ranks;
  if (ranks > per_node && ranks % per_node != 0) {
    for (std::size_t left = ranks; left > 0; left -= std::min(left, per_node)) {
      job.nodes += fmt::format("{}{}", job.nodes.empty() ? "" : ",", std::min(left, per_node));
    }
    job.gpus = 0;
    job.gpus_per_node = 0;
  }
  return job;
}

nlohmann::ordered_json number_json(double number)
{
  constexpr double past_exact = 9007199254740992.0;  // 2^53, above which doubles skip integers
  auto const whole = static_cast<std::int64_t>(std::min(number, past_exact));
  if (static_cast<double>(whole) == number) { return whole; }
  return number;
}

nlohmann::ordered_json to_json(units_cost const& cost)
{
  return {{"brokers", cost.brokers},
          {"messages_mean", number_json(cost.mean.messages)},
          {"messages_of_gpu_max", number_json(cost.most.messages_max)},
          {"bytes_mean", number_json(cost.mean.bytes)},
          {"bytes_of_gpu_max", number_json(cost.most.bytes_max)},
          {"within_node_bytes", number_json(cost.mean.within_node_bytes)},
          {"between_nodes_bytes", number_json(cost.mean.between_nodes_bytes)},
          {"memory_bytes_max", number_json(cost.most.memory_bytes)},
          {"ms_mean", cost.mean.seconds * 1e3},
          {"ms_max", cost.most.seconds * 1e3}};
}

nlohmann::ordered_json to_json(units_run const& run)
{
  job const& work = run.job;
  nlohmann::ordered_json json = {
      {"trace", work.options.trace}, {"length", work.options.length}, {"units", run.units}};
  for (unit_sizes const& each : run.sizes) {
    json["sizes"].push_back(
        {{"data", each.data}, {"pipeline", each.pipeline}, {"tensor", each.tensor}});
  }
  json["gpus"] = work.gpus();
  for (std::size_t node = 0; node < work.machines.nodes.size(); ++node) {
    json["nodes"].push_back(work.machines.nodes[ballast::to_id<ballast::node_id>(node)]);
  }
  json["seed"] = work.options.seed;
  json["steps"] = work.options.steps;
  json["samples"] = run.samples;
  json["bytes_per_token"] = number_json(work.bytes_per_token);
  json["within_node_gb_per_s"] = work.machines.within_node_bytes_per_second / 1e9;
  json["between_nodes_gb_per_s"] = work.machines.between_nodes_bytes_per_second / 1e9;
  json["latency_us"] = work.machines.latency_seconds * 1e6;
  for (units_cost const& each : run.strategies) { json[name_of(each.strategy)] = to_json(each); }
  return json;
}

std::string table_of(units_run const& run)
{
  job const& work = run.job;
  std::string out = fmt::format(
      "cost {}\n{}\n{}, {} per step{}, {}\nfrom a unit of {} data-parallel GPUs to one of {}, {} "
      "in all\n",
      work.options.cost, shown_text(work.source), count_of(work.trace.size(), "row"),
      count_of(static_cast<std::size_t>(run.samples), "sample"), short_step_text(work),
      count_of(work.options.steps, "step"), run.sizes[0].data, run.sizes[1].data,
      count_of(work.gpus(), "GPU"));
  out += fmt::format("{}\nan array of {}\n{}\n", work.machines.nodes.text() + " per node",
                     array_text(work), network_text(work.machines));
  out += fmt::format("\n{:<17}{:>9}{:>19}{:>19}{:>19}{:>10}{:>11}\n", "", "", "messages",
                     "sent by all GPUs", "busiest GPU", "memory", "time of");
  out += fmt::format("{:<17}{:>9}{:>10}{:>9}{:>10}{:>9}{:>10}{:>9}{:>10}{:>11}\n", "samples go",
                     "brokers", "all", "one GPU", "in nodes", "between", "mean", "at most",
                     "at most", "exchange");
  for (units_cost const& each : run.strategies) {
    out += fmt::format("{:<17}{:>9}{:>10.1f}{:>9.0f}{:>10}{:>9}{:>10}{:>9}{:>10}{:>11}\n",
                       text_of(each.strategy), each.brokers, each.mean.messages,
                       each.most.messages_max, bytes_text(each.mean.within_node_bytes),
                       bytes_text(each.mean.between_nodes_bytes), bytes_text(each.mean.bytes_max),
                       bytes_text(each.most.bytes_max), bytes_text(each.most.memory_bytes),
                       duration_text(each.mean.seconds));
  }
  return out +
         "\nOne exchange takes one array of a step's samples from the last stage of the one unit "
         "to "
         "the first\nstage of the other; the exchange back, of gradients, costs the same. Brokers "
         "are GPUs of the second\nunit that gather samples and scatter them. Times are predicted "
         "from the bandwidths.\n\n";
}

}  // namespace

outcome<std::array<unit_sizes, 2>> read_units(std::string const& text)
{
  std::string_view left = text;
  std::array<unit_sizes, 2> sizes;
  sizes[0] = take_unit(left);
  bool const two = take(left, ':');
  sizes[1] = take_unit(left);
  auto const grid = process_grid::make(sizes);
  if (!two || !left.empty() || !grid) {
    return usage(fmt::format(
        "--units: {} does not say how two units are parallel; give the data-parallel sizes of "
        "both, as in 12:4, or data, pipeline and tensor of each, as in 12x1x1:4x2x8, for at most "
        "16777216 GPUs",
        ballast::excerpt(text)));
  }
  return sizes;
}

outcome<units_run> run_units(units_options const& options)
{
  if (auto const checked = check_paths(inputs_of(options.job), {}); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const sizes = read_units(options.units);
  if (!sizes) { return tl::unexpected(sizes.error()); }
  process_grid const grid = *process_grid::make(*sizes);
  auto const described = job_of(options, grid.ranks());
  if (!described) { return tl::unexpected(described.error()); }
  progress shown;
  auto work = prepare_job(*described, shown);
  if (!work) { return tl::unexpected(work.error()); }
  if (work->gpus() != grid.ranks()) {
    return usage(fmt::format("--units {} takes {} GPUs, and --nodes {} has {}; list as many",
                             options.units, grid.ranks(), options.job.nodes, work->gpus()));
  }
  if (auto const known = check_token_width(*work); !known) { return tl::unexpected(known.error()); }

  units_run run;
  run.job = std::move(*work);
  run.job.rows = {};  // all lengths are read
  run.units = options.units;
  run.sizes = *sizes;
  auto const senders = grid.data_ranks(0, sizes->front().pipeline - 1);
  auto const receivers = grid.data_ranks(1);
  ballast::unit_pair const units{senders, receivers};
  for (std::size_t index = 0; index < run.strategies.size(); ++index) {
    run.strategies[index].strategy = ballast::unit_plan::strategies[index];
    run.strategies[index].brokers = units.brokers(run.strategies[index].strategy);
  }

  step_source source(run.job);
  ballast::sample_batch batch;
  ballast::workspace memory;
  ballast::placement from;
  ballast::placement to;
  auto const steps = static_cast<double>(run.job.options.steps);
  for (std::size_t step = 0; step < run.job.options.steps; ++step) {
    if (auto const drawn = source.next_into(batch); !drawn) {
      return usage("--trace", drawn.error());
    }
    if (step == 0) { run.samples = static_cast<std::int64_t>(batch.lengths.size()); }
    assign_unit(from, memory, batch.lengths, senders, units.groups(), grid.ranks());
    assign_unit(to, memory, batch.lengths, receivers, units.groups(), grid.ranks());
    for (units_cost& each : run.strategies) {
      auto const cost =
          price_units(from, to, units, each.strategy, run.job.machines, run.job.bytes_per_token);
      for (auto const figure : figures) {
        each.mean.*figure += cost.*figure;
        each.most.*figure = std::max(each.most.*figure, cost.*figure);
      }
    }
  }
  for (units_cost& each : run.strategies) {
    for (auto const figure : figures) {  // rounding may lift the mean of equal figures above them
      each.mean.*figure = std::min(each.mean.*figure / steps, each.most.*figure);
    }
  }
  return run;
}

outcome<void> show_units(units_run const& run)
{
  if (run.job.options.format != "json") { return print(table_of(run)); }
  return print_json(nlohmann::ordered_json::array({to_json(run)}));
}

}  // namespace cli
