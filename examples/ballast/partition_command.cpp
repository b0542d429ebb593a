// SPDX-License-Identifier: Apache-2.0
#include "partition_command.hpp"
#include "../common/by_name/parse_policy.hpp"

#include "instance_files.hpp"
#include "output.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "progress.hpp"
#include "read_policy.hpp"
#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <iterator>

namespace cli {
namespace {

using ballast::cost_units;

/// Over all instances.
struct totals {
  std::size_t proven = 0;
  double microseconds_mean = 0;
  double gap_mean = 0;
  double gap_max = 0;
};

totals add_up(partition_run const& run)
{
  totals all;
  auto const files = static_cast<double>(run.solved.size());
  for (solved_instance const& each : run.solved) {
    all.proven += each.proven() ? 1 : 0;
    all.microseconds_mean += each.microseconds / files;
    all.gap_mean += each.gap / files;
    all.gap_max = std::max(all.gap_max, each.gap);
  }
  return all;
}

double proven_share(partition_run const& run, totals const& all)
{
  return static_cast<double>(all.proven) / static_cast<double>(run.solved.size());
}

nlohmann::ordered_json to_json(partition_run const& run)
{
  nlohmann::ordered_json json;
  json["policy"] = run.options.policy;
  json["instances"] = nlohmann::ordered_json::array();
  for (solved_instance const& each : run.solved) {
    json["instances"].push_back({{"file", each.file},
                                 {"n", each.jobs},
                                 {"m", each.machines},
                                 {"makespan", each.makespan},
                                 {"lower_bound", each.lower_bound},
                                 {"proven", each.proven()},
                                 {"micros", each.microseconds}});
  }
  totals const all = add_up(run);
  json["passed_over"] = run.passed_over;
  json["files"] = run.solved.size();
  json["proven"] = all.proven;
  json["proven_share"] = proven_share(run, all);
  json["micros_mean"] = all.microseconds_mean;
  json["gap_mean"] = all.gap_mean;
  json["gap_max"] = all.gap_max;
  return json;
}

std::string table_of(partition_run const& run)
{
  std::size_t width = 4;
  for (solved_instance const& each : run.solved) {
    width = std::max(width, shown_text(each.file).size());
  }
  std::string out = fmt::format("{:<{}}{:>9}{:>7}{:>16}{:>16}{:>8}{:>12}\n", "file", width, "n",
                                "m", "makespan", "lower_bound", "proven", "micros");
  for (solved_instance const& each : run.solved) {
    out += fmt::format("{:<{}}{:>9}{:>7}{:>16}{:>16}{:>8}{:>12.1f}\n", shown_text(each.file), width,
                       each.jobs, each.machines, each.makespan, each.lower_bound,
                       each.proven() ? "yes" : "no", each.microseconds);
  }
  totals const all = add_up(run);
  out += fmt::format(
      "\npolicy {}\n{}, {} proven optimal ({:.1f} %), {} on average, gap {:.1f} % on average and "
      "{:.1f} % at most\n",
      run.options.policy, count_of(run.solved.size(), "instance"), all.proven,
      100 * proven_share(run, all), duration_text(all.microseconds_mean * 1e-6), 100 * all.gap_mean,
      100 * all.gap_max);
  if (!run.passed_over.empty()) {
    std::string names;
    for (std::string const& name : run.passed_over) {
      (names += names.empty() ? "" : ", ") += shown_text(name);
    }
    out += fmt::format("passed over: {}\n", names);
  }
  return out;
}

}  // namespace

outcome<partition_run> run_partition(partition_options const& options)
{
  auto const policy = by_name::parse_policy(options.policy);
  if (!policy) { return usage("--policy", policy.error()); }
  auto const samples = read_samples(options.samples);
  if (!samples) { return tl::unexpected(samples.error()); }
  ballast::placement_limits const limits{.samples = *samples};
  std::vector<file_option> files;
  for (std::string const& path : options.instances) { files.push_back({"instances", &path}); }
  if (auto const checked = check_plan(options.plan, options.format); !checked) {
    return tl::unexpected(checked.error());
  }
  if (auto const checked = check_paths(files, {{"--plan", &options.plan}}); !checked) {
    return tl::unexpected(checked.error());
  }
  progress shown;
  auto read = read_instances(options.instances, options.most_bytes);
  if (!read) { return tl::unexpected(read.error()); }
  partition_run run;
  run.options = options;
  run.passed_over = std::move(read->passed_over);
  ballast::partition_plan plan;
  ballast::workspace memory;
  for (named_instance const& each : read->instances) {
    shown.update([&] {
      return fmt::format("{} of {} instances solved", run.solved.size(), read->instances.size());
    });
    auto const& [machines, times] = each.instance;
    ballast::bag_layout const bags = ballast::one_gpu_bags(machines);
    auto const cost = [](cost_units time) { return time; };
    // Policies that look at lengths see times, as far as lengths go.
    auto const length = [](cost_units time) { return std::min(time, ballast::longest_sample); };
    auto const start = std::chrono::steady_clock::now();
    auto const done =
        ballast::partition_into(plan, memory, times, bags, cost, length, limits, *policy);
    std::chrono::duration<double, std::micro> const taken =
        std::chrono::steady_clock::now() - start;
    if (!done) { return bad_data(fmt::format("{}: {}", each.file, done.error().message)); }
    for (std::size_t job = 0; !options.plan.empty() && job < times.size(); ++job) {
      fmt::format_to(std::back_inserter(run.plan_lines), "{},{},{},{}\n", run.solved.size(), job,
                     to_index(plan.owner[job]), times[job]);
    }
    // Machines do whole units of work, so a bound between two numbers is raised to the upper one.
    ballast::ratio const bound = plan.lower_bound;
    run.solved.push_back(
        {each.file, times.size(), machines, plan.makespan.numerator,
         bound.numerator / bound.denominator + (bound.numerator % bound.denominator != 0 ? 1 : 0),
         plan.gap(), taken.count()});
  }
  return run;
}

outcome<void> show_partition(partition_run const& run)
{
  output_files files;
  files.add_plan(run.options.plan, "step,sample,bag,cost\n" + run.plan_lines);
  return files.show(
      run.options.format, [&] { return table_of(run); }, [&] { return to_json(run); });
}

}  // namespace cli
