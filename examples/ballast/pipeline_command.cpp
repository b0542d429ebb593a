// SPDX-License-Identifier: Apache-2.0
#include "pipeline_command.hpp"
#include "../common/by_name/any_order_policy.hpp"
#include "../common/by_name/any_schedule.hpp"

#include "machines.hpp"
#include "notes.hpp"
#include "out_of_memory.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "progress.hpp"
#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/pipeline_files.hpp>
#include <ballast/pipeline/plan_schedule.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/read_file.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <system_error>

namespace cli {
namespace {

/// Whether --schedule names a file.
bool is_own(ordering_options const& options)
{
  return options.schedule.ends_with(".csv");
}

/// Whether the schedule is planned together with the order.
bool is_planned(ordering_options const& options)
{
  return options.schedule == "planned" || options.schedule.starts_with("planned:");
}

/// The schedule and the policy, with the options that are for the search alone.
outcome<ordering> ordering_of(pipeline_options const& options)
{
  ordering_options named = options.ordering;
  if (is_own(named)) { named.schedule = ordering_options().schedule; }  // its file is read later
  if (is_planned(named)) {
    if (named.order != ordering_options().order || options.evaluations) {
      return usage(fmt::format("--schedule {} finds the order too; leave {} out", named.schedule,
                               options.evaluations ? "--evaluations" : "--order"));
    }
    // Shown beside it, on the same stages.
    constexpr std::size_t name = std::string_view("planned").size();
    named.schedule = named.schedule.size() == name ? ordering_options().schedule
                                                   : "interleaved" + named.schedule.substr(name);
    return read_ordering(named);
  }
  auto chosen = read_ordering(named);
  if (!chosen || (!options.evaluations && !options.seed)) { return chosen; }
  std::string_view const order = options.ordering.order;
  std::string_view const name = order.substr(0, order.find_first_of(":("));
  if (name != "search") {
    return usage(fmt::format("{} is for --order search, and the order is {}; leave one of them out",
                             options.evaluations ? "--evaluations" : "--seed", order));
  }
  if (name != order) {
    return usage(fmt::format("--order {} has its parameters already; write {} there too", order,
                             options.evaluations ? "evaluations=N" : "seed=S"));
  }
  ballast::local_search<> search;
  search.evaluations = options.evaluations.value_or(search.evaluations);
  search.seed = options.seed.value_or(search.seed);
  chosen->policy = by_name::any_order_policy(search);
  return chosen;
}

outcome<ballast::written_times> read_times(pipeline_options const& options, table const& rows)
{
  auto const transfer = ballast::parse_decimal(options.transfer);
  if (!transfer) { return usage("--transfer", transfer.error()); }
  return read_in_memory(options.durations, [&]() -> outcome<ballast::written_times> {
    auto written = ballast::read_pipeline_times(rows.csv, *transfer);
    if (!written) { return bad_data(told(rows, written.error())); }
    return std::move(*written);
  });
}

/// The ids of microbatches, which are those of any of their rows.
outcome<row_ids> read_microbatch_ids(pipeline_options const& options, table const& rows,
                                     std::size_t microbatches)
{
  auto const of_rows = read_ids(rows, options.id);
  if (!of_rows || of_rows->of_row.empty()) { return of_rows; }
  auto const numbers = read_lengths(rows, "microbatch", "--durations");
  if (!numbers) { return tl::unexpected(numbers.error()); }
  row_ids ids{std::vector<std::string>(microbatches), of_rows->are_numbers};
  for (std::size_t row = 0; row < numbers->size(); ++row) {
    ids.of_row[static_cast<std::size_t>((*numbers)[row])] = of_rows->of_row[row];
  }
  return ids;
}

/// The same stages, with a third pass where one takes time.
ballast::stage_graph split_stages(ballast::stage_graph const& whole,
                                  ballast::pipeline_times const& times)
{
  std::vector<ballast::pipeline_stage> stages;
  stages.reserve(whole.stages());
  for (std::size_t stage = 0; stage < whole.stages(); ++stage) {
    stages.push_back(whole[ballast::to_id<ballast::stage_id>(stage)]);
  }
  for (std::size_t row = 0; row < times.weights.size(); ++row) {
    ballast::pipeline_stage& own = stages[row % times.stages];
    own.weights = own.weights || times.weights[row] > 0;
  }
  return ballast::stage_graph(std::move(stages), {whole.links().begin(), whole.links().end()});
}

/// The schedule that the options name, for the stages and microbatches of the file of times.
outcome<ballast::compiled_schedule> schedule_of(pipeline_options const& options,
                                                by_name::any_schedule const& named,
                                                ballast::written_times& written)
{
  if (is_own(options.ordering)) {
    auto own =
        ballast::read_file(options.ordering.schedule, ballast::read_schedule, written.transfer);
    if (!own) { return bad_data(own.error().message); }
    std::string const file = shown_text(options.ordering.schedule);
    if (own->skipped > 0) {
      notes().push_back(fmt::format("{}: {} that only communicate were skipped", file,
                                    count_of(own->skipped, "cell")));
    }
    if (own->overlapped > 0) {
      notes().push_back(fmt::format("{}: {} of tasks at once are simulated one after the other",
                                    file, count_of(own->overlapped, "pair")));
    }
    if (own->schedule.stages().stages() == written.times.stages) {
      written.times = ballast::whole_backwards(std::move(written.times), own->schedule.stages());
    }
    return std::move(own->schedule);
  }
  auto const stages =
      chain_for(options.ordering, named, written.times.stages, written.transfer, options.durations);
  if (!stages) { return tl::unexpected(stages.error()); }
  return compile(named, split_stages(*stages, written.times), written.times.microbatches());
}

/// Plans tasks and order together, where `run.schedule` has been compiled for the same stages.
ballast::result<void> plan_tasks(pipeline_run& run, ballast::pipeline_memory const& memory)
{
  ballast::schedule_effort effort;
  effort.seed = run.options.seed.value_or(effort.seed);
  auto planned = ballast::plan_schedule(run.schedule.stages(), run.written.times, memory, effort);
  if (!planned) { return tl::unexpected(planned.error()); }
  run.schedule = ballast::compiled_schedule(run.given.stages(), planned->schedule);
  run.plan.order = planned->order;
  run.plan.makespan = planned->makespan;
  run.plan.lower_bound = planned->lower_bound;
  std::vector<ballast::microbatch_id> numbered = run.plan.order;
  std::ranges::sort(numbered);
  run.plan.makespan_given = ballast::simulate(run.given, run.written.times, numbered).makespan;
  return {};
}

/// Plans what may be shorter than the schedule of a file and keeps no more on any rank, with a third
/// pass on the stages that have one by these times.
ballast::result<void> plan_beside(pipeline_run& run, ballast::pipeline_times const& times,
                                  ballast::pipeline_memory memory)
{
  if (memory.most.empty()) {
    auto const timeline = ballast::simulate(run.schedule, run.written.times, run.plan.order);
    for (auto const& rank :
         ballast::activation_memory(run.schedule, timeline, run.plan.order, run.written.held)) {
      memory.most.push_back(rank.peak_bytes);
    }
  }
  auto planned = ballast::plan_schedule(split_stages(run.schedule.stages(), times), times, memory);
  if (!planned) { return tl::unexpected(planned.error()); }
  run.beside = std::move(*planned);
  return {};
}

/// Runs `order`. A policy has no place from which to report, so where progress is seen, another
/// thread runs it while this one says so; without a thread it is not shown.
template <class Order>
ballast::result<void> while_shown(Order const& order, ballast::pipeline_times const& times)
{
  progress shown;
  std::future<ballast::result<void>> ordering;
  if (shown.is_seen()) {
    try {
      ordering = std::async(std::launch::async, order);
    } catch (std::system_error const&) {  // no thread can be started
    }
  }
  if (!ordering.valid()) { return order(); }
  while (ordering.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    shown.update([&times] {
      return fmt::format("ordering {} microbatches on {} stages", times.microbatches(),
                         times.stages);
    });
  }
  return ordering.get();
}

}  // namespace

bool prints_picture(pipeline_options const& options)
{
  return options.format == "table" && isatty(STDOUT_FILENO) == 1;
}

outcome<pipeline_run> run_pipeline(pipeline_options const& options)
{
  if (auto const checked = check_plan(options.plan, options.format); !checked) {
    return tl::unexpected(checked.error());
  }
  std::string const schedule_file = is_own(options.ordering) ? options.ordering.schedule : "";
  if (auto const checked = check_paths({{"--durations", &options.durations},
                                        {"--schedule", &schedule_file},
                                        {"--most-held", &options.most_held}},
                                       {{"--plan", &options.plan},
                                        {"--report", &options.report},
                                        {"--timeline", &options.timeline}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const chosen = ordering_of(options);
  if (!chosen) { return tl::unexpected(chosen.error()); }
  auto const rows = read_table(options.durations);
  if (!rows) { return tl::unexpected(rows.error()); }
  auto written = read_times(options, *rows);
  if (!written) { return tl::unexpected(written.error()); }
  auto ids = read_microbatch_ids(options, *rows, written->times.microbatches());
  if (!ids) { return tl::unexpected(ids.error()); }
  ballast::pipeline_times const times = written->times;
  auto schedule = schedule_of(options, chosen->schedule, *written);
  if (!schedule) { return tl::unexpected(schedule.error()); }
  auto const most = read_of_each({"--most-held", "the bytes that a rank keeps"}, options.most_held,
                                 schedule->stages().ranks(), "pipeline rank");
  if (!most) { return tl::unexpected(most.error()); }

  ballast::pipeline_memory const held{written->held, {most->begin(), most->end()}};
  pipeline_run run{options, std::move(*written), std::move(*ids), *schedule, *schedule, {}, {}, 0};
  if (is_planned(options.ordering)) { run.options.ordering.order = "planned"; }
  auto const order = [&]() -> ballast::result<void> {
    ballast::workspace memory;
    auto const start = std::chrono::steady_clock::now();
    auto done = is_planned(options.ordering)
                    ? plan_tasks(run, held)
                    : ballast::order_microbatches_into(run.plan, memory, run.schedule,
                                                       run.written.times, chosen->policy);
    run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (done) { done = ballast::check_memory(run.schedule, run.plan.order, held); }
    return done && is_own(options.ordering) ? plan_beside(run, times, held) : done;
  };
  auto const done = while_shown(order, run.written.times);
  if (!done) { return bad_data(fmt::format("{}: {}", options.durations, done.error().message)); }
  return run;
}

}  // namespace cli
