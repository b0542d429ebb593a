// SPDX-License-Identifier: Apache-2.0
#include "report_command.hpp"

#include "cleanup.hpp"
#include "notes.hpp"
#include "out_of_memory.hpp"
#include "output.hpp"
#include "output_paths.hpp"
#include "progress.hpp"
#include "shown_text.hpp"
#include "write_file.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/report/step_log.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <variant>

namespace cli {
namespace {

/// An array of whole numbers that an Integer can hold, or nothing.
template <class Integer>
std::optional<std::vector<Integer>> numbers_in(nlohmann::json const& array)
{
  if (!array.is_array()) { return std::nullopt; }
  std::vector<Integer> numbers;
  for (auto const& each : array) {
    bool const fits =
        each.is_number_unsigned()
            ? std::in_range<Integer>(each.get<std::uint64_t>())
            : each.is_number_integer() && std::in_range<Integer>(each.get<std::int64_t>());
    if (!fits) { return std::nullopt; }
    numbers.push_back(each.get<Integer>());
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
                                                               nlohmann::json const& array)
{
  if (!array.is_array()) { return tl::unexpected<std::string>("'tasks' is no array"); }
  std::vector<ballast::report::step_log::task> tasks;
  for (auto const& task : array) {
    auto const numbers = numbers_in<std::int64_t>(task);
    if (!numbers || numbers->size() != 8 ||
        !std::all_of(numbers->begin(), numbers->begin() + 3,
                     std::in_range<std::uint32_t, std::int64_t>) ||
        ((*numbers)[3] != 0 && (*numbers)[3] != 1)) {
      return tl::unexpected<std::string>(
          "a task of 'tasks' is no array of rank, stage and microbatch, 0 or 1, and four times");
    }
    auto const& of = *numbers;
    auto const index = [&of](std::size_t at) { return static_cast<std::uint32_t>(of[at]); };
    tasks.push_back({index(0), index(1), index(2), of[3] == 1, of[4], of[5], of[6], of[7]});
  }
  if (auto const right = ballast::report::step_log::check(step, tasks); !right) {
    return tl::unexpected(right.error().message);
  }
  pages::log_page_pipeline pipeline{step};
  for (ballast::report::step_log::task const& task : tasks) {
    pages::pipeline_bar bar{ballast::to_id<ballast::pipeline_rank>(task.rank),
                            ballast::to_id<ballast::stage_id>(task.stage),
                            ballast::to_id<ballast::microbatch_id>(task.microbatch),
                            task.is_backward ? ballast::pass::backward : ballast::pass::forward};
    auto const place = [&](std::int64_t start, std::int64_t end) {
      bar.start = static_cast<double>(start) * 1e-9;
      bar.duration = static_cast<double>(end - start) * 1e-9;
      return bar;
    };
    pipeline.ranks = std::max(pipeline.ranks, std::size_t{task.rank} + 1);
    pipeline.measured.push_back(place(task.start, task.end));
    if (task.simulated_end > 0) {
      pipeline.simulated.push_back(place(task.simulated_start, task.simulated_end));
    }
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
  auto const step_number = number->get<std::uint64_t>();
  if (auto const tasks = line.find("tasks"); tasks != line.end()) {
    return read_tasks(step_number, *tasks);
  }
  std::string wrong;
  auto const read = [&]<class Integer>(char const* key, Integer) {
    auto const found = line.find(key);
    auto numbers = found == line.end() ? std::nullopt : numbers_in<Integer>(*found);
    if (!numbers && wrong.empty()) {
      wrong = fmt::format("'{}' is no array of whole numbers from {} to {}", key,
                          std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max());
    }
    return numbers ? std::move(*numbers) : std::vector<Integer>();
  };
  auto const lengths = read("lengths", ballast::tokens{});
  auto const costs = read("costs", ballast::cost_units{});
  std::vector<ballast::bag_id> owner;
  for (std::uint32_t const bag : read("owner", std::uint32_t{})) {
    owner.push_back(ballast::to_id<ballast::bag_id>(bag));
  }
  auto const loads = read("loads", ballast::cost_units{});
  auto const speeds = read("speeds", std::uint32_t{});
  auto const measured = read("measured_ns", std::int64_t{});
  auto const read_fraction = [&](char const* key) {
    auto const both = read(key, std::int64_t{});
    if (both.size() != 2 && wrong.empty()) { wrong = fmt::format("'{}' is no fraction", key); }
    return both.size() == 2 ? ballast::ratio{both[0], both[1]} : ballast::ratio{};
  };
  ballast::ratio const makespan = read_fraction("makespan");
  ballast::ratio const bound = read_fraction("bound");
  if (!wrong.empty()) { return tl::unexpected(wrong); }
  auto const right = ballast::report::step_log::check(
      {step_number, lengths, costs, owner, loads, speeds, makespan, bound, measured});
  if (!right) { return tl::unexpected(right.error().message); }

  pages::log_page_step step;
  step.step = step_number;
  step.samples = lengths.size();
  step.tokens = std::accumulate(lengths.begin(), lengths.end(), ballast::tokens{0});
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
  step.load.mean = total / all_speeds;
  if (bound.numerator > 0) { step.gap = gap_above(makespan, bound); }
  std::vector<double> seconds;
  for (std::int64_t const each : measured) { seconds.push_back(static_cast<double>(each) * 1e-9); }
  step.measured = spread_of(seconds);
  return step;
}

/// What the page and the output say of lines that are none of a step; nothing where there are none.
std::string passed_over_text(report_run const& run)
{
  if (run.passed_over == 0) { return {}; }
  std::string text = count_of(run.passed_over, "line") + " passed over: ";
  text += fmt::format("{}", fmt::join(run.first_passed_over, ", "));
  std::size_t const more = run.passed_over - run.first_passed_over.size();
  return more == 0 ? text : text + fmt::format(" and {} more", more);
}

}  // namespace

outcome<report_run> run_report(report_options const& options)
{
  report_run run{.options = options};
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
  std::string first_wrong;
  std::string_view rest = *text;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    std::size_t const end = rest.find('\n');
    if (end == std::string_view::npos) {
      run.left_out = true;  // its writer may be at work
      break;
    }
    auto step = read_line(rest.substr(0, end));
    if (!step) {
      std::string const why = fmt::format("{}: line {}: {}", options.log, line, step.error());
      constexpr std::size_t most_named = 10;
      if (run.first_passed_over.empty()) { first_wrong = why; }
      if (++run.passed_over <= most_named) {
        run.first_passed_over.push_back(line);
        notes().push_back(why + "; the line is passed over");
      }
    } else if (auto* const pipeline = std::get_if<pages::log_page_pipeline>(&*step)) {
      run.pipelines.add(std::move(*pipeline));
    } else {
      run.steps.push_back(std::get<pages::log_page_step>(*step));
    }
    rest.remove_prefix(end + 1);
    shown.update([&] { return fmt::format("reading {}: {} steps", options.log, line); });
  }
  if (run.steps.empty() && run.pipelines.steps == 0 && run.passed_over > 0) {
    return bad_data(first_wrong + ", and no line is one of a step_log; name the log of one");
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
  std::string const passed_over = passed_over_text(run);
  if (!passed_over.empty()) { settings.push_back({"Wrong lines", passed_over}); }
  auto const done = write_file(
      run.options.output, pages::log_page(name, run.steps, run.pipelines, settings), at_end.files);
  if (!done) { return bad_data(done.error().message); }
  return print(
      fmt::format("{}{}{}{}\npage     {}\n", count_of(run.steps.size(), "step"),
                  pipelines > 0 ? "; " + count_of(pipelines, "step") + " of a pipeline" : "",
                  passed_over.empty() ? "" : "; " + passed_over,
                  run.left_out ? "; the last line is not finished and left out" : "",
                  shown_text(run.options.output)));
}

}  // namespace cli
