// SPDX-License-Identifier: Apache-2.0
#include "plan_command.hpp"

#include "progress.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
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
tl::unexpected<failure> bad_data(std::string message)
{
  return tl::unexpected(failure{1, std::move(message)});
}

/// Where the samples of the steps come from; the same seed gives the same steps again.
class step_source {
 public:
  step_source(std::vector<ballast::data_code> codes, std::size_t gpus, std::uint64_t seed)
      : gpus_(gpus), from_(from_codes{std::move(codes), ballast::random_source(seed)})
  {}
  step_source(std::vector<tokens> trace, std::size_t batch, std::size_t gpus, std::uint64_t seed)
      : gpus_(gpus), from_(ballast::batch_sampler(std::move(trace), batch, gpus, seed))
  {}

  [[nodiscard]] ballast::result<void> next(ballast::sample_batch& out)
  {
    if (auto* const codes = std::get_if<from_codes>(&from_)) {
      return ballast::draw_batch(codes->codes, gpus_, {}, codes->random, out);
    }
    std::get<ballast::batch_sampler>(from_).next(out);
    return {};
  }

 private:
  struct from_codes {
    std::vector<ballast::data_code> codes;
    ballast::random_source random;
  };

  std::size_t gpus_;
  std::variant<from_codes, ballast::batch_sampler> from_;
};

/// Measured times: a CSV file with the columns `length` (tokens) and `seconds`.
struct measurements {
  std::vector<ballast::latency_measurement> times;
  std::vector<std::size_t> lines;
};

outcome<measurements> load_measurements(std::string const& path)
{
  auto const text = ballast::read_file(path);
  if (!text) { return bad_data(text.error().message); }
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

/// The cost model, from the specification alone or fitted to measured times.
outcome<void> price(plan_run& run)
{
  constexpr double usual_tflops = 400;
  auto const spec = ballast::parse_cost_spec(run.options.cost);
  if (!spec) { return usage("--cost", spec.error()); }
  run.cost = spec->cost;
  bool const in_tokens = spec->forward.linear == 0;
  if (run.options.measured.empty()) {
    if (run.options.tflops == 0) { run.options.tflops = usual_tflops; }
    // A token has no time of its own; one per microsecond makes the pictures readable.
    run.seconds_per_unit =
        in_tokens ? 1e-6 : std::ldexp(1.0, spec->log2_flops_per_unit) / (run.options.tflops * 1e12);
    return {};
  }

  if (in_tokens) { return usage("--measured needs --cost transformer:..., to fit its gamma"); }
  if (run.options.tflops != 0) {
    return usage("--tflops predicts times and --measured brings them; give one of the two");
  }
  auto measured = load_measurements(run.options.measured);
  if (!measured) { return tl::unexpected(measured.error()); }
  auto const fit = ballast::fit_latency(measured->times, spec->forward);
  if (!fit) {
    bool const one_row = fit.error().code == ballast::error_code::out_of_range;
    std::string const line =
        one_row ? fmt::format("line {}: ", measured->lines[fit.error().position]) : "";
    return bad_data(fmt::format("{}: {}{}", run.options.measured, line, fit.error().message));
  }
  auto const cost = ballast::latency_cost(*fit, spec->forward);
  if (!cost) { return bad_data(cost.error().message); }
  run.fit = *fit;
  run.measured = std::move(measured->times);
  run.cost = *cost;
  run.seconds_per_unit = 1e-12;
  return {};
}

/// No file that is written may be one that is read, or written as well.
outcome<void> check_paths(plan_options const& options)
{
  std::vector<std::pair<std::string_view, std::string const*>> taken = {
      {"--trace", &options.trace}, {"--measured", &options.measured}};
  for (auto const& [name, path] :
       std::initializer_list<std::pair<std::string_view, std::string const*>>{
           {"--picture", &options.picture},
           {"--report", &options.report},
           {"--timeline", &options.timeline}}) {
    if (path->empty()) { continue; }
    std::error_code ignored;
    auto const place = [&](std::string const& file) {
      return std::filesystem::weakly_canonical(file, ignored);
    };
    bool const device = std::filesystem::exists(*path, ignored) &&
                        !std::filesystem::is_regular_file(*path, ignored);
    for (auto const& [other, file] : taken) {
      if (!device && !file->empty() && place(*file) == place(*path)) {
        return usage(fmt::format("{} and {} name the same file, {}; choose another for {}", other,
                                 name, *path, name));
      }
    }
    taken.emplace_back(name, path);
  }
  return {};
}

outcome<void> check_options(plan_options const& options)
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
  return check_paths(options);
}

/// Plans all steps over one layout. Steps are drawn one by one, so that their number costs no memory.
outcome<planned> plan_layout(plan_run& run, std::string const& name, ballast::bag_layout layout,
                             ballast::any_policy const& policy, step_source source, progress& shown)
{
  constexpr std::size_t most_lengths = 1'000'000;
  plan_options const& options = run.options;
  bool const first_shown =
      !options.picture.empty() || !options.report.empty() || prints_picture(options);
  planned result;
  result.bags = name;
  ballast::sample_batch batch;
  ballast::partition_plan plan;
  ballast::workspace memory;
  for (std::size_t step = 0; step < options.steps; ++step) {
    shown.update(
        [&] { return fmt::format("planning {}, step {} of {}", name, step + 1, options.steps); });
    if (auto const drawn = source.next(batch); !drawn) { return usage("--codes", drawn.error()); }
    auto const start = std::chrono::steady_clock::now();
    auto const done =
        ballast::partition_into(plan, memory, batch.lengths, layout, policy, run.cost);
    std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - start;
    if (!done) {
      std::string const row =
          done.error().position < batch.rows.size()
              ? fmt::format(" (row {} of the trace)", batch.rows[done.error().position] + 1)
              : "";
      return bad_data(
          fmt::format("step {}, bags {}: {}{}", step + 1, name, done.error().message, row));
    }
    result.steps.push_back(
        {.samples = static_cast<std::int64_t>(batch.lengths.size()),
         .length = std::accumulate(batch.lengths.begin(), batch.lengths.end(), tokens{0}),
         .before = ballast::measure_as_read(batch, plan.costs, run.gpus),
         .after = ballast::measure_balance(plan.loads, layout.sizes()),
         .gap = plan.gap(),
         .plan_seconds = taken.count()});
    result.digest.add(plan.digest());

    auto const as_planned = [&] {
      return ballast::bars_as_planned(plan, layout, batch.lengths, run.seconds_per_unit);
    };
    if (step == 0 && first_shown) {
      result.first_before =
          ballast::bars_as_read(batch, plan.costs, run.gpus, run.seconds_per_unit);
      result.first_after = as_planned();
    }
    if (!options.timeline.empty() && step < most_timeline_steps) {
      result.timeline.push_back(as_planned());
    }
    if (!options.report.empty() && run.lengths.size() < most_lengths) {
      run.lengths.insert(run.lengths.end(), batch.lengths.begin(), batch.lengths.end());
    }
  }
  result.layout = std::move(layout);
  return result;
}

}  // namespace

bool prints_picture(plan_options const& options)
{
  return options.format == "table" && isatty(STDOUT_FILENO) == 1;
}

outcome<plan_run> run_plan(plan_options const& options)
{
  if (auto const checked = check_options(options); !checked) {
    return tl::unexpected(checked.error());
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
  if (!machines) { return usage("--gpus, --gpus-per-node", machines.error()); }

  std::vector<std::pair<std::string, ballast::bag_layout>> layouts;
  for (std::size_t index = 0; index < specs.size(); ++index) {
    auto layout = ballast::lay_out(
        specs[index], *machines,
        options.relay ? ballast::misplaced_bags::relay : ballast::misplaced_bags::refuse);
    if (!layout) {
      return usage(
          fmt::format("--bags {}{}", options.bags[index], options.relay ? "" : ", --relay"),
          layout.error());
    }
    layouts.emplace_back(options.bags[index], std::move(*layout));
  }
  if (layouts.empty()) {
    layouts.emplace_back(fmt::format("g1n{}", run.gpus), ballast::one_gpu_bags(run.gpus));
  }
  if (auto const priced = price(run); !priced) { return tl::unexpected(priced.error()); }

  progress shown;
  std::vector<tokens> trace;
  if (!options.trace.empty()) {
    auto loaded = ballast::load_length_trace(options.trace, options.length);
    if (!loaded) {
      using ballast::error_code;
      bool const expression = loaded.error().code == error_code::syntax ||
                              loaded.error().code == error_code::out_of_range;
      return expression ? usage("--length", loaded.error()) : bad_data(loaded.error().message);
    }
    trace = std::move(*loaded);
    run.trace_samples = trace.size();
    run.source = options.trace.substr(options.trace.find_last_of('/') + 1);
  }
  std::size_t const batch = options.batch != 0 ? options.batch : 8 * run.gpus;
  step_source const source = codes.empty()
                                 ? step_source(std::move(trace), batch, run.gpus, options.seed)
                                 : step_source(std::move(codes), run.gpus, options.seed);
  for (auto& [name, layout] : layouts) {
    auto result = plan_layout(run, name, std::move(layout), *policy, source, shown);
    if (!result) { return tl::unexpected(result.error()); }
    run.layouts.push_back(std::move(*result));
  }
  return run;
}

}  // namespace cli
