// SPDX-License-Identifier: Apache-2.0
#include "report_command.hpp"

#include "cleanup.hpp"
#include "out_of_memory.hpp"
#include "output.hpp"
#include "output_paths.hpp"
#include "progress.hpp"
#include "shown_text.hpp"
#include "write_file.hpp"

#include <ballast/core/ratio.hpp>

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
#include <vector>

namespace cli {
namespace {

using integers = std::vector<std::int64_t>;

/// The array of whole numbers from `least` under a key, or nothing.
std::optional<integers> numbers_of(nlohmann::json const& line, char const* key, std::int64_t least)
{
  auto const found = line.find(key);
  if (found == line.end() || !found->is_array()) { return std::nullopt; }
  integers numbers;
  for (auto const& each : *found) {
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

/// A line of a step_log, or what is wrong with it.
tl::expected<pages::log_page_step, std::string> read_line(std::string_view text)
{
  auto const line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object()) { return tl::unexpected<std::string>("it is no object of JSON"); }
  auto const number = line.find("step");
  if (number == line.end() || !number->is_number_unsigned()) {
    return tl::unexpected<std::string>("'step' is no whole number from 0");
  }
  std::vector<integers> all;
  for (auto const& [key, least] :
       {std::pair("lengths", 0), std::pair("costs", 0), std::pair("owner", 0),
        std::pair("loads", 0), std::pair("speeds", 1), std::pair("makespan", 0),
        std::pair("bound", 0), std::pair("measured_ns", 0)}) {
    auto numbers = numbers_of(line, key, least);
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
  report_run run{options, {}, false};
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
    auto const step = read_line(rest.substr(0, end));
    if (!step) {
      return bad_data(fmt::format("{}: line {}: {}; remove the line, or name the log of a step_log",
                                  options.log, line, step.error()));
    }
    run.steps.push_back(*step);
    rest.remove_prefix(end + 1);
    shown.update([&] { return fmt::format("reading {}: {} steps", options.log, line); });
  }
  if (run.steps.empty()) {
    return bad_data(fmt::format("{}: there is no finished line; wait for a step", options.log));
  }
  return run;
}

outcome<void> show_report(report_run const& run)
{
  std::string const name = run.options.log.substr(run.options.log.find_last_of('/') + 1);
  std::vector<pages::html_page::setting> settings = {
      {"Log", run.options.log}, {"Steps", pages::grouped_text(run.steps.size())}};
  if (run.left_out) { settings.push_back({"Left out", "the last line, which is not finished"}); }
  auto const done =
      write_file(run.options.output, pages::log_page(name, run.steps, settings), at_end.files);
  if (!done) { return bad_data(done.error().message); }
  return print(fmt::format("{}{}\npage     {}\n", count_of(run.steps.size(), "step"),
                           run.left_out ? "; the last line is not finished and left out" : "",
                           shown_text(run.options.output)));
}

}  // namespace cli
