// SPDX-License-Identifier: Apache-2.0
#include "pack_command.hpp"

#include "job.hpp"
#include "out_of_memory.hpp"
#include "output.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "progress.hpp"
#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/packing/pack_to_rules.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <iterator>

namespace cli {
namespace {

using ballast::tokens;

/// How much more than the bound: 0 where nothing is bounded.
double above(double value, double bound)
{
  return bound > 0 ? value / bound - 1 : 0;
}

/// All steps as one, but for the largest bin, which is that of any step.
packed_step all_of(pack_run const& run)
{
  packed_step all;
  for (packed_step const& each : run.steps) {
    all.samples += each.samples;
    all.bins += each.bins;
    all.fewest += each.fewest;
    all.empty += each.empty;
    all.tokens += each.tokens;
    all.seconds += each.seconds;
    if (each.largest > all.largest) {
      all.largest = each.largest;
      all.largest_bound = each.largest_bound;
    }
  }
  return all;
}

/// Share of the room of all bins that has tokens.
double full_share(pack_run const& run, packed_step const& step)
{
  double const room =
      static_cast<double>(step.bins) * static_cast<double>(run.options.rules.capacity);
  return room > 0 ? static_cast<double>(step.tokens) / room : 0;
}

std::string rules_text(pack_options const& options)
{
  ballast::packing_rules const& rules = options.rules;
  std::string text = fmt::format("at most {} in a bin",
                                 count_of(static_cast<std::size_t>(rules.capacity), "token"));
  if (rules.is_padded) { text += ", padded to its longest sample"; }
  if (options.most_samples != 0) {
    text += ", at most " + count_of(options.most_samples, "sample");
  }
  if (rules.length_multiple > 1) {
    text += fmt::format(", lengths rounded up to multiples of {}", rules.length_multiple);
  }
  if (rules.least_bins > 0) { text += ", at least " + count_of(rules.least_bins, "bin"); }
  if (rules.multiple_of > 1) { text += fmt::format(", a multiple of {} bins", rules.multiple_of); }
  return text;
}

std::string row_of(std::string const& name, pack_run const& run, packed_step const& step)
{
  return fmt::format(
      "{:<8}{:>9}{:>9}{:>10}{:>8.2f} %{:>8}{:>10}{:>10}{:>8.2f} %{:>7.1f} %{:>10}\n", name,
      step.samples, step.bins, step.fewest,
      100 * above(static_cast<double>(step.bins), static_cast<double>(step.fewest)), step.empty,
      step.largest, step.largest_bound,
      100 * above(static_cast<double>(step.largest), static_cast<double>(step.largest_bound)),
      100 * full_share(run, step), duration_text(step.seconds));
}

std::string table_of(pack_run const& run)
{
  std::string out = fmt::format("\n{}\n{}, {}\n{}\n\n", shown_text(file_name_of(run.options.trace)),
                                count_of(run.rows, "row"), count_of(run.steps.size(), "step"),
                                rules_text(run.options));
  out += fmt::format("{:>54}{:>30}{:>9}\n", "bins", "largest bin", "bins");
  out += fmt::format("{:<8}{:>9}{:>9}{:>10}{:>10}{:>8}{:>10}{:>10}{:>10}{:>9}{:>10}\n", "step",
                     "samples", "packed", "at least", "gap", "empty", "tokens", "at least", "gap",
                     "full", "packing");
  constexpr std::size_t most_rows = 20;
  for (std::size_t step = 0; run.steps.size() > 1 && step < run.steps.size(); ++step) {
    if (step == most_rows) {
      out += "...\n";
      break;
    }
    out += row_of(fmt::format("{}", step), run, run.steps[step]);
  }
  return out + row_of("all", run, all_of(run)) + "\n";
}

nlohmann::ordered_json to_json(pack_run const& run)
{
  pack_options const& options = run.options;
  packed_step const all = all_of(run);
  nlohmann::ordered_json json;
  json["trace"] = options.trace;
  json["length"] = options.length;
  json["capacity"] = options.rules.capacity;
  json["padded"] = options.rules.is_padded;
  if (options.most_samples != 0) { json["most_samples"] = options.most_samples; }
  json["least_bins"] = options.rules.least_bins;
  json["multiple_of"] = options.rules.multiple_of;
  json["length_multiple"] = options.rules.length_multiple;
  json["steps"] = run.steps.size();
  json["samples"] = all.samples;
  json["bins"] = all.bins;
  json["fewest_bins"] = all.fewest;
  json["gap"] = above(static_cast<double>(all.bins), static_cast<double>(all.fewest));
  json["empty_bins"] = all.empty;
  json["largest"] = all.largest;
  json["largest_bound"] = all.largest_bound;
  json["full_share"] = full_share(run, all);
  json["millis"] = all.seconds * 1e3;
  json["digest"] = run.digest.value();
  json["owners"] = nlohmann::ordered_json::array();
  for (packed_step const& each : run.steps) { json["owners"].push_back(each.owner); }
  return json;
}

/// All lengths of the trace, in order.
outcome<std::vector<tokens>> read_trace(pack_options const& options)
{
  job read;
  read.options.trace = options.trace;
  auto text = read_text(options.trace);
  if (!text) { return tl::unexpected(text.error()); }
  read.trace_text = std::move(*text);
  return read_lengths(read, options.length, "--length");
}

}  // namespace

outcome<pack_run> run_pack(pack_options const& options)
{
  if (auto const checked = check_plan(options.plan, options.format); !checked) {
    return tl::unexpected(checked.error());
  }
  if (auto const checked = check_paths({{"--trace", &options.trace}}, {{"--plan", &options.plan}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const trace = read_trace(options);
  if (!trace) { return tl::unexpected(trace.error()); }
  if (options.batch > trace->size()) {
    return usage(fmt::format("--batch: {} a step are more than the {} of {}; give at most {}",
                             count_of(options.batch, "sample"), count_of(trace->size(), "row"),
                             options.trace, trace->size()));
  }
  pack_run run;
  run.options = options;
  run.rows = trace->size();
  ballast::packing_rules rules = options.rules;
  if (options.most_samples != 0) { rules.most_samples = options.most_samples; }
  std::size_t const batch = options.batch != 0 ? options.batch : trace->size();
  progress shown;
  for (std::size_t first = 0; first < trace->size(); first += batch) {
    shown.update([&] { return fmt::format("packing, {} of {} rows", first, trace->size()); });
    auto const lengths = std::span(*trace).subspan(first, std::min(batch, trace->size() - first));
    auto const start = std::chrono::steady_clock::now();
    auto const packed = ballast::pack_to_rules(lengths, rules);
    std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - start;
    std::size_t const step = run.steps.size();
    if (!packed) {
      ballast::error const& why = packed.error();
      bool const is_of_row = why.position < lengths.size() && why.message.starts_with("sample ");
      return bad_data(fmt::format(
          "step {}: {}{}", step, why.message,
          is_of_row ? fmt::format(" (row {} of the trace)", first + why.position + 1) : ""));
    }
    run.steps.push_back({.samples = lengths.size(),
                         .bins = packed->bins(),
                         .fewest = packed->lower_bound,
                         .empty = packed->empty.size(),
                         .tokens = std::reduce(lengths.begin(), lengths.end(), std::int64_t{0}),
                         .largest = packed->largest,
                         .largest_bound = packed->largest_bound,
                         .seconds = taken.count()});
    run.digest.add(packed->digest());
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      std::size_t const bin = to_index(packed->owner[ballast::to_id<ballast::sample_id>(sample)]);
      if (options.format == "json") { run.steps.back().owner.push_back(bin); }
      if (options.plan.empty()) { continue; }
      fmt::format_to(std::back_inserter(run.plan_lines), "{},{},{},{}\n", step, first + sample, bin,
                     lengths[sample]);
    }
  }
  return run;
}

outcome<void> show_pack(pack_run const& run)
{
  output_files files;
  files.add_plan(run.options.plan, "step,sample,bag,tokens\n" + run.plan_lines);
  if (auto const done = files.write(); !done) { return done; }
  if (run.options.format != "json") { return files.print_table(table_of(run)); }
  return print_json(nlohmann::ordered_json::array({to_json(run)}));
}

}  // namespace cli
