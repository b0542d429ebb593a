// SPDX-License-Identifier: Apache-2.0
#include "search_command.hpp"

#include "output_paths.hpp"
#include "progress.hpp"

#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/cost/read_profile.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/workload/sample_sizes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {
namespace {

using ballast::tokens;

/// "80GB", "80GiB" or a number of bytes.
outcome<std::uint64_t> read_bytes(std::string_view option, std::string const& text)
{
  constexpr std::pair<std::string_view, std::uint64_t> units[] = {{"KiB", std::uint64_t{1} << 10},
                                                                  {"MiB", std::uint64_t{1} << 20},
                                                                  {"GiB", std::uint64_t{1} << 30},
                                                                  {"TiB", std::uint64_t{1} << 40},
                                                                  {"kB", 1'000},
                                                                  {"MB", 1'000'000},
                                                                  {"GB", 1'000'000'000},
                                                                  {"TB", 1'000'000'000'000},
                                                                  {"B", 1}};
  std::string_view number = text;
  std::uint64_t unit = 1;
  for (auto const& [name, bytes] : units) {
    if (!number.ends_with(name)) { continue; }
    number.remove_suffix(name.size());
    unit = bytes;
    break;
  }
  constexpr std::uint64_t billion = 1'000'000'000;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  auto const parsed = ballast::parse_decimal(number);
  ballast::uint128 const billionths =
      parsed ? parsed->in_units(ballast::decimal::most_decimals) : ballast::uint128{0};
  bool const good = parsed && billionths <= static_cast<ballast::uint128>(most) * billion / unit &&
                    billionths * unit >= billion;
  if (!good) {
    return usage(fmt::format("{}: '{}' is no size of at least one byte; write 80GB, 80GiB or 80e9",
                             option, text));
  }
  return static_cast<std::uint64_t>(billionths * unit / billion);
}

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

/// For each module the expression of its sizes: that of a --size, or the column that has its name.
outcome<std::vector<std::string>> expressions_of(search_options const& options,
                                                 std::span<ballast::module_profile const> modules)
{
  std::vector<std::string> expressions(modules.size());
  for (std::string const& size : options.sizes) {
    std::size_t const equals = size.find('=');
    std::string_view const name = std::string_view(size).substr(0, equals);
    auto const module =
        std::ranges::find_if(modules, [name](auto const& each) { return each.name == name; });
    if (equals == size.npos || module == modules.end()) {
      std::string names;
      for (auto const& each : modules) { names += (names.empty() ? "" : ", ") + each.name; }
      return usage(fmt::format(
          "--size: '{}' gives no module of the profile a size; write MODULE=EXPR for one of {}",
          size, names));
    }
    std::string& expression = expressions[static_cast<std::size_t>(module - modules.begin())];
    if (!expression.empty()) {
      return usage(fmt::format("--size: module {} has two sizes; give one", name));
    }
    expression = size.substr(equals + 1);
    if (expression.empty()) {
      return usage(fmt::format("--size: '{}' has no expression; name a column", size));
    }
  }
  for (std::size_t module = 0; module < modules.size(); ++module) {
    if (expressions[module].empty()) { expressions[module] = "`" + modules[module].name + "`"; }
  }
  return expressions;
}

outcome<std::vector<tokens>> read_sizes(search_options const& options,
                                        std::span<ballast::module_profile const> modules)
{
  using ballast::error_code;
  auto const expressions = expressions_of(options, modules);
  if (!expressions) { return tl::unexpected(expressions.error()); }
  auto sizes = ballast::load_sample_sizes(options.data, *expressions);
  if (sizes) { return std::move(*sizes); }
  bool const wrong_expression =
      !options.sizes.empty() &&
      (sizes.error().code == error_code::syntax || sizes.error().code == error_code::out_of_range);
  if (wrong_expression) { return usage("--size", sizes.error()); }
  return bad_data(sizes.error().message + (sizes.error().code == error_code::unknown_name
                                               ? "; add it, or give --size MODULE=EXPR"
                                               : ""));
}

/// The best layouts by the prices, ranked by simulated steps.
outcome<void> find_layouts(search_run& run, ballast::layout_problem const& problem,
                           std::span<tokens const> batches)
{
  auto const start = std::chrono::steady_clock::now();
  auto const found = ballast::search_layouts(problem, run.options.top);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!found) {
    if (found.error().code != ballast::error_code::infeasible) {
      return bad_data(found.error().message);
    }
    run.why_none = found.error().message;
    return {};
  }
  run.evaluated = found->evaluated;
  auto ranked = ballast::rank_by_simulation(problem, found->layouts, batches);
  if (!ranked) { return bad_data("a layout cannot be simulated: " + ranked.error().message); }
  run.layouts = std::move(*ranked);
  return {};
}

}  // namespace

outcome<search_run> run_search(search_options const& options)
{
  if (auto const checked = check_paths({{"--profile", &options.profile}, {"--data", &options.data}},
                                       {{"--report", &options.report}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const memory = read_bytes("--memory", options.memory);
  if (!memory) { return tl::unexpected(memory.error()); }
  auto const quantile = read_share("--memory-quantile", options.memory_quantile);
  if (!quantile) { return tl::unexpected(quantile.error()); }
  constexpr std::size_t most_simulated = std::size_t{1} << 26;
  if (options.batches > most_simulated / options.global_batch) {
    return usage(
        fmt::format("--batches: {} batches of {} samples are more than {} samples; simulate fewer",
                    options.batches, options.global_batch, most_simulated));
  }
  auto modules = ballast::load_module_profiles(options.profile);
  if (!modules) { return bad_data(modules.error().message); }
  auto const all = read_sizes(options, *modules);
  if (!all) { return tl::unexpected(all.error()); }

  search_run run;
  run.options = options;
  run.modules = std::move(*modules);
  run.rows = all->size() / run.modules.size();
  run.memory_bytes = *memory;
  // Neighbours in a file are alike, and memory is priced for samples that follow each other.
  ballast::random_source random(options.seed);
  std::vector<std::size_t> rows(run.rows);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  random.shuffle(std::span(rows));
  run.sizes = ballast::sizes_of_rows(*all, run.modules.size(),
                                     std::span(rows).first(std::min(options.draws, rows.size())));
  std::vector<std::size_t> drawn(options.batches * options.global_batch);
  for (std::size_t& row : drawn) { row = static_cast<std::size_t>(random.below(run.rows)); }
  auto const batches = ballast::sizes_of_rows(*all, run.modules.size(), drawn);

  ballast::layout_problem problem;
  problem.modules = run.modules;
  problem.sizes = run.sizes;
  problem.global_batch = options.global_batch;
  problem.gpus = options.gpus;
  problem.gpus_per_node = options.gpus_per_node;
  problem.memory_bytes = *memory;
  problem.memory_quantile = *quantile;
  problem.estimate = options.estimate == "mean-step" ? ballast::step_estimate::mean_step
                                                     : ballast::step_estimate::mean_sample;
  // Neither search nor simulation has a place from which to report, so another thread says that they
  // are at work.
  progress shown;
  auto searching =
      std::async(std::launch::async, [&] { return find_layouts(run, problem, batches); });
  while (searching.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    shown.update([&options] {
      return fmt::format("searching {} GPUs, simulating {} layouts", options.gpus, options.top);
    });
  }
  if (auto const searched = searching.get(); !searched) { return tl::unexpected(searched.error()); }
  return run;
}

}  // namespace cli
