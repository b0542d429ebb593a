// SPDX-License-Identifier: Apache-2.0
#include "pricing.hpp"

#include "out_of_memory.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/text/csv.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <system_error>

namespace cli {
namespace {

constexpr std::string_view latency_header = "length,seconds";
constexpr std::string_view step_header = "length_sum,square_sum,sequences,gpus,seconds";

/// Measured times: a CSV file, whose header says whether they are of calls or of steps.
struct measurements {
  std::vector<ballast::gamma_fit::measurement> calls;
  std::vector<ballast::step_fit::measurement> steps;
  std::vector<std::size_t> lines;
  bool of_steps = false;
};

outcome<measurements> load_measurements(std::string const& path)
{
  auto const text = read_text(path);
  if (!text) { return tl::unexpected(text.error()); }
  ballast::csv_reader reader(*text);
  measurements found;
  bool& steps = found.of_steps;
  auto const bad_row = [&](std::size_t line, std::string_view why) {
    return bad_data(fmt::format("{}: line {}: {}; rows look like {} under the header {}", path,
                                line, why, steps ? "18000,81000000,4,1,0.93" : "4096,0.0123",
                                steps ? step_header : latency_header));
  };
  auto const read = [](std::string_view field, auto& number) {
    auto const done = std::from_chars(field.data(), field.data() + field.size(), number);
    return done.ec == std::errc{} && done.ptr == field.data() + field.size();
  };
  for (bool header = true;; header = false) {
    auto const row = reader.next();
    if (!row) { return bad_data(fmt::format("{}: {}", path, row.error().message)); }
    auto const fields = row->fields;
    if (fields.empty()) { return found; }
    if (header) {
      std::string const names = fmt::format("{}", fmt::join(fields, ","));
      steps = names == step_header;
      if (!steps && names != latency_header) {
        return bad_row(row->line, fmt::format("expected the header {}, or for steps {}",
                                              latency_header, step_header));
      }
      continue;
    }
    if (fields.size() != (steps ? 5 : 2)) {
      return bad_row(row->line, steps ? "expected five fields" : "expected two fields");
    }
    ballast::gamma_fit::measurement call;
    ballast::step_fit::measurement step;
    bool const readable = steps ? read(fields[0], step.length_sum) &&
                                      read(fields[1], step.square_sum) &&
                                      read(fields[2], step.sequences) &&
                                      read(fields[3], step.gpus) && read(fields[4], step.seconds)
                                : read(fields[0], call.length) && read(fields[1], call.seconds);
    if (!readable) { return bad_row(row->line, "expected whole numbers and a decimal number"); }
    if (steps) {
      found.steps.push_back(step);
    } else {
      found.calls.push_back(call);
    }
    found.lines.push_back(row->line);
  }
}

/// Why times could not be fitted, with the line that is wrong.
tl::unexpected<failure> unfitted(std::string const& path, ballast::error const& why,
                                 std::vector<std::size_t> const& lines)
{
  bool const one_row = why.code == ballast::error_code::out_of_range && why.position < lines.size();
  return bad_data(fmt::format(
      "{}: {}{}", path, one_row ? fmt::format("line {}: ", lines[why.position]) : "", why.message));
}

outcome<void> fit_to_calls(job& work, measurements& measured, ballast::flop_polynomial forward)
{
  auto const fit = ballast::fit_latency(measured.calls, forward);
  if (!fit) { return unfitted(work.options.measured, fit.error(), measured.lines); }
  auto const cost = ballast::latency_cost(*fit, forward);
  if (!cost) { return bad_data(cost.error().message); }
  work.fit = *fit;
  for (std::size_t const index : fit->misfits(measured.calls, forward)) {
    work.misfits.push_back(measured.calls[index].length);
  }
  work.measured = std::move(measured.calls);
  work.cost = *cost;
  work.seconds_per_unit = 1e-12;
  return {};
}

/// A long log says what gamma is, and what sequences and steps take; a few rows do not.
outcome<void> fit_to_steps(job& work, measurements const& measured, ballast::cost_spec const& spec)
{
  constexpr std::size_t long_log = 20;
  auto const flops = ballast::step_flops(spec.forward, spec.passes);
  if (!flops) { return usage("--cost", flops.error()); }
  ballast::step_fit::terms terms{.gamma = spec.gamma};
  if (measured.steps.size() >= long_log) {
    terms = {.gamma = std::nullopt, .sequences = true, .steps = true};
  }
  auto const fit = ballast::fit_steps(measured.steps, *flops, terms);
  if (!fit) { return unfitted(work.options.measured, fit.error(), measured.lines); }
  auto const cost = fit->cost(*flops);
  if (!cost) { return bad_data(cost.error().message); }
  work.step_fit = *fit;
  work.fit = fit->compute;
  for (std::size_t const index : fit->misfits(measured.steps, *flops)) {
    work.misfits.push_back(static_cast<std::int64_t>(measured.lines[index]));
  }
  work.cost = *cost;
  work.seconds_per_unit = 1e-9;
  return {};
}

}  // namespace

outcome<void> price(job& work)
{
  constexpr double usual_tflops = 400;
  constexpr std::size_t bf16_bytes = 2;
  auto const spec = ballast::parse_cost_spec(work.options.cost);
  if (!spec) { return usage("--cost", spec.error()); }
  work.cost = spec->cost;
  if (work.options.bytes_per_token != 0) {
    work.bytes_per_token = static_cast<double>(work.options.bytes_per_token);
    work.array = "as --bytes-per-token says";
  } else if (spec->shape.hidden != 0) {
    work.bytes_per_token = static_cast<double>(bf16_bytes * spec->shape.hidden);
    work.array = fmt::format("bf16 activations of width {}", spec->shape.hidden);
  }
  bool const in_tokens = spec->forward.linear == 0;
  work.times_known = !in_tokens;
  if (in_tokens && work.options.tflops != 0) {
    return usage(
        "--tflops: --cost tokens has no times to predict; leave it out, or give "
        "--cost transformer:...");
  }
  if (work.options.measured.empty()) {
    if (work.options.tflops == 0) { work.options.tflops = usual_tflops; }
    work.compute = fmt::format("the forward pass of {} layer{} at {} TFLOP/s{}", spec->shape.layers,
                               spec->shape.layers == 1 ? "" : "s", work.options.tflops,
                               work.machines.gpu_speeds.empty() ? "" : " on the fastest GPU");
    // A token has no time of its own; one per microsecond makes the pictures readable.
    work.seconds_per_unit =
        in_tokens ? 1e-6
                  : std::ldexp(1.0, spec->log2_flops_per_unit) / (work.options.tflops * 1e12);
    return {};
  }

  if (in_tokens) { return usage("--measured needs --cost transformer:..., to fit its gamma"); }
  if (work.options.tflops != 0) {
    return usage("--tflops predicts times and --measured brings them; give one of the two");
  }
  auto measured = load_measurements(work.options.measured);
  if (!measured) { return tl::unexpected(measured.error()); }
  work.compute = "what was measured";
  work.measurements = measured->lines.size();
  return measured->of_steps ? fit_to_steps(work, *measured, *spec)
                            : fit_to_calls(work, *measured, spec->forward);
}

outcome<void> check_token_width(job const& work)
{
  if (work.bytes_per_token > 0) { return {}; }
  return usage("--cost " + work.options.cost +
               " does not say how wide a token is; give --bytes-per-token as well");
}

}  // namespace cli
