// SPDX-License-Identifier: Apache-2.0
#include "compare_command.hpp"

#include "output.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "pages/compare_page.hpp"
#include "plan_command.hpp"
#include "progress.hpp"
#include "read_policy.hpp"
#include "shown_text.hpp"
#include "steps.hpp"

#include <ballast/report/metrics.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cli {
namespace {

/// The options of every policy within every limit, in the order in which they were given.
outcome<std::vector<job_options>> jobs_of(compare_options const& options)
{
  std::vector<std::string> policies = options.policies;
  if (policies.empty()) { policies.push_back(options.job.policy); }
  std::vector<std::size_t> limits = options.most_per_gpu;
  if (limits.empty()) { limits.push_back(0); }
  std::size_t const bags = std::max<std::size_t>(options.job.bags.size(), 1);
  std::size_t const count = policies.size() * limits.size() * bags;
  if (count > most_combinations) {
    return usage(
        fmt::format("{} of --policy, {} of --most-per-gpu and {} of --bags are {} "
                    "combinations; give {} at most",
                    policies.size(), limits.size(), bags, count, most_combinations));
  }
  std::vector<job_options> jobs;
  for (std::string const& policy : policies) {
    for (std::size_t const limit : limits) {
      job_options& job = jobs.emplace_back(options.job);
      job.policy = policy;
      job.most_per_gpu = limit;
      if (auto const read = read_policy(job); !read) { return tl::unexpected(read.error()); }
      if (auto const read = read_limits(job); !read) { return tl::unexpected(read.error()); }
    }
  }
  return jobs;
}

/// Adds a step to the sums of which `finish` makes means.
void add_step(combination& sums, ballast::report::balance_metrics const& balance)
{
  sums.heaviest += balance.heaviest;
  sums.balance_ratio += balance.balance_ratio();
  sums.idle_share += balance.idle_share();
}

void finish(combination& sums, std::size_t steps)
{
  for (double combination::* const sum :
       {&combination::heaviest, &combination::balance_ratio, &combination::idle_share,
        &combination::gap_mean, &combination::moved_share}) {
    sums.*sum /= static_cast<double>(steps);
  }
}

/// Plans all steps by the policy of the job over one layout.
outcome<combination> plan_all(compare_run& run, named_layout const& bags, progress& shown)
{
  job const& work = run.job;
  bool const is_first = run.combinations.empty();
  combination sums;
  sums.policy = work.options.policy;
  sums.most_per_gpu = work.options.most_per_gpu;
  sums.bags = bags.bags;
  std::vector<double> seconds;
  auto const done = for_each_step(work, bags, shown, [&](planned_step const& step) {
    add_step(sums, ballast::report::measure_balance(step.plan.loads, bags.layout.speeds()));
    sums.gap_mean += step.plan.gap();
    sums.gap_max = std::max(sums.gap_max, step.plan.gap());
    sums.moved_share += step.plan.moved.value();
    sums.digest.add(step.plan.digest());
    seconds.push_back(step.plan_seconds);
    if (!is_first) { return; }
    if (step.index == 0) { run.samples = static_cast<std::int64_t>(step.batch.lengths.size()); }
    add_step(run.as_read, ballast::report::measure_as_read(step.batch, step.plan.costs, work.gpus(),
                                                           work.machines.gpu_speeds));
  });
  if (!done) {
    return tl::unexpected(failure{done.error().exit_code,
                                  fmt::format("policy {}: {}", sums.policy, done.error().message)});
  }
  finish(sums, seconds.size());
  if (is_first) { finish(run.as_read, seconds.size()); }
  std::ranges::sort(seconds);
  sums.plan_seconds_median = (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
  return sums;
}

/// How much longer than the shortest the steps of a combination are.
double above_best(compare_run const& run, combination const& each)
{
  double const best = std::ranges::min(run.combinations, {}, &combination::heaviest).heaviest;
  return best > 0 ? each.heaviest / best - 1 : 0;
}

std::string table_of(compare_run const& run)
{
  bool const is_limited = std::ranges::any_of(
      run.combinations, [](combination const& each) { return each.most_per_gpu != 0; });
  std::size_t policy_width = 8;
  std::size_t bags_width = 5;
  for (combination const& each : run.combinations) {
    policy_width = std::max(policy_width, each.policy.size() + 1);
    bags_width = std::max(bags_width, each.bags.size() + 1);
  }
  job listed = run.job;
  listed.options.policy = "as below";
  listed.options.most_per_gpu = 0;
  std::string out = heading_of(listed, run.samples);
  auto const row = [&](std::string const& policy, std::string const& bags,
                       combination const& each) {
    std::string line = fmt::format("{:<{}}{:<{}}", policy, policy_width, bags, bags_width);
    if (is_limited) {
      line +=
          fmt::format("{:>10}", each.most_per_gpu == 0 ? "" : fmt::format("{}", each.most_per_gpu));
    }
    line += fmt::format("{:>12.3f}{:>8.1f} %{:>10.2f} %", each.balance_ratio, 100 * each.idle_share,
                        100 * above_best(run, each));
    if (run.job.times_known) {
      line += fmt::format("{:>11}", duration_text(each.heaviest * run.job.seconds_at_speed_one()));
    }
    return line;
  };
  out += fmt::format("\n{:<{}}{:<{}}{}{:>12}{:>10}{:>12}{}{:>10}{:>9}{:>11}\n", "policy",
                     policy_width, "bags", bags_width,
                     is_limited ? fmt::format("{:>10}", "most") : "", "max / mean", "idle",
                     "above best", run.job.times_known ? fmt::format("{:>11}", "computing") : "",
                     "gap", "moved", "planning");
  out += row("as read", "", run.as_read) + "\n";
  for (combination const& each : run.combinations) {
    out += row(each.policy, each.bags, each) +
           fmt::format("{:>8.1f} %{:>7.1f} %{:>11}\n", 100 * each.gap_max, 100 * each.moved_share,
                       duration_text(each.plan_seconds_median));
  }
  return out + "\n";
}

nlohmann::ordered_json to_json(compare_run const& run)
{
  auto const balance = [&run](combination const& each) {
    nlohmann::ordered_json json = {{"balance_ratio", each.balance_ratio},
                                   {"idle_share", each.idle_share},
                                   {"above_best", above_best(run, each)}};
    if (run.job.times_known) {
      json["compute_ms_mean"] = each.heaviest * run.job.seconds_at_speed_one() * 1e3;
    }
    return json;
  };
  nlohmann::ordered_json json = settings_json(run.job, "", run.samples);
  for (char const* const name : {"bags", "policy", "most_per_gpu"}) { json.erase(name); }
  json["as_read"] = balance(run.as_read);
  json["combinations"] = nlohmann::ordered_json::array();
  for (combination const& each : run.combinations) {
    nlohmann::ordered_json entry = {{"policy", each.policy}, {"bags", each.bags}};
    if (each.most_per_gpu != 0) { entry["most_per_gpu"] = each.most_per_gpu; }
    entry.update(balance(each));
    entry["gap_mean"] = each.gap_mean;
    entry["gap_max"] = each.gap_max;
    entry["moved_share"] = each.moved_share;
    entry["plan_ms_median"] = each.plan_seconds_median * 1e3;
    entry["digest"] = each.digest.value();
    json["combinations"].push_back(std::move(entry));
  }
  return json;
}

pages::compare_page_data page_of(compare_run const& run)
{
  double const unit = run.job.times_known ? run.job.seconds_at_speed_one() : 1;
  auto const shown = [unit](std::string name, combination const& each) {
    return pages::compared_plan{std::move(name),         each.heaviest * unit, each.balance_ratio,
                                each.idle_share,         each.gap_max,         each.moved_share,
                                each.plan_seconds_median};
  };
  pages::compare_page_data page;
  page.unit = run.job.times_known ? "s" : "units";
  page.as_read = shown("as read", run.as_read);
  for (combination const& each : run.combinations) {
    std::string const limit =
        each.most_per_gpu == 0 ? ""
                               : fmt::format(", at most {}", count_of(each.most_per_gpu, "token"));
    page.plans.push_back(shown(fmt::format("{} over {}{}", each.policy, each.bags, limit), each));
  }
  job const& work = run.job;
  page.settings = {
      {"Samples", work.trace.empty()
                      ? "data codes " + work.options.codes
                      : fmt::format("{} ({}), {} per step{}", work.source, work.options.length,
                                    run.samples, short_step_text(work))},
      {"GPUs", fmt::format("{} in {}", work.gpus(), machines_text(work))},
      {"Cost model", work.options.cost},
      {"Seed", fmt::format("{}", work.options.seed)}};
  return page;
}

}  // namespace

outcome<compare_run> run_compare(compare_options const& options)
{
  if (std::string const unused = exchange_options(options.job); !unused.empty()) {
    return usage(unused +
                 ": compare does not show what moving samples takes; leave it out, or use ballast "
                 "route");
  }
  if (auto const checked = check_paths(inputs_of(options.job), {{"--report", &options.report}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const jobs = jobs_of(options);
  if (!jobs) { return tl::unexpected(jobs.error()); }
  progress shown;
  auto work = prepare_job(jobs->front(), shown);
  if (!work) { return tl::unexpected(work.error()); }
  compare_run run;
  run.job = std::move(*work);
  run.report = options.report;
  run.job.rows = {};  // all lengths are read
  for (job_options const& each : *jobs) {
    run.job.options.policy = each.policy;
    run.job.options.most_per_gpu = each.most_per_gpu;
    run.job.policy = *read_policy(each);
    run.job.limits = *read_limits(each);
    for (named_layout const& bags : run.job.layouts) {
      auto planned = plan_all(run, bags, shown);
      if (!planned) { return tl::unexpected(planned.error()); }
      run.combinations.push_back(std::move(*planned));
    }
  }
  return run;
}

outcome<void> show_compare(compare_run const& run)
{
  output_files files;
  if (!run.report.empty()) { files.add("page", run.report, pages::compare_page(page_of(run))); }
  return files.show(
      run.job.options.format, [&] { return table_of(run); }, [&] { return to_json(run); });
}

}  // namespace cli
