// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include "pricing.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cli {
namespace {

outcome<void> check_samples(job_options const& options)
{
  if (options.trace.empty() == options.codes.empty()) {
    return usage("give the samples either as --trace FILE with --length EXPR or as --codes CODES");
  }
  if (options.trace.empty() != options.length.empty()) {
    return usage("--trace and --length go together: the file, and the columns to add up");
  }
  if (!options.codes.empty() && options.batch != 0) {
    return usage("--batch goes with --trace; with --codes the batch comes from the codes");
  }
  return {};
}

outcome<std::vector<ballast::tokens>> load_trace(job_options const& options)
{
  auto loaded = ballast::load_length_trace(options.trace, options.length);
  if (!loaded) {
    using ballast::error_code;
    bool const expression = loaded.error().code == error_code::syntax ||
                            loaded.error().code == error_code::out_of_range;
    return expression ? usage("--length", loaded.error()) : bad_data(loaded.error().message);
  }
  return std::move(*loaded);
}

/// The machines that the job runs on, and the network between them.
outcome<ballast::cluster> machines_of(job_options const& options, std::size_t gpus)
{
  auto machines = ballast::cluster_of(gpus, options.gpus_per_node);
  if (!machines) { return usage("--gpus, --gpus-per-node", machines.error()); }
  if (options.within_node_gb_per_s) {
    machines->within_node_bytes_per_second = *options.within_node_gb_per_s * 1e9;
  }
  if (options.between_nodes_gb_per_s) {
    machines->between_nodes_bytes_per_second = *options.between_nodes_gb_per_s * 1e9;
  }
  if (options.latency_us) { machines->latency_seconds = *options.latency_us * 1e-6; }
  return *machines;
}

}  // namespace

outcome<job> prepare_job(job_options const& options)
{
  if (auto const checked = check_samples(options); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const policy = ballast::parse_policy(options.policy);
  if (!policy) { return usage("--policy", policy.error()); }

  job work;
  work.options = options;
  work.policy = *policy;
  std::size_t gpus = options.gpus;
  if (!options.codes.empty()) {
    auto parsed = ballast::parse_data_codes(options.codes);
    if (!parsed) { return usage("--codes", parsed.error()); }
    work.codes = std::move(*parsed);
    work.source = options.codes;
    if (gpus == 0) {
      for (auto const& code : work.codes) { gpus += code.gpus; }
    }
  }
  std::vector<ballast::bag_spec> specs;
  for (std::string const& text : options.bags) {
    auto const spec = ballast::parse_bags(text);
    if (!spec) { return usage("--bags", spec.error()); }
    specs.push_back(*spec);
  }
  if (gpus == 0 && specs.empty()) {
    return usage("say with --gpus or --bags how many GPUs there are");
  }
  if (gpus == 0) { gpus = specs.front().gpus(); }
  auto const machines = machines_of(options, gpus);
  if (!machines) { return tl::unexpected(machines.error()); }
  work.machines = *machines;

  for (std::size_t index = 0; index < specs.size(); ++index) {
    auto layout = ballast::lay_out(
        specs[index], *machines,
        options.relay ? ballast::misplaced_bags::relay : ballast::misplaced_bags::refuse);
    if (!layout) {
      return usage(
          fmt::format("--bags {}{}", options.bags[index], options.relay ? "" : ", --relay"),
          layout.error());
    }
    work.layouts.push_back({options.bags[index], std::move(*layout)});
  }
  if (work.layouts.empty()) {
    work.layouts.push_back({fmt::format("g1n{}", gpus), ballast::one_gpu_bags(gpus)});
  }
  if (auto const priced = price(work); !priced) { return tl::unexpected(priced.error()); }

  if (!options.trace.empty()) {
    auto trace = load_trace(options);
    if (!trace) { return tl::unexpected(trace.error()); }
    work.trace = std::move(*trace);
    work.source = options.trace.substr(options.trace.find_last_of('/') + 1);
  }
  return work;
}

}  // namespace cli
