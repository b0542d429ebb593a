// SPDX-License-Identifier: Apache-2.0
#include "pricing.hpp"

#include "out_of_memory.hpp"

#include <ballast/core/result.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/text/csv.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cli {
namespace {

/// Measured times: a CSV file with the columns `length` (tokens) and `seconds`.
struct measurements {
  std::vector<ballast::latency_measurement> times;
  std::vector<std::size_t> lines;
};

outcome<measurements> load_measurements(std::string const& path)
{
  auto const text = read_text(path);
  if (!text) { return tl::unexpected(text.error()); }
  auto const bad_row = [&](std::size_t line, std::string_view why) {
    return bad_data(
        fmt::format("{}: line {}: {}; rows look like 4096,0.0123 under the header length,seconds",
                    path, line, why));
  };
  auto const whole = [](std::string_view field, auto& number) {
    auto const read = std::from_chars(field.data(), field.data() + field.size(), number);
    return read.ec == std::errc{} && read.ptr == field.data() + field.size();
  };
  ballast::csv_reader reader(*text);
  measurements found;
  for (bool header = true;; header = false) {
    auto const row = reader.next();
    if (!row) { return bad_data(fmt::format("{}: {}", path, row.error().message)); }
    auto const fields = row->fields;
    if (fields.empty()) { return found; }
    if (fields.size() != 2) { return bad_row(row->line, "expected two fields"); }
    if (header) {
      if (fields[0] != "length" || fields[1] != "seconds") {
        return bad_row(row->line, "expected the header length,seconds");
      }
      continue;
    }
    ballast::latency_measurement each;
    if (!whole(fields[0], each.length) || !whole(fields[1], each.seconds)) {
      return bad_row(row->line, "expected a whole number and a decimal number");
    }
    found.times.push_back(each);
    found.lines.push_back(row->line);
  }
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
  auto const fit = ballast::fit_latency(measured->times, spec->forward);
  if (!fit) {
    bool const one_row = fit.error().code == ballast::error_code::out_of_range;
    std::string const line =
        one_row ? fmt::format("line {}: ", measured->lines[fit.error().position]) : "";
    return bad_data(fmt::format("{}: {}{}", work.options.measured, line, fit.error().message));
  }
  auto const cost = ballast::latency_cost(*fit, spec->forward);
  if (!cost) { return bad_data(cost.error().message); }
  work.compute = "what was measured";
  work.fit = *fit;
  for (std::size_t const index : ballast::misfits(measured->times, spec->forward, *fit)) {
    work.misfits.push_back(measured->times[index].length);
  }
  work.measured = std::move(measured->times);
  work.cost = *cost;
  work.seconds_per_unit = 1e-12;
  return {};
}

outcome<void> check_token_width(job const& work)
{
  if (work.bytes_per_token > 0) { return {}; }
  return usage("--cost " + work.options.cost +
               " does not say how wide a token is; give --bytes-per-token as well");
}

}  // namespace cli
