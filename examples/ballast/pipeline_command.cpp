// SPDX-License-Identifier: Apache-2.0
#include "pipeline_command.hpp"
#include "../common/by_name/any_order_policy.hpp"
#include "../common/by_name/any_schedule.hpp"

#include "out_of_memory.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "progress.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/pipeline_files.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/read_file.hpp>

#include <fmt/format.h>
#include <unistd.h>

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

/// The schedule and the policy, with the options that are for the search alone.
outcome<ordering> ordering_of(pipeline_options const& options)
{
  ordering_options named = options.ordering;
  if (is_own(named)) { named.schedule = ordering_options().schedule; }  // its file is read later
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

outcome<ballast::written_times> read_times(pipeline_options const& options)
{
  auto const transfer = ballast::parse_decimal(options.transfer);
  if (!transfer) { return usage("--transfer", transfer.error()); }
  return read_in_memory(options.durations, [&]() -> outcome<ballast::written_times> {
    auto written = ballast::read_file(options.durations, ballast::read_pipeline_times, *transfer);
    if (!written) { return bad_data(written.error().message); }
    return std::move(*written);
  });
}

/// The schedule that the options name, for the stages and microbatches of the file of times.
outcome<ballast::compiled_schedule> schedule_of(pipeline_options const& options,
                                                by_name::any_schedule const& named,
                                                ballast::written_times const& written)
{
  if (is_own(options.ordering)) {
    auto own =
        ballast::read_file(options.ordering.schedule, ballast::read_schedule, written.transfer);
    if (!own) { return bad_data(own.error().message); }
    return std::move(*own);
  }
  auto const stages =
      chain_for(options.ordering, named, written.times.stages, written.transfer, options.durations);
  if (!stages) { return tl::unexpected(stages.error()); }
  return compile(named, *stages, written.times.microbatches());
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
  if (auto const checked =
          check_paths({{"--durations", &options.durations}, {"--schedule", &schedule_file}},
                      {{"--plan", &options.plan},
                       {"--report", &options.report},
                       {"--timeline", &options.timeline}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const chosen = ordering_of(options);
  if (!chosen) { return tl::unexpected(chosen.error()); }
  auto written = read_times(options);
  if (!written) { return tl::unexpected(written.error()); }
  auto schedule = schedule_of(options, chosen->schedule, *written);
  if (!schedule) { return tl::unexpected(schedule.error()); }

  pipeline_run run{options, std::move(*written), std::move(*schedule), {}, 0};
  auto const order = [&run, &chosen]() -> ballast::result<void> {
    ballast::workspace memory;
    auto const start = std::chrono::steady_clock::now();
    auto const done = ballast::order_microbatches_into(run.plan, memory, run.schedule,
                                                       run.written.times, chosen->policy);
    run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return done;
  };
  auto const done = while_shown(order, run.written.times);
  if (!done) { return bad_data(fmt::format("{}: {}", options.durations, done.error().message)); }
  return run;
}

}  // namespace cli
