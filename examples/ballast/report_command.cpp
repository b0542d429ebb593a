// SPDX-License-Identifier: Apache-2.0
#include "report_command.hpp"

#include "cleanup.hpp"
#include "notes.hpp"
#include "out_of_memory.hpp"
#include "output.hpp"
#include "output_files.hpp"
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

#include <charconv>

namespace cli {
namespace {

using ballast::report::step_log;

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
tl::expected<std::vector<step_log::task>, std::string> read_tasks(std::uint64_t step,
                                                                  nlohmann::json const& array)
{
  if (!array.is_array()) { return tl::unexpected<std::string>("'tasks' is no array"); }
  std::vector<step_log::task> tasks;
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
  if (auto const right = step_log::check(step, tasks); !right) {
    return tl::unexpected(right.error().message);
  }
  return tasks;
}

pages::log_page_pipeline bars_of(std::uint64_t step, std::vector<step_log::task> const& tasks)
{
  pages::log_page_pipeline pipeline{step};
  for (step_log::task const& task : tasks) {
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

/// A line of a step_log: a step, or the tasks of one of a pipeline.
struct logged_line {
  logged_step step;
  std::vector<step_log::task> tasks = {};
};

/// How many samples a bag gets, as step_log writes it; nothing if it is none of its rules.
std::optional<ballast::counts> read_rule(std::string_view text)
{
  auto const colon = std::min(text.find(':'), text.size());
  for (std::size_t rule = 0; rule < step_log::rule_names.size(); ++rule) {
    if (step_log::rule_names[rule] != text.substr(0, colon)) { continue; }
    ballast::counts read{static_cast<ballast::counts::rule>(rule), 1};
    auto const number = text.substr(std::min(colon + 1, text.size()));
    auto const done = std::from_chars(number.data(), number.data() + number.size(), read.number);
    bool const whole = done.ec == std::errc{} && done.ptr == number.data() + number.size();
    if (!number.empty() && (!whole || read.number < 1)) { return std::nullopt; }
    return read;
  }
  return std::nullopt;
}

/// A line of a step_log, or what is wrong with it.
tl::expected<logged_line, std::string> read_line(std::string_view text)
{
  auto const line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object()) { return tl::unexpected<std::string>("it is no object of JSON"); }
  auto const number = line.find("step");
  if (number == line.end() || !number->is_number_unsigned()) {
    return tl::unexpected<std::string>("'step' is no whole number from 0");
  }
  logged_line read_all;
  logged_step& step = read_all.step;
  step.step = number->get<std::uint64_t>();
  if (auto const tasks = line.find("tasks"); tasks != line.end()) {
    auto read = read_tasks(step.step, *tasks);
    if (!read) { return tl::unexpected(read.error()); }
    read_all.tasks = std::move(*read);
    return read_all;
  }
  std::string wrong;
  auto const read = [&]<class Integer>(char const* key, std::vector<Integer>& into,
                                       bool may_lack = false) {
    auto const found = line.find(key);
    if (found == line.end() && may_lack) { return; }
    auto numbers = found == line.end() ? std::nullopt : numbers_in<Integer>(*found);
    if (!numbers && wrong.empty()) {
      wrong = fmt::format("'{}' is no array of whole numbers from {} to {}", key,
                          std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max());
    }
    if (numbers) { into = std::move(*numbers); }
  };
  read("lengths", step.lengths);
  read("costs", step.costs);
  read("owner", step.owner);
  read("loads", step.loads);
  read("speeds", step.speeds);
  read("measured_ns", step.measured);
  read("gpus", step.gpus, true);
  read("weights", step.weights, true);
  auto const read_fraction = [&](char const* key) {
    std::vector<std::int64_t> both;
    read(key, both);
    if (both.size() != 2 && wrong.empty()) { wrong = fmt::format("'{}' is no fraction", key); }
    return both.size() == 2 ? ballast::ratio{both[0], both[1]} : ballast::ratio{};
  };
  step.makespan = read_fraction("makespan");
  step.bound = read_fraction("bound");
  auto const read_number = [&]<class Integer>(char const* key, Integer& into) {
    auto const found = line.find(key);
    if (found == line.end()) { return; }
    auto const numbers = numbers_in<Integer>(nlohmann::json::array({*found}));
    if (!numbers && wrong.empty()) { wrong = fmt::format("'{}' is no whole number", key); }
    if (numbers) { into = numbers->front(); }
  };
  read_number("microbatches", step.microbatches);
  read_number("most_per_gpu", step.most_per_gpu);
  if (auto const meet = line.find("meet"); meet != line.end() && *meet == "microbatch") {
    step.meet = ballast::grid_meeting::microbatch;
  }
  if (auto const samples = line.find("samples"); samples != line.end()) {
    auto const rule = samples->is_string() ? read_rule(samples->get<std::string>()) : std::nullopt;
    if (!rule && wrong.empty()) { wrong = "'samples' is no rule such as at_most:4"; }
    step.samples = rule.value_or(ballast::counts{});
  }
  if (!wrong.empty()) { return tl::unexpected(wrong); }
  std::vector<ballast::bag_id> owner;
  std::vector<ballast::cell_id> cells;
  for (std::uint32_t const own : step.owner) {
    if (step.microbatches == 1) {
      owner.push_back(ballast::to_id<ballast::bag_id>(own));
    } else {
      cells.push_back(ballast::to_id<ballast::cell_id>(own));
    }
  }
  auto const right = step_log::check({.step = step.step,
                                      .lengths = step.lengths,
                                      .costs = step.costs,
                                      .owner = owner,
                                      .loads = step.loads,
                                      .speeds = step.speeds,
                                      .makespan = step.makespan,
                                      .lower_bound = step.bound,
                                      .measured_ns = step.measured,
                                      .gpus = step.gpus,
                                      .microbatches = step.microbatches,
                                      .cells = cells,
                                      .most_per_gpu = step.most_per_gpu,
                                      .weights = step.weights});
  if (!right) { return tl::unexpected(right.error().message); }
  return read_all;
}

/// What the cells of a step hold, per unit of speed and of its cap.
pages::log_page_cells cells_of(logged_step const& step)
{
  pages::log_page_cells cells{.bags = step.bags()};
  std::vector<bool> has_sample(step.loads.size(), false);
  for (std::uint32_t const cell : step.owner) { has_sample[cell] = true; }
  auto const filled = step.filled();
  for (std::size_t cell = 0; cell < step.loads.size(); ++cell) {
    std::size_t const bag = cell % step.bags();
    cells.loads.push_back(static_cast<double>(step.loads[cell]) / step.speeds[bag]);
    if (step.most_per_gpu != ballast::no_limit && step.most_per_gpu > 0) {
      double const gpus = step.gpus.empty() ? step.speeds[bag] : step.gpus[bag];
      cells.filled.push_back(static_cast<double>(filled[cell]) /
                             (static_cast<double>(step.most_per_gpu) * gpus));
    }
    if (!has_sample[cell]) { ++cells.empty; }
  }
  return cells;
}

pages::log_page_step figures_of(logged_step const& line)
{
  pages::log_page_step step;
  step.step = line.step;
  step.samples = line.lengths.size();
  step.tokens = std::accumulate(line.lengths.begin(), line.lengths.end(), ballast::tokens{0});
  double total = 0;
  double all_speeds = 0;
  for (ballast::cost_units const load : line.loads) { total += static_cast<double>(load); }
  for (std::uint32_t const speed : line.speeds) { all_speeds += speed; }
  step.load = spread_of(line.times());
  step.load.mean = total / all_speeds;
  if (line.bound.numerator > 0) { step.gap = gap_above(line.makespan, line.bound); }
  std::vector<double> seconds;
  for (std::int64_t const each : line.measured) {
    seconds.push_back(static_cast<double>(each) * 1e-9);
  }
  step.measured = spread_of(seconds);
  step.microbatches = line.microbatches;
  auto const cells = cells_of(line);
  step.empty_cells = cells.empty;
  auto const filled = spread_of(cells.filled);
  step.filled = filled.mean;
  step.most_filled = filled.most;
  return step;
}

/// Adds what each bag had to do and how long it took, as plan --measured reads it.
void add_times(std::string& rows, logged_step const& step)
{
  auto const bag_of = step.bag_of_rank();
  auto const work = work_of(step);
  for (std::size_t rank = 0; rank < bag_of.size(); ++rank) {
    auto const& own = work[bag_of[rank]];
    if (own.length_sum == 0 || step.measured[rank] == 0) { continue; }
    rows += fmt::format("{},{},{},{},{:.9g}\n", own.length_sum, own.square_sum, own.sequences,
                        own.gpus, static_cast<double>(step.measured[rank]) * 1e-9);
  }
}

/// How full the microbatches of all steps that have several are.
void add_up_cells(pages::log_page_data& page)
{
  pages::log_page_cells& all = page.cells;
  double capped = 0;
  double cells = 0;
  for (pages::log_page_step const& step : page.steps) {
    if (step.microbatches == 1) { continue; }
    all.all_filled += step.filled;
    all.most_filled = std::max(all.most_filled, step.most_filled);
    all.all_empty += static_cast<double>(step.empty_cells);
    capped += step.filled > 0 ? 1 : 0;
    cells += static_cast<double>(step.microbatches * all.bags);
  }
  all.all_filled /= std::max(capped, 1.0);
  all.all_empty /= std::max(cells, 1.0);
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
          check_paths({{"the log", &run.options.log}},
                      {{"--output", &run.options.output}, {"--times", &run.options.times}});
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
    auto read = read_line(rest.substr(0, end));
    if (!read) {
      std::string const why = fmt::format("{}: line {}: {}", options.log, line, read.error());
      constexpr std::size_t most_named = 10;
      if (run.first_passed_over.empty()) { first_wrong = why; }
      if (++run.passed_over <= most_named) {
        run.first_passed_over.push_back(line);
        notes().push_back(why + "; the line is passed over");
      }
    } else if (!read->tasks.empty()) {
      run.page.pipelines.add(bars_of(read->step.step, read->tasks));
      run.of_pipelines.add(read->tasks);
    } else {
      run.page.steps.push_back(figures_of(read->step));
      if (read->step.microbatches > 1) {
        run.page.cells = cells_of(read->step);
        run.page.cells_step = read->step.step;
      }
      if (!options.times.empty()) { add_times(run.times, read->step); }
      run.of_steps.add(std::move(read->step));
    }
    rest.remove_prefix(end + 1);
    shown.update([&] { return fmt::format("reading {}: {} steps", options.log, line); });
  }
  bool const is_empty = run.page.steps.empty() && run.page.pipelines.steps == 0;
  if (is_empty && run.passed_over > 0) {
    return bad_data(first_wrong + ", and no line is one of a step_log; name the log of one");
  }
  if (is_empty) {
    return bad_data(fmt::format("{}: there is no finished line; wait for a step", options.log));
  }
  if (!options.times.empty() && run.times.empty()) {
    return bad_data(options.log +
                    ": no step has a time for each bag or GPU; give append() measured_ns");
  }
  add_up_cells(run.page);
  run.page.of_steps = run.of_steps.verdict();
  run.page.times = run.of_steps.prediction();
  run.page.of_pipelines = run.of_pipelines.verdict();
  return run;
}

namespace {

/// What was lost and why, a line for each reason and one for what to change.
std::string text_of(pages::verdict const& found)
{
  if (found.sentence.empty()) { return {}; }
  std::string text = found.sentence + "\n";
  for (pages::loss const& each : found.losses) {
    text += fmt::format("{:>6.1f} %  {}\n          {}\n", 100 * each.share, each.what, each.remedy);
  }
  return text;
}

/// How near planned times came to measured ones; nothing where there are none.
std::string text_of(pages::prediction const& times)
{
  if (times.points.empty()) { return {}; }
  std::string const fitted =
      times.fitted_error > 0
          ? fmt::format("; of a cost fitted to this log {:.1f} %", 100 * times.fitted_error)
          : "";
  return fmt::format("Planned times have a median error of {:.1f} %{}; correlation {:.3f}.\n",
                     100 * times.median_error, fitted, times.correlation);
}

/// How full the microbatches of the steps are; nothing where each step has one.
std::string text_of(pages::log_page_cells const& cells)
{
  if (cells.slots() == 0) { return {}; }
  std::string const full =
      cells.all_filled > 0
          ? fmt::format("are {:.1f} % full of their cap, and ", 100 * cells.all_filled)
          : "";
  return fmt::format("Microbatches {}{:.1f} % of them have no sample.\n", full,
                     100 * cells.all_empty);
}

}  // namespace

outcome<void> show_report(report_run const& run)
{
  pages::log_page_data page = run.page;
  page.title = run.options.log.substr(run.options.log.find_last_of('/') + 1);
  std::size_t const pipelines = page.pipelines.steps;
  page.settings = {{"Log", page.title}, {"Steps", pages::grouped_text(page.steps.size())}};
  if (pipelines > 0) {
    page.settings.push_back({"Steps of a pipeline", pages::grouped_text(pipelines)});
  }
  if (page.steps.size() > step_judge::most_kept) {
    page.settings.push_back({"Reasons", "of at most 256 steps, evenly picked"});
  }
  if (run.left_out) {
    page.settings.push_back({"Left out", "the last line, which is not finished"});
  }
  std::string const passed_over = passed_over_text(run);
  if (!passed_over.empty()) { page.settings.push_back({"Wrong lines", passed_over}); }
  output_files files;
  files.add("page", run.options.output, pages::log_page(page));
  if (!run.options.times.empty()) {
    files.add("times", run.options.times,
              "length_sum,square_sum,sequences,gpus,seconds\n" + run.times);
  }
  if (auto const done = files.write(); !done) { return done; }
  return files.print_table(fmt::format(
      "{}{}{}{}\n{}{}{}{}", count_of(page.steps.size(), "step"),
      pipelines > 0 ? "; " + count_of(pipelines, "step") + " of a pipeline" : "",
      passed_over.empty() ? "" : "; " + passed_over,
      run.left_out ? "; the last line is not finished and left out" : "", text_of(page.of_steps),
      text_of(page.of_pipelines), text_of(page.times), text_of(page.cells)));
}

}  // namespace cli
