// SPDX-License-Identifier: Apache-2.0
#include "pack_command.hpp"

#include "job.hpp"
#include "out_of_memory.hpp"
#include "output.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "progress.hpp"
#include "read_policy.hpp"
#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/packing/pack.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <iterator>

namespace cli {
namespace {

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
      static_cast<double>(step.bins) * static_cast<double>(run.options.most_per_gpu);
  return room > 0 ? static_cast<double>(step.tokens) / room : 0;
}

std::string limits_text(pack_options const& options)
{
  std::string text = fmt::format("cost tokens, at most {} in a bin",
                                 count_of(static_cast<std::size_t>(options.most_per_gpu), "token"));
  if (options.bins.is_padded) { text += ", padded to its longest sample"; }
  if (options.samples != "any") { text += ", samples " + options.samples; }
  for (std::string const& each : options.also) { text += ", " + shown_text(each); }
  if (!options.together.empty()) { text += ", together by " + shown_text(options.together); }
  if (!options.apart.empty()) { text += ", apart by " + shown_text(options.apart); }
  if (options.rounded_to > 1) {
    text += fmt::format(", lengths rounded up to multiples of {}", options.rounded_to);
  }
  if (options.bins.least > 0) { text += ", at least " + count_of(options.bins.least, "bin"); }
  if (options.bins.multiple_of > 1) {
    text += fmt::format(", a multiple of {} bins", options.bins.multiple_of);
  }
  return text;
}

std::string row_of(std::string const& name, pack_run const& run, packed_step const& step)
{
  return fmt::format(
      "{:<8}{:>9}{:>9}{:>10}{:>8.1f} %{:>8}{:>10}{:>10}{:>8.1f} %{:>7.1f} %{:>10}\n", name,
      step.samples, step.bins, step.fewest,
      100 * above(static_cast<double>(step.bins), static_cast<double>(step.fewest)), step.empty,
      step.largest, step.largest_bound,
      100 * above(static_cast<double>(step.largest), static_cast<double>(step.largest_bound)),
      100 * full_share(run, step), duration_text(step.seconds));
}

std::string table_of(pack_run const& run)
{
  std::string out = fmt::format("{}\n{}\n{}, {}\n\n", limits_text(run.options),
                                shown_text(file_name_of(run.options.trace)),
                                count_of(run.rows, "row"), count_of(run.steps.size(), "step"));
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
  json["most_per_gpu"] = options.most_per_gpu;
  json["padded"] = options.bins.is_padded;
  if (options.samples != "any") { json["counts"] = options.samples; }
  if (!options.also.empty()) { json["also"] = options.also; }
  for (auto const& [key, given] :
       {std::pair{"together", &options.together}, std::pair{"apart", &options.apart},
        std::pair{"id", &options.id}}) {
    if (!given->empty()) { json[key] = *given; }
  }
  json["level"] = options.is_level;
  json["least_bins"] = options.bins.least;
  json["bins_multiple_of"] = options.bins.multiple_of;
  json["rounded_to"] = options.rounded_to;
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
  std::size_t next = 0;
  for (std::size_t step = 0; step < run.steps.size() && !run.ids.of_row.empty(); ++step) {
    auto& ids = json["ids"].emplace_back(nlohmann::ordered_json::array());
    for (std::size_t left = run.steps[step].samples; left > 0; --left) {
      ids.push_back(run.ids.json(next++));
    }
  }
  return json;
}

/// The limits of the step of so many rows from `first` on.
ballast::placement_limits limits_of(pack_options const& options, trace_rows const& rows,
                                    ballast::counts samples, std::size_t first, std::size_t count)
{
  auto const of_step = [&](std::span<std::int64_t const> all) {
    return all.empty() ? all : all.subspan(first, count);
  };
  ballast::placement_limits limits;
  limits.together = of_step(rows.group_of_row);
  limits.apart = of_step(rows.apart_of_row);
  limits.samples = samples;
  if (options.rounded_to == 1) {
    limits.most_per_gpu = options.most_per_gpu;
  } else {
    limits.also.add({.most_per_gpu = options.most_per_gpu, .rounded_to = options.rounded_to});
  }
  for (trace_rows::row_cap const& each : rows.also) {
    limits.also.add({.of = of_step(each.of_row), .most_per_gpu = each.most_per_gpu});
  }
  if (options.is_level) { limits.then = ballast::most_level; }
  return limits;
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
  auto const samples = read_samples(options.samples);
  if (!samples) { return tl::unexpected(samples.error()); }
  auto const file = read_table(options.trace);
  if (!file) { return tl::unexpected(file.error()); }
  auto rows = read_rows(options, *file);
  if (!rows) { return tl::unexpected(rows.error()); }
  auto const* const trace = &rows->trace;
  if (options.batch > trace->size()) {
    return usage(fmt::format("--batch: {} a step are more than the {} of {}; give at most {}",
                             count_of(options.batch, "sample"), count_of(trace->size(), "row"),
                             options.trace, trace->size()));
  }
  pack_run run;
  run.options = options;
  run.rows = trace->size();
  std::size_t const batch = options.batch != 0 ? options.batch : trace->size();
  progress shown;
  for (std::size_t first = 0; first < trace->size(); first += batch) {
    shown.update([&] { return fmt::format("packing, {} of {} rows", first, trace->size()); });
    auto const lengths = std::span(*trace).subspan(first, std::min(batch, trace->size() - first));
    auto const start = std::chrono::steady_clock::now();
    auto const packed = ballast::pack(
        lengths, limits_of(options, *rows, *samples, first, lengths.size()), options.bins);
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
                         .largest = packed->largest(),
                         .largest_bound = packed->largest_bound,
                         .seconds = taken.count()});
    run.digest.add(packed->digest());
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      std::size_t const bin = to_index(packed->owner[ballast::to_id<ballast::sample_id>(sample)]);
      if (options.format == "json") { run.steps.back().owner.push_back(bin); }
      if (options.plan.empty()) { continue; }
      fmt::format_to(std::back_inserter(run.plan_lines), "{},{},{},{}{}\n", step, first + sample,
                     bin, lengths[sample], rows->ids.field(first + sample));
    }
  }
  run.ids = std::move(rows->ids);
  return run;
}

outcome<void> show_pack(pack_run const& run)
{
  output_files files;
  files.add_plan(run.options.plan,
                 fmt::format("step,sample,bag,tokens{}\n{}", run.ids.column(), run.plan_lines),
                 run.ids.are_numbers);
  return files.show(
      run.options.format, [&] { return table_of(run); }, [&] { return to_json(run); });
}

}  // namespace cli
