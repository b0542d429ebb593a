// SPDX-License-Identifier: Apache-2.0
#include "report_command.hpp"

#include "cleanup.hpp"
#include "out_of_memory.hpp"
#include "output.hpp"
#include "output_paths.hpp"
#include "progress.hpp"
#include "shown_text.hpp"
#include "write_file.hpp"

#include <ballast/core/ids.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/pipeline/schedule.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace cli {
namespace {

using integers = std::vector<std::int64_t>;

constexpr std::int64_t most_of_a_pipeline = std::int64_t{1} << 20;

/// An array of whole numbers from `least`, or nothing.
std::optional<integers> numbers_in(nlohmann::json const& array, std::int64_t least)
{
  if (!array.is_array()) { return std::nullopt; }
  integers numbers;
  for (auto const& each : array) {
    if (!each.is_number_integer() || each.get<std::int64_t>() < least) { return std::nullopt; }
    numbers.push_back(each.get<std::int64_t>());
  }
  return numbers;
}

pages::spread spread_of(std::vector<double> const& values)
{
  if (values.empty()) { return {}; }
  return {std::ranges::min(values),
          std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          std::ranges::max(values)};
}

/// The tasks of a pipeline's step, or what is wrong with them.
tl::expected<pages::log_page_pipeline, std::string> read_tasks(std::uint64_t step,
                                                               nlohmann::json const& tasks)
{
  if (!tasks.is_array() || tasks.empty()) {
    return tl::unexpected<std::string>("'tasks' is no array of tasks");
  }
  pages::log_page_pipeline pipeline{step};
  for (auto const& task : tasks) {
    auto const numbers = numbers_in(task, 0);
    if (!numbers || numbers->size() != 8) {
      return tl::unexpected<std::string>("a task of 'tasks' is no array of 8 whole numbers from 0");
    }
    integers const& of = *numbers;
    if (std::max({of[0], of[1], of[2]}) >= most_of_a_pipeline) {
      return tl::unexpected(fmt::format(
          "a task of 'tasks' has a rank, stage or microbatch of {} or more", most_of_a_pipeline));
    }
    if (of[3] > 1 || of[5] < of[4] || of[7] < of[6]) {
      return tl::unexpected<std::string>(
          "a task of 'tasks' is neither 0, a forward, nor 1, a backward, or ends before it begins");
    }
    auto const index = [&of](std::size_t at) { return static_cast<std::uint32_t>(of[at]); };
    pages::pipeline_bar bar{ballast::to_id<ballast::pipeline_rank>(index(0)),
                            ballast::to_id<ballast::stage_id>(index(1)),
                            ballast::to_id<ballast::microbatch_id>(index(2)),
                            of[3] == 1 ? ballast::pass::backward : ballast::pass::forward};
    auto const place = [&](std::int64_t start, std::int64_t end) {
      bar.start = static_cast<double>(start) * 1e-9;
      bar.duration = static_cast<double>(end - start) * 1e-9;
      return bar;
    };
    pipeline.ranks = std::max(pipeline.ranks, std::size_t{index(0)} + 1);
    pipeline.measured.push_back(place(of[4], of[5]));
    if (of[7] > 0) { pipeline.simulated.push_back(place(of[6], of[7])); }
  }
  return pipeline;
}

/// A line of a step_log, or what is wrong with it.
tl::expected<std::variant<pages::log_page_step, pages::log_page_pipeline>, std::string> read_line(
    std::string_view text)
{
  auto const line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object()) { return tl::unexpected<std::string>("it is no object of JSON"); }
  auto const number = line.find("step");
  if (number == line.end() || !number->is_number_unsigned()) {
    return tl::unexpected<std::string>("'step' is no whole number from 0");
  }
  if (auto const tasks = line.find("tasks"); tasks != line.end()) {
    return read_tasks(number->get<std::uint64_t>(), *tasks);
  }
  std::vector<integers> all;
  for (auto const& [key, least] :
       {std::pair("lengths", 0), std::pair("costs", 0), std::pair("owner", 0),
        std::pair("loads", 0), std::pair("speeds", 1), std::pair("makespan", 0),
        std::pair("bound", 0), std::pair("measured_ns", 0)}) {
    auto const found = line.find(key);
    auto numbers = found == line.end() ? std::nullopt : numbers_in(*found, least);
    if (!numbers) {
      return tl::unexpected(fmt::format("'{}' is no array of whole numbers from {}", key, least));
    }
    all.push_back(std::move(*numbers));
  }
  auto const& [lengths, costs, owner, loads, speeds, makespan, bound, measured] =
      std::tie(all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7]);
  if (costs.size() != lengths.size() || owner.size() != lengths.size()) {
    return tl::unexpected<std::string>("'lengths', 'costs' and 'owner' differ in size");
  }
  if (speeds.size() != loads.size() || loads.empty()) {
    return tl::unexpected<std::string>(loads.empty() ? "'loads' is empty"
                                                     : "'loads' and 'speeds' differ in size");
  }
  if (std::ranges::any_of(owner, [&loads](std::int64_t bag) { return bag >= std::ssize(loads); })) {
    return tl::unexpected<std::string>("'owner' names a bag that 'loads' does not have");
  }
  for (auto const* fraction : {&makespan, &bound}) {
    if (fraction->size() != 2 || fraction->back() < 1) {
      return tl::unexpected<std::string>("'makespan' or 'bound' is no fraction");
    }
  }
  if (ballast::ratio{makespan[0], makespan[1]} < ballast::ratio{bound[0], bound[1]}) {
    return tl::unexpected<std::string>("'makespan' is below 'bound'");
  }
  pages::log_page_step step;
  step.step = number->get<std::uint64_t>();
  step.samples = lengths.size();
  for (std::int64_t const length : lengths) {
    if (length > std::numeric_limits<std::int64_t>::max() - step.tokens) {
      return tl::unexpected<std::string>("'lengths' adds up to 2^63 or more");
    }
    step.tokens += length;
  }
  std::vector<double> per_speed;
  double total = 0;
  double all_speeds = 0;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    auto const speed = static_cast<double>(speeds[bag]);
    per_speed.push_back(static_cast<double>(loads[bag]) / speed);
    total += static_cast<double>(loads[bag]);
    all_speeds += speed;
  }
  step.load = spread_of(per_speed);
  if (all_speeds > 0) { step.load.mean = total / all_speeds; }
  auto const value = [](integers const& fraction) {
    return static_cast<double>(fraction[0]) / static_cast<double>(fraction[1]);
  };
  if (value(bound) > 0) { step.gap = std::max(0.0, value(makespan) / value(bound) - 1); }
  std::vector<double> seconds;
  for (std::int64_t const each : measured) { seconds.push_back(static_cast<double>(each) * 1e-9); }
  step.measured = spread_of(seconds);
  return step;
}

}  // namespace

outcome<report_run> run_report(report_options const& options)
{
  report_run run{options, {}, {}, false};
  if (run.options.output.empty() && options.log == standard_input) {
    return usage("the log comes from standard input, which has no name; give the page's, --output");
  }
  if (run.options.output.empty()) { run.options.output = options.log + ".html"; }
  if (auto const checked =
          check_paths({{"the log", &run.options.log}}, {{"--output", &run.options.output}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const text = read_text(options.log);
  if (!text) { return tl::unexpected(text.error()); }
  progress shown;
  std::string_view rest = *text;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    std::size_t const end = rest.find('\n');
    if (end == std::string_view::npos) {
      run.left_out = true;  // its writer may be at work
      break;
    }
    auto step = read_line(rest.substr(0, end));
    if (!step) {
      return bad_data(fmt::format("{}: line {}: {}; remove the line, or name the log of a step_log",
                                  options.log, line, step.error()));
    }
    if (auto* const pipeline = std::get_if<pages::log_page_pipeline>(&*step)) {
      run.pipelines.add(std::move(*pipeline));
    } else {
      run.steps.push_back(std::get<pages::log_page_step>(*step));
    }
    rest.remove_prefix(end + 1);
    shown.update([&] { return fmt::format("reading {}: {} steps", options.log, line); });
  }
  if (run.steps.empty() && run.pipelines.steps == 0) {
    return bad_data(fmt::format("{}: there is no finished line; wait for a step", options.log));
  }
  return run;
}

outcome<void> show_report(report_run const& run)
{
  std::string const name = run.options.log.substr(run.options.log.find_last_of('/') + 1);
  std::size_t const pipelines = run.pipelines.steps;
  std::vector<pages::html_page::setting> settings = {
      {"Log", name}, {"Steps", pages::grouped_text(run.steps.size())}};
  if (pipelines > 0) {
    settings.push_back({"Steps of a pipeline", pages::grouped_text(pipelines)});
  }
  if (run.left_out) { settings.push_back({"Left out", "the last line, which is not finished"}); }
  auto const done = write_file(
      run.options.output, pages::log_page(name, run.steps, run.pipelines, settings), at_end.files);
  if (!done) { return bad_data(done.error().message); }
  return print(
      fmt::format("{}{}{}\npage     {}\n", count_of(run.steps.size(), "step"),
                  pipelines > 0 ? "; " + count_of(pipelines, "step") + " of a pipeline" : "",
                  run.left_out ? "; the last line is not finished and left out" : "",
                  shown_text(run.options.output)));
}

}  // namespace cli
