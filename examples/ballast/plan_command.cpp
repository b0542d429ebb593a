// SPDX-License-Identifier: Apache-2.0
#include "plan_command.hpp"

#include "progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {
namespace {

using ballast::tokens;

tl::unexpected<failure> usage(std::string message)
{
  return tl::unexpected(failure{2, std::move(message)});
}
tl::unexpected<failure> usage(std::string_view option, ballast::error const& why)
{
  return usage(fmt::format("{}: {}", option, why.message));
}
tl::unexpected<failure> bad_data(ballast::error const& why)
{
  return tl::unexpected(failure{1, why.message});
}

/// Measured times: a CSV file with the columns `length` (tokens) and `seconds`.
outcome<std::vector<ballast::latency_measurement>> load_measurements(std::string const& path)
{
  std::ifstream file(path, std::ios::binary);
  std::string const text{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    return tl::unexpected(failure{1, fmt::format("'{}' cannot be read; check the path", path)});
  }
  auto const bad_row = [&](std::size_t line, std::string_view why) {
    return tl::unexpected(failure{
        1,
        fmt::format("{}: line {}: {}; rows look like 4096,0.0123 under the header length,seconds",
                    path, line, why)});
  };
  ballast::csv_reader reader(text);
  std::vector<ballast::latency_measurement> measured;
  bool header = true;
  while (true) {
    auto const row = reader.next();
    if (!row) { return bad_data(row.error()); }
    auto const fields = row->fields;
    if (fields.empty()) { return measured; }
    if (fields.size() != 2) { return bad_row(row->line, "expected two fields"); }
    if (header) {
      if (fields[0] != "length" || fields[1] != "seconds") {
        return bad_row(row->line, "expected the header length,seconds");
      }
      header = false;
      continue;
    }
    ballast::latency_measurement each;
    auto const whole = [](std::string_view field, auto& number) {
      auto const read = std::from_chars(field.data(), field.data() + field.size(), number);
      return read.ec == std::errc{} && read.ptr == field.data() + field.size();
    };
    if (!whole(fields[0], each.length) || !whole(fields[1], each.seconds)) {
      return bad_row(row->line, "expected a whole number and a decimal number");
    }
    measured.push_back(each);
  }
}

/// The samples of every step, as the data loaders would leave them.
outcome<void> draw_batches(plan_run& run, std::vector<ballast::data_code> const& codes,
                           std::vector<tokens> trace)
{
  auto const& options = run.options;
  run.batches.resize(options.steps);
  if (!codes.empty()) {
    ballast::random_source random(options.seed);
    for (auto& batch : run.batches) {
      auto const drawn = ballast::draw_batch(codes, run.gpus, {}, random, batch);
      if (!drawn) { return usage("--codes", drawn.error()); }
    }
    return {};
  }
  std::size_t const samples = options.batch != 0 ? options.batch : 8 * run.gpus;
  ballast::batch_sampler sampler(std::move(trace), samples, run.gpus, options.seed);
  for (auto& batch : run.batches) { sampler.next(batch); }
  return {};
}

/// The cost model, from the specification alone or fitted to measured times.
outcome<void> price(plan_run& run)
{
  auto const spec = ballast::parse_cost_spec(run.options.cost);
  if (!spec) { return usage("--cost", spec.error()); }
  run.spec = *spec;
  run.cost = spec->cost;
  bool const in_tokens = spec->forward.linear == 0;
  // A token has no time of its own; one per microsecond makes the pictures readable.
  run.seconds_per_unit =
      in_tokens ? 1e-6 : std::ldexp(1.0, spec->log2_flops_per_unit) / (run.options.tflops * 1e12);
  if (run.options.measured.empty()) { return {}; }
  if (in_tokens) { return usage("--measured needs --cost transformer:..., to fit its gamma"); }

  auto measured = load_measurements(run.options.measured);
  if (!measured) { return tl::unexpected(measured.error()); }
  auto const fit = ballast::fit_latency(*measured, spec->forward);
  if (!fit) {
    return tl::unexpected(failure{1, run.options.measured + ": " + fit.error().message});
  }
  auto const cost = ballast::latency_cost(*fit, spec->forward);
  if (!cost) { return bad_data(cost.error()); }
  run.fit = *fit;
  run.spec.gamma = fit->gamma;
  run.measured = std::move(*measured);
  run.cost = *cost;
  run.seconds_per_unit = 1e-12;
  return {};
}

std::vector<ballast::cost_units> loads_before(ballast::sample_batch const& batch,
                                              std::vector<ballast::cost_units> const& costs,
                                              std::size_t gpus)
{
  std::vector<ballast::cost_units> loads(gpus, 0);
  for (std::size_t sample = 0; sample < costs.size(); ++sample) {
    loads[to_index(batch.source[sample])] += costs[sample];
  }
  return loads;
}

outcome<planned> plan_layout(plan_run const& run, std::string const& name,
                             ballast::bag_layout const& layout, ballast::any_policy const& policy,
                             progress& shown)
{
  planned result;
  result.bags = name;
  result.layout = layout;
  std::vector<std::uint32_t> const one_gpu(run.gpus, 1);
  ballast::partition_plan plan;
  ballast::workspace memory;
  for (std::size_t step = 0; step < run.batches.size(); ++step) {
    shown.update(fmt::format("planning {}, step {} of {}", name, step + 1, run.batches.size()));
    ballast::sample_batch const& batch = run.batches[step];
    auto const start = std::chrono::steady_clock::now();
    auto const done =
        ballast::partition_into(plan, memory, batch.lengths, layout, policy, run.cost);
    std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - start;
    if (!done) {
      return tl::unexpected(
          failure{1, fmt::format("step {}, bags {}: {}", step, name, done.error().message)});
    }
    auto const before = loads_before(batch, plan.costs, run.gpus);
    result.steps.push_back({batch.lengths.size(),
                            std::accumulate(batch.lengths.begin(), batch.lengths.end(), tokens{0}),
                            ballast::measure_balance(before, one_gpu),
                            ballast::measure_balance(plan.loads, layout.sizes()), plan.gap(),
                            taken.count(), plan.digest()});
    if (step == 0) {
      result.first = plan;
      result.first_before = before;
    }
    if (!run.options.timeline.empty()) { result.plans.push_back(plan); }
  }
  return result;
}

}  // namespace

outcome<plan_run> run_plan(plan_options const& options)
{
  if (options.trace.empty() == options.codes.empty()) {
    return usage("give the samples either as --trace FILE with --length EXPR or as --codes CODES");
  }
  if (options.trace.empty() != options.length.empty()) {
    return usage("--trace and --length go together: the file, and the columns to add up");
  }
  if (!options.codes.empty() && options.batch != 0) {
    return usage("--batch goes with --trace; with --codes the batch comes from the codes");
  }
  if (options.bags.size() > 1 &&
      !(options.picture.empty() && options.report.empty() && options.timeline.empty())) {
    return usage("--picture, --report and --timeline show one layout; give one --bags with them");
  }
  auto const policy = ballast::parse_policy(options.policy);
  if (!policy) { return usage("--policy", policy.error()); }

  plan_run run;
  run.options = options;
  run.gpus = options.gpus;
  std::vector<ballast::data_code> codes;
  if (!options.codes.empty()) {
    auto parsed = ballast::parse_data_codes(options.codes);
    if (!parsed) { return usage("--codes", parsed.error()); }
    codes = std::move(*parsed);
    run.source = options.codes;
    if (run.gpus == 0) {
      for (auto const& code : codes) { run.gpus += code.gpus; }
    }
  }
  std::vector<ballast::bag_spec> specs;
  for (std::string const& text : options.bags) {
    auto const spec = ballast::parse_bags(text);
    if (!spec) { return usage("--bags", spec.error()); }
    specs.push_back(*spec);
  }
  if (run.gpus == 0 && specs.empty()) {
    return usage("say with --gpus or --bags how many GPUs there are");
  }
  if (run.gpus == 0) { run.gpus = specs.front().gpus(); }
  auto const machines = ballast::cluster_of(run.gpus, options.gpus_per_node);
  if (!machines) { return usage("--gpus", machines.error()); }

  std::vector<std::pair<std::string, ballast::bag_layout>> layouts;
  for (std::size_t index = 0; index < specs.size(); ++index) {
    auto layout = ballast::lay_out(
        specs[index], *machines,
        options.relay ? ballast::misplaced_bags::relay : ballast::misplaced_bags::refuse);
    if (!layout) { return usage("--bags " + options.bags[index], layout.error()); }
    layouts.emplace_back(options.bags[index], std::move(*layout));
  }
  if (layouts.empty()) {
    layouts.emplace_back(fmt::format("g1n{}", run.gpus), ballast::one_gpu_bags(run.gpus));
  }

  if (auto const priced = price(run); !priced) { return tl::unexpected(priced.error()); }
  progress shown;
  std::vector<tokens> trace;
  if (!options.trace.empty()) {
    shown.update("reading " + options.trace);
    auto loaded = ballast::load_length_trace(options.trace, options.length);
    if (!loaded) {
      return loaded.error().code == ballast::error_code::syntax ? usage("--length", loaded.error())
                                                                : bad_data(loaded.error());
    }
    trace = std::move(*loaded);
    run.trace_samples = trace.size();
    run.source = options.trace.substr(options.trace.find_last_of('/') + 1);
  }
  if (auto const drawn = draw_batches(run, codes, std::move(trace)); !drawn) {
    return tl::unexpected(drawn.error());
  }
  for (auto const& [name, layout] : layouts) {
    auto result = plan_layout(run, name, layout, *policy, shown);
    if (!result) { return tl::unexpected(result.error()); }
    run.layouts.push_back(std::move(*result));
  }
  return run;
}

}  // namespace cli
