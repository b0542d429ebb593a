// SPDX-License-Identifier: Apache-2.0
#include "pricing.hpp"

#include "table.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/cost/measured_times.hpp>

#include <fmt/format.h>

#include <cmath>

namespace cli {
namespace {

outcome<ballast::measured_times> load_measurements(std::string const& path)
{
  auto const rows = read_table(path);
  if (!rows) { return tl::unexpected(rows.error()); }
  auto times = ballast::read_measured_times(rows->csv);
  if (!times) {
    return bad_data(told(*rows, times.error()) +
                    "; the columns are length,seconds of calls, or "
                    "length_sum,square_sum,sequences,gpus,seconds of steps");
  }
  for (std::size_t& line : times->lines) { line -= rows->is_json ? 1 : 0; }
  return std::move(*times);
}

/// Why times could not be fitted, with the line that is wrong.
tl::unexpected<failure> unfitted(std::string const& path, ballast::error const& why,
                                 std::vector<std::size_t> const& lines)
{
  bool const one_row = why.code == ballast::error_code::out_of_range && why.position < lines.size();
  return bad_data(fmt::format(
      "{}: {}{}", path, one_row ? fmt::format("line {}: ", lines[why.position]) : "", why.message));
}

outcome<void> fit_to_calls(job& work, ballast::measured_times& measured,
                           ballast::flop_polynomial forward)
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
outcome<void> fit_to_steps(job& work, ballast::measured_times const& measured,
                           ballast::cost_spec const& spec)
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
  return !measured->steps.empty() ? fit_to_steps(work, *measured, *spec)
                                  : fit_to_calls(work, *measured, spec->forward);
}

outcome<void> check_token_width(job const& work)
{
  if (work.bytes_per_token > 0) { return {}; }
  return usage("--cost " + work.options.cost +
               " does not say how wide a token is; give --bytes-per-token as well");
}

}  // namespace cli
