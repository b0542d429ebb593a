// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"
#include "output_files.hpp"
#include "pages/pipeline_page.hpp"
#include "pipeline_command.hpp"
#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/report/chrome_trace.hpp>
#include <ballast/text/decimal.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <iterator>

namespace cli {
namespace {

using ballast::microbatch_id;
using ballast::time_units;
using ballast::to_index;

/// A step in one order, simulated.
struct shown_order {
  std::string name;
  ballast::compiled_schedule const& schedule;
  std::vector<microbatch_id> order;
  ballast::pipeline_timeline timeline;
};

std::array<shown_order, 2> simulate_both(pipeline_run const& run)
{
  std::vector<microbatch_id> numbered = run.plan.order;
  std::ranges::sort(numbered);
  auto const shown = [&run](std::string name, ballast::compiled_schedule const& schedule,
                            std::vector<microbatch_id> order) {
    auto timeline = ballast::simulate(schedule, run.written.times, order);
    return shown_order{std::move(name), schedule, std::move(order), std::move(timeline)};
  };
  return {shown("given", run.given, std::move(numbered)),
          shown("ordered", run.schedule, run.plan.order)};
}

/// A time in the unit of the file, exactly.
std::string time_text(pipeline_run const& run, time_units time)
{
  return ballast::decimal::make(time, run.written.decimals).text();
}

/// The same, with as many decimals as all others.
std::string aligned_text(pipeline_run const& run, time_units time)
{
  return ballast::decimal::make(time, run.written.decimals).text(run.written.decimals);
}

/// "12 microbatches on 8 stages".
std::string size_text(pipeline_run const& run)
{
  std::size_t const microbatches = run.written.times.microbatches();
  return fmt::format("{} microbatch{} on {}", microbatches, microbatches == 1 ? "" : "es",
                     count_of(run.written.times.stages, "stage"));
}

/// Whether a search for the proof of an order ended without it.
bool gave_up(pipeline_run const& run)
{
  return run.options.ordering.order.starts_with("exact") && !run.plan.proven_optimal();
}

std::vector<std::size_t> numbers_of(std::span<microbatch_id const> order)
{
  std::vector<std::size_t> numbers;
  for (microbatch_id const microbatch : order) { numbers.push_back(to_index(microbatch)); }
  return numbers;
}

/// How many bytes each rank keeps at most: where the file says none, of how many microbatches.
std::vector<std::uint64_t> activations_kept(pipeline_run const& run, shown_order const& shown)
{
  std::vector<std::uint64_t> kept;
  for (auto const& rank :
       ballast::activation_memory(shown.schedule, shown.timeline, shown.order, run.written.held)) {
    kept.push_back(rank.peak_bytes);
  }
  return kept;
}

constexpr std::array<std::string_view, 3> pass_names = {"forward", "backward", "weights"};

std::string_view name_of(ballast::pass pass)
{
  return pass_names[static_cast<std::size_t>(pass)];
}

nlohmann::ordered_json to_json(pipeline_run const& run, std::array<shown_order, 2> const& both)
{
  auto const number = [&run](time_units time) {
    return nlohmann::ordered_json::parse(time_text(run, time));
  };
  auto const& [given, ordered] = both;
  nlohmann::ordered_json json;
  json["durations"] = run.options.durations;
  json["schedule"] = run.options.ordering.schedule;
  json["policy"] = run.options.ordering.order;
  if (run.options.evaluations) { json["evaluations"] = *run.options.evaluations; }
  if (run.options.seed) { json["seed"] = *run.options.seed; }
  json["transfer"] = number(run.written.transfer);
  json["stages"] = run.written.times.stages;
  json["ranks"] = run.schedule.stages().ranks();
  json["microbatches"] = run.written.times.microbatches();
  json["makespan"] = number(run.plan.makespan);
  json["makespan_given"] = number(run.plan.makespan_given);
  json["lower_bound"] = number(run.plan.lower_bound);
  json["gap"] = run.plan.gap();
  json["proven"] = run.plan.proven_optimal();
  json["gave_up"] = gave_up(run);
  json["idle_share"] = ordered.timeline.idle_share();
  json["idle_share_given"] = given.timeline.idle_share();
  json["order"] = numbers_of(run.plan.order);
  if (!run.ids.of_row.empty()) {
    auto& ids = json["ids"] = nlohmann::ordered_json::array();
    for (std::size_t const microbatch : numbers_of(run.plan.order)) {
      ids.push_back(run.ids.json(microbatch));
    }
  }
  json["activations_kept"] = activations_kept(run, ordered);
  json["millis"] = run.seconds * 1e3;
  json["digest"] = run.plan.digest();
  if (run.beside) {
    json["planned"] = number(run.beside->makespan);
    json["planned_lower_bound"] = number(run.beside->lower_bound);
  }
  return json;
}

/// A row per rank, at most `most` of them: light where it does a forward, solid where a backward,
/// between both where a weights pass.
std::string picture_of(shown_order const& shown, time_units longest)
{
  constexpr std::size_t width = 72;
  constexpr std::size_t most = 16;
  std::size_t const ranks = shown.schedule.stages().ranks();
  std::size_t const stride = (ranks + most - 1) / most;
  std::string picture = fmt::format("\n{}\n", shown.name);
  for (std::size_t rank = 0; rank < ranks; rank += stride) {
    std::array<std::string_view, width> cells;
    cells.fill(" ");
    auto const cell_of = [longest](time_units time) {
      double const share =
          longest == 0 ? 0 : static_cast<double>(time) / static_cast<double>(longest);
      return static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
    };
    for (std::uint32_t const task :
         shown.schedule.tasks_on(ballast::to_id<ballast::pipeline_rank>(rank))) {
      constexpr std::array<std::string_view, 3> shades = {"░", "█", "▓"};
      auto const pass = static_cast<std::size_t>(shown.schedule.tasks()[task].pass);
      std::size_t const past = cell_of(shown.timeline.end[task]);
      for (std::size_t cell = cell_of(shown.timeline.start[task]); cell < past; ++cell) {
        cells[cell] = shades[pass];
      }
    }
    picture += fmt::format("{:>5} {}\n", rank, fmt::join(cells, ""));
  }
  return picture;
}

std::string table_of(pipeline_run const& run, std::array<shown_order, 2> const& both)
{
  auto const& plan = run.plan;
  auto const& [given, ordered] = both;
  std::size_t const ranks = run.schedule.stages().ranks();
  std::string out = fmt::format(
      "\n{}\n{} of {}, transfer {}, times in the unit of the file\nschedule {}, order {}\n\n",
      shown_text(run.options.durations), size_text(run), count_of(ranks, "pipeline rank"),
      time_text(run, run.written.transfer), run.options.ordering.schedule,
      run.options.ordering.order);
  auto const row = [&](std::string_view name, time_units makespan, double idle) {
    double const above = plan.lower_bound == 0 ? 0
                                               : static_cast<double>(makespan - plan.lower_bound) /
                                                     static_cast<double>(plan.lower_bound);
    return fmt::format("{:<10}{:>20}{:>10.1f} %{:>10.1f} %\n", name, aligned_text(run, makespan),
                       100 * idle, 100 * above);
  };
  out += fmt::format("{:<10}{:>20}{:>12}{:>12}\n", "", "makespan", "idle", "above bound");
  out += row("given", plan.makespan_given, given.timeline.idle_share());
  out += row("ordered", plan.makespan, ordered.timeline.idle_share());
  out += fmt::format("{:<10}{:>20}\n", "bound", aligned_text(run, plan.lower_bound));
  out += fmt::format("\nfound in {}{}\norder {}\n", duration_text(run.seconds),
                     plan.proven_optimal() ? run.options.ordering.order == "planned"
                                                 ? ", and no schedule is shorter"
                                                 : ", and no order is shorter"
                     : gave_up(run)        ? ", and exact gave up: a shorter order may exist"
                                           : "",
                     fmt::join(numbers_of(plan.order), " "));
  if (run.beside) {
    auto const& beside = *run.beside;
    out += beside.makespan < plan.makespan
               ? fmt::format("planned within the same memory it takes {}, {:.1f} % less\n",
                             time_text(run, beside.makespan),
                             100 * (1 - static_cast<double>(beside.makespan) /
                                            static_cast<double>(plan.makespan)))
               : fmt::format("no shorter schedule was found within the same memory\n");
    out += fmt::format("and none takes less than {}\n", time_text(run, beside.lower_bound));
  }

  std::vector<std::uint64_t> const kept = activations_kept(run, ordered);
  out += fmt::format("\n{:<10}{:>20}{:>12}{:>12}{:>14}\n", "rank", "busy", "idle given", "ordered",
                     "activations");
  auto const idle_of = [](shown_order const& shown, std::size_t rank) {
    return 100 * shown.timeline.idle_share(ballast::to_id<ballast::pipeline_rank>(rank));
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    out += fmt::format("{:<10}{:>20}{:>10.1f} %{:>10.1f} %{:>14}\n", rank,
                       aligned_text(run, ordered.timeline.busy[rank]), idle_of(given, rank),
                       idle_of(ordered, rank), kept[rank]);
  }
  if (prints_picture(run.options)) {
    time_units const longest = std::max(plan.makespan, plan.makespan_given);
    for (shown_order const& shown : both) { out += picture_of(shown, longest); }
  }
  return out + "\n";
}

/// What each rank does, in the order in which it does it; positions are those of `order`.
std::string plan_of(pipeline_run const& run, shown_order const& ordered)
{
  std::string plan =
      fmt::format("rank,stage,microbatch,pass,position,start,end{}\n", run.ids.column());
  for (std::size_t rank = 0; rank < run.schedule.stages().ranks(); ++rank) {
    for (std::uint32_t const number :
         run.schedule.tasks_on(ballast::to_id<ballast::pipeline_rank>(rank))) {
      auto const& [position, stage, pass] = run.schedule.tasks()[number];
      fmt::format_to(std::back_inserter(plan), "{},{},{},{},{},{},{}{}\n", rank, to_index(stage),
                     to_index(ordered.order[position]), name_of(pass), position,
                     time_text(run, ordered.timeline.start[number]),
                     time_text(run, ordered.timeline.end[number]),
                     run.ids.field(to_index(ordered.order[position])));
    }
  }
  return plan;
}

std::string page_of(pipeline_run const& run)
{
  pipeline_options const& options = run.options;
  pages::pipeline_page_data page;
  std::string const file = file_name_of(options.durations);
  page.title =
      fmt::format("{} on {}", file, count_of(run.schedule.stages().ranks(), "pipeline rank"));
  page.time_per_unit = std::pow(10.0, -static_cast<double>(run.written.decimals));
  page.order_seconds = run.seconds;
  page.settings = {
      {"Times", fmt::format("{}, {}, in the unit of the file", file, size_text(run))},
      {"Transfer", time_text(run, run.written.transfer) + " between neighbouring stages"},
      {"Schedule", options.ordering.schedule},
      {"Policy", options.ordering.order}};
  if (options.evaluations) {
    page.settings.push_back({"Evaluations", std::to_string(*options.evaluations)});
  }
  if (options.seed) { page.settings.push_back({"Seed", std::to_string(*options.seed)}); }
  return pages::pipeline_page(page, run.given, run.schedule, run.written.times, run.written.held,
                              run.plan);
}

/// A process for each of the two orders, in it a track per pipeline rank. What the file counts one
/// of is a millisecond.
ballast::result<std::string> timeline_of(pipeline_run const& run,
                                         std::array<shown_order, 2> const& both)
{
  constexpr unsigned decimals_of_nanoseconds = 6;
  time_units multiply = 1;
  time_units divide = 1;
  for (unsigned digit = run.written.decimals; digit < decimals_of_nanoseconds; ++digit) {
    multiply *= 10;
  }
  for (unsigned digit = decimals_of_nanoseconds; digit < run.written.decimals; ++digit) {
    divide *= 10;
  }
  if (std::max(run.plan.makespan, run.plan.makespan_given) >
      std::numeric_limits<time_units>::max() / multiply) {
    return ballast::fail(ballast::error_code::out_of_range, 0,
                         "the step lasts longer than a timeline can hold, 292 years where a unit "
                         "of the file is a millisecond; use a coarser unit");
  }
  // Ends are rounded, not durations, so that what touches still does.
  auto const nanoseconds = [=](time_units time) {
    return time * multiply / divide + (divide > 1 && time % divide >= divide / 2 ? 1 : 0);
  };
  ballast::report::chrome_trace trace;
  for (std::uint32_t process = 0; process < both.size(); ++process) {
    auto const& [name, schedule, order, timeline] = both[process];
    trace.name_process(process, name);
    for (std::uint32_t rank = 0; rank < schedule.stages().ranks(); ++rank) {
      trace.name_track({process, rank}, fmt::format("rank {}", rank));
      for (std::uint32_t const number : schedule.tasks_on(ballast::pipeline_rank{rank})) {
        auto const& [position, stage, pass] = schedule.tasks()[number];
        auto const microbatch = static_cast<std::int64_t>(order[position]);
        std::int64_t const start = nanoseconds(timeline.start[number]);
        trace.add({{process, rank},
                   fmt::format("{} {}", "FBW"[static_cast<std::size_t>(pass)], microbatch),
                   std::string(name_of(pass)),
                   start,
                   nanoseconds(timeline.end[number]) - start},
                  {{"microbatch", microbatch},
                   {"stage", static_cast<std::int64_t>(stage)},
                   {"position", position}});
      }
    }
  }
  return trace.json();
}

}  // namespace

outcome<void> show_pipeline(pipeline_run const& run)
{
  std::array<shown_order, 2> const both = simulate_both(run);
  output_files files;
  if (run.options.plan.ends_with(".cells.csv")) {
    auto cells = ballast::schedule_cells(run.schedule, run.plan.order);
    if (!cells) { return bad_data(cells.error().message); }
    files.add_plan(run.options.plan, std::move(*cells));
  } else if (!run.options.plan.empty()) {
    files.add_plan(run.options.plan, plan_of(run, both[1]), run.ids.are_numbers);
  }
  if (!run.options.report.empty()) { files.add("page", run.options.report, page_of(run)); }
  if (!run.options.timeline.empty()) {
    auto timeline = timeline_of(run, both);
    if (!timeline) {
      return bad_data(fmt::format("{}: {}", run.options.durations, timeline.error().message));
    }
    files.add("timeline", run.options.timeline, std::move(*timeline));
  }
  return files.show(
      run.options.format, [&] { return table_of(run, both); }, [&] { return to_json(run, both); });
}

}  // namespace cli
