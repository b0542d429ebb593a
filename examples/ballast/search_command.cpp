// SPDX-License-Identifier: Apache-2.0
#include "search_command.hpp"

#include "found_layouts.hpp"
#include "module_inputs.hpp"
#include "output.hpp"
#include "progress.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/workload/length_trace.hpp>

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <future>
#include <system_error>

namespace cli {
namespace {

using ballast::tokens;

outcome<ballast::ratio> read_share(std::string_view option, std::string const& text)
{
  constexpr std::int64_t whole = 1'000'000'000;
  auto const parsed = ballast::parse_decimal(text);
  auto const billionths =
      parsed ? parsed->in_units(ballast::decimal::most_decimals) : ballast::uint128{0};
  if (billionths == 0 || billionths > static_cast<ballast::uint128>(whole)) {
    return usage(
        fmt::format("{}: '{}' is no share above 0 and at most 1; write 0.99", option, text));
  }
  return ballast::ratio{static_cast<std::int64_t>(billionths), whole};
}

/// Increasing numbers from 2 on, between commas.
outcome<std::vector<std::uint32_t>> read_virtual_stages(std::string const& text)
{
  std::vector<std::uint32_t> numbers;
  for (std::size_t at = 0; at < text.size() + (text.empty() ? 0 : 1);) {
    std::size_t const comma = std::min(text.find(',', at), text.size());
    std::uint32_t number = 0;
    auto const parsed = std::from_chars(text.data() + at, text.data() + comma, number);
    bool const is_number = parsed.ec == std::errc{} && parsed.ptr == text.data() + comma;
    if (!is_number || number <= (numbers.empty() ? 1 : numbers.back())) {
      return usage(
          fmt::format("--virtual-stages: '{}' is no list of increasing numbers from 2 on; "
                      "write 2,4",
                      text));
    }
    numbers.push_back(number);
    at = comma + 1;
  }
  return numbers;
}

std::uint64_t all_gpus(ballast::layout_problem const& problem)
{
  std::uint64_t gpus = 0;
  for (ballast::gpu_kind const& kind : problem.kinds) { gpus += kind.gpus; }
  return gpus;
}

/// What a search, in a thread of its own, says while it is at work: picoseconds, 0 before it knows.
struct so_far {
  std::atomic<ballast::time_units> best = 0;
  std::atomic<ballast::time_units> lower_bound = 0;

  [[nodiscard]] std::string text() const
  {
    if (best == 0) { return ""; }
    double const above = seconds_of(best) / std::max(seconds_of(lower_bound), 1e-12) - 1;
    return fmt::format(": a step of {}, at most {:.1f} % above the shortest",
                       duration_text(seconds_of(best)), 100 * above);
  }
};

/// The layouts with the shortest simulated steps.
outcome<void> find_layouts(search_run& run, std::span<tokens const> batches,
                           std::vector<std::uint32_t> const& virtual_stages, so_far& told)
{
  ballast::layout_problem const& problem = run.problem;
  auto const start = std::chrono::steady_clock::now();
  ballast::layout_search_options asked{.best = run.options.print, .virtual_stages = virtual_stages};
  if (run.options.split_backwards) {
    using enum ballast::layout_schedule;
    asked.schedules = {zero_bubble, twice_zero_bubble, zero_bubble_v, planned};
  }
  constexpr double thousand_million = 1e9;
  if (run.options.is_proof_wanted) {
    asked.most_work = ballast::layout_search_options::until_proven;
  } else if (run.options.budget != 0) {
    asked.most_work = static_cast<std::uint64_t>(run.options.budget * thousand_million);
  }
  asked.progress = [&told](ballast::layout_ranking const& known) {
    if (known.layouts.empty()) { return; }
    told.lower_bound = known.lower_bound;
    told.best = known.layouts.front().simulated;
  };
  auto found = ballast::search_layouts(problem, batches, asked);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!found) {
    if (found.error().code != ballast::error_code::infeasible) {
      return bad_data(found.error().message);
    }
    run.why_none = found.error().message;
    return {};
  }
  run.found = *std::move(found);
  run.layouts = run.found.layouts;
  if (problem.kinds.front().bytes_per_second == 0) { return {}; }
  ballast::layout_problem at_once = problem;
  for (auto& kind : at_once.kinds) { kind.bytes_per_second = 0; }
  for (auto const& [layout, simulated] : run.layouts) {
    auto const computed = ballast::simulate_layout(at_once, layout, batches);
    if (!computed) { return bad_data(computed.error().message); }
    run.sending.push_back(simulated - *computed);
  }
  return {};
}

}  // namespace

outcome<search_run> run_search(search_options const& options)
{
  auto const quantile = read_share("--memory-quantile", options.memory_quantile);
  if (!quantile) { return tl::unexpected(quantile.error()); }
  auto const virtual_stages = read_virtual_stages(options.virtual_stages);
  if (!virtual_stages) { return tl::unexpected(virtual_stages.error()); }
  constexpr std::size_t most_simulated = std::size_t{1} << 21;
  if (options.batches > most_simulated / options.global_batch) {
    return usage(
        fmt::format("--batches: {} batches of {} samples are more than {} samples; simulate fewer, "
                    "or a smaller --global-batch",
                    options.batches, options.global_batch, most_simulated));
  }
  constexpr std::uint32_t most_gpus = ballast::layout_search_options::most_gpus;
  if (options.gpus > most_gpus) {
    return usage(
        fmt::format("--gpus: {} GPUs are more than {}; search fewer", options.gpus, most_gpus));
  }
  search_run run;
  run.options = options;
  if (auto const done = read_model(run, options); !done) { return tl::unexpected(done.error()); }
  std::vector<tokens> const all = std::move(run.sizes);
  ballast::layout_problem& problem = run.problem;
  std::size_t const modules = run.modules.size();
  ballast::module_profile const& last = run.modules.back();
  if (!virtual_stages->empty() && virtual_stages->back() > last.layers) {
    return usage(
        fmt::format("--virtual-stages: {} are more than the {} layers of module {}, and a virtual "
                    "stage has one at least; give fewer",
                    virtual_stages->back(), last.layers, last.name));
  }
  if (options.side_by_side && modules < 3) {
    return usage(
        fmt::format("--side-by-side: {} has {}, and the modules before the last are one at "
                    "most; leave it out",
                    options.profile, count_of(modules, "module")));
  }
  // Neighbours in a file are alike, and memory is priced for samples that follow each other.
  ballast::random_source random(options.seed);
  std::vector<std::size_t> rows(run.rows);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  random.shuffle(std::span(rows));
  run.sizes = ballast::sizes_of_rows(all, modules,
                                     std::span(rows).first(std::min(options.draws, rows.size())));
  std::vector<std::size_t> drawn(options.batches * options.global_batch);
  for (std::size_t& row : drawn) { row = static_cast<std::size_t>(random.below(run.rows)); }
  auto const batches = ballast::sizes_of_rows(all, modules, drawn);

  problem.sizes = run.sizes;
  if (options.side_by_side) { run.feeds.assign(modules - 1, modules - 1); }
  problem.feeds = run.feeds;
  problem.may_leave_gpus = options.leave_gpus;
  problem.memory_quantile = *quantile;
  problem.estimate = options.estimate == "mean-step" ? ballast::step_estimate::mean_step
                                                     : ballast::step_estimate::mean_sample;
  progress shown;
  so_far told;
  auto searching = std::async(std::launch::async,
                              [&] { return find_layouts(run, batches, *virtual_stages, told); });
  while (searching.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    shown.update([&] {
      return fmt::format("searching the layouts of {} GPUs{}", all_gpus(problem), told.text());
    });
  }
  if (auto const searched = searching.get(); !searched) { return tl::unexpected(searched.error()); }
  return run;
}

}  // namespace cli
