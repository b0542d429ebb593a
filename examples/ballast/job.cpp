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

/// How many GPUs the job has, and the option that says so.
struct job_size {
  std::size_t gpus = 0;
  std::string source;
};

outcome<job_size> size_of(job_options const& options, std::vector<ballast::data_code> const& codes,
                          std::vector<ballast::bag_spec> const& specs)
{
  if (options.gpus != 0) { return job_size{options.gpus, "--gpus"}; }
  if (!codes.empty()) {
    job_size size{0, "--codes"};
    for (auto const& code : codes) { size.gpus += code.gpus; }
    return size;
  }
  if (specs.empty()) { return usage("say with --gpus or --bags how many GPUs there are"); }
  return job_size{specs.front().gpus(), "--bags " + options.bags.front()};
}

/// The machines that the job runs on, and the network between them.
outcome<ballast::cluster> machines_of(job_options const& options, job_size const& size)
{
  auto machines = ballast::cluster_of(size.gpus, options.gpus_per_node);
  if (!machines) {
    bool const unfilled = machines.error().code == ballast::error_code::infeasible;
    return usage(fmt::format("{}: {}{}", size.source, machines.error().message,
                             unfilled ? " with --gpus-per-node" : ""));
  }
  if (options.within_node_gb_per_s) {
    machines->within_node_bytes_per_second = *options.within_node_gb_per_s * 1e9;
  }
  if (options.between_nodes_gb_per_s) {
    machines->between_nodes_bytes_per_second = *options.between_nodes_gb_per_s * 1e9;
  }
  if (options.latency_us) { machines->latency_seconds = *options.latency_us * 1e-6; }
  return *machines;
}

outcome<ballast::bag_layout> layout_of(job_options const& options, std::string const& bags,
                                       ballast::bag_spec const& spec, job_size const& size,
                                       ballast::cluster const& machines)
{
  if (size.gpus % spec.gpus() != 0) {
    return usage(fmt::format(
        "--bags {}: a replica takes {} GPUs, and the {} of {} are no whole number of replicas; "
        "change the bags or say with --gpus how many GPUs there are",
        bags, spec.gpus(), size.gpus, size.source));
  }
  using ballast::misplaced_bags;
  auto layout = ballast::lay_out(spec, machines,
                                 options.relay ? misplaced_bags::relay : misplaced_bags::refuse);
  if (!layout) {
    return usage(fmt::format("--bags {}{}", bags, options.relay ? "" : " without --relay"),
                 layout.error());
  }
  return std::move(*layout);
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
  if (!options.codes.empty()) {
    auto parsed = ballast::parse_data_codes(options.codes);
    if (!parsed) { return usage("--codes", parsed.error()); }
    work.codes = std::move(*parsed);
    work.source = options.codes;
  }
  std::vector<ballast::bag_spec> specs;
  for (std::string const& text : options.bags) {
    auto const spec = ballast::parse_bags(text);
    if (!spec) { return usage("--bags", spec.error()); }
    specs.push_back(*spec);
  }
  auto const size = size_of(options, work.codes, specs);
  if (!size) { return tl::unexpected(size.error()); }
  auto const machines = machines_of(options, *size);
  if (!machines) { return tl::unexpected(machines.error()); }
  work.machines = *machines;

  for (std::size_t index = 0; index < specs.size(); ++index) {
    auto layout = layout_of(options, options.bags[index], specs[index], *size, *machines);
    if (!layout) { return tl::unexpected(layout.error()); }
    work.layouts.push_back({options.bags[index], std::move(*layout)});
  }
  if (work.layouts.empty()) {
    work.layouts.push_back({fmt::format("g1n{}", size->gpus), ballast::one_gpu_bags(size->gpus)});
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
