// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include "auto_bags.hpp"
#include "machines.hpp"
#include "notes.hpp"
#include "out_of_memory.hpp"
#include "output.hpp"
#include "pricing.hpp"
#include "read_policy.hpp"
#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>

#include <charconv>
#include <system_error>

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
  if (!options.codes.empty() && options.no_shuffle) {
    return usage("--no-shuffle goes with --trace, whose rows it takes as they stand");
  }
  for (auto const& [name, given] :
       {std::pair{"--together", !options.together.empty()},
        std::pair{"--apart", !options.apart.empty()}, std::pair{"--also", !options.also.empty()},
        std::pair{"--id", !options.id.empty()}}) {
    if (given && !options.codes.empty()) {
      return usage(fmt::format("{} goes with --trace, since it names a column of it", name));
    }
  }
  if (options.also.size() > ballast::caps::most - 1) {
    return usage(fmt::format("--also is given {} times; give it {} times at most",
                             options.also.size(), ballast::caps::most - 1));
  }
  if (std::ranges::count_if(options.bags, are_chosen) > 1) {
    return usage("--bags auto is given twice, and chooses the same bags; give it once");
  }
  if (options.largest_bags_first && options.bags.empty()) {
    return usage("--largest-bags-first goes with --bags; bags of one GPU lie anywhere");
  }
  return {};
}

/// How many GPUs the job has, and the option that says so.
struct job_size {
  std::size_t gpus = 0;
  std::string source;
  std::vector<std::uint32_t> nodes = {};  ///< their GPUs, where the option lists them
};

outcome<job_size> size_of_nodes(job_options const& options)
{
  if (options.gpus != 0) { return usage("--nodes says how many GPUs there are; leave out --gpus"); }
  if (options.gpus_per_node != 0) {
    return usage("--nodes says how many GPUs every node has; leave out --gpus-per-node");
  }
  auto nodes = read_nodes(options.nodes);
  if (!nodes) { return tl::unexpected(nodes.error()); }
  std::size_t const gpus = std::accumulate(nodes->begin(), nodes->end(), std::size_t{0});
  return job_size{gpus, "--nodes " + options.nodes, std::move(*nodes)};
}

outcome<job_size> size_of(job_options const& options, std::vector<ballast::data_code> const& codes,
                          std::vector<ballast::bag_spec> const& specs)
{
  if (!options.nodes.empty()) { return size_of_nodes(options); }
  if (options.gpus != 0) { return job_size{options.gpus, "--gpus"}; }
  if (!codes.empty()) {
    job_size size{0, "--codes"};
    for (auto const& code : codes) { size.gpus += code.gpus; }
    return size;
  }
  if (specs.empty()) { return usage("say with --gpus, --nodes or --bags how many GPUs there are"); }
  auto const written = std::ranges::find_if_not(options.bags, are_chosen);
  return job_size{specs.front().gpus(), "--bags " + *written};
}

/// The machines that the job runs on, and the network between them.
outcome<ballast::cluster> machines_of(job_options const& options, job_size const& size)
{
  auto machines = size.nodes.empty() ? ballast::cluster_of(size.gpus, options.gpus_per_node)
                                     : ballast::cluster_of(size.nodes);
  if (!machines) {
    bool const unfilled = machines.error().code == ballast::error_code::infeasible;
    return usage(fmt::format("{}: {}{}", size.source, machines.error().message,
                             unfilled ? " (--nodes, --gpus-per-node)" : ""));
  }
  if (!options.speeds.empty()) {
    auto speeds = read_speeds(options.speeds, size.gpus);
    if (!speeds) { return tl::unexpected(speeds.error()); }
    machines->gpu_speeds = std::move(*speeds);
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
        "--bags {}: a replica takes {}, and the {} of {} are no whole number of replicas; "
        "change the bags or {}",
        bags, count_of(spec.gpus(), "GPU"), size.gpus, size.source,
        size.nodes.empty() ? "say with --gpus how many GPUs there are" : "the nodes"));
  }
  using ballast::misplaced_bags;
  auto layout = ballast::lay_out(
      spec, machines,
      options.largest_bags_first ? misplaced_bags::largest_first : misplaced_bags::refuse);
  if (!layout && layout.error().code == ballast::error_code::out_of_range) {
    return usage(fmt::format("--speeds {}", options.speeds), layout.error());
  }
  if (!layout) {
    return usage(fmt::format("--bags {}{}", bags,
                             options.largest_bags_first ? "" : " without --largest-bags-first"),
                 layout.error());
  }
  return std::move(*layout);
}

/// Beyond these a step takes minutes before its first line is seen.
outcome<void> check_size(job const& work, job_size const& size)
{
  constexpr std::size_t most_gpus = std::size_t{1} << 20;
  constexpr double most_samples = std::size_t{1} << 24;
  if (size.gpus > most_gpus) {
    return usage(
        fmt::format("{}: {} GPUs are more than {}; plan fewer", size.source, size.gpus, most_gpus));
  }
  double samples = 0;
  double gpus = 0;
  for (auto const& code : work.codes) {
    samples += static_cast<double>(code.gpus) * code.samples;
    gpus += code.gpus;
  }
  double const of_step = gpus == 0 ? 0 : samples * static_cast<double>(size.gpus) / gpus;
  if (of_step > most_samples) {
    return usage(
        fmt::format("--codes: {:.0f} samples a step are more than {:.0f}; lower b, the "
                    "number of samples per GPU",
                    of_step, most_samples));
  }
  return {};
}

/// How many samples a step has: no more than the trace has rows.
outcome<std::size_t> batch_of(job const& work)
{
  std::size_t const rows = work.trace.size();
  std::size_t const batch = work.options.batch != 0 ? work.options.batch : 8 * work.gpus();
  if (batch <= rows) { return batch; }
  std::string const wrong =
      fmt::format("{} are more than the {} of {}", count_of(batch, "sample") + " a step",
                  count_of(rows, "row"), work.options.trace);
  if (work.options.batch != 0) {
    return usage(fmt::format("--batch: {}; give at most {}", wrong, rows));
  }
  notes().push_back(wrong + ", which are a step then; give --batch");
  return rows;
}

/// A cap as --also has it, EXPR:N.
struct written_cap {
  std::string expression;
  std::int64_t most = 0;
};

outcome<written_cap> read_cap(std::string const& text)
{
  std::size_t const colon = text.find_last_of(':');
  std::int64_t most = -1;
  if (colon != text.npos) {
    char const* const end = text.data() + text.size();
    auto const read = std::from_chars(text.data() + colon + 1, end, most);
    if (read.ec != std::errc{} || read.ptr != end) { most = -1; }
  }
  if (most < 0) {
    return usage(
        fmt::format("--also: '{}' is no cap; give a column and the most of it, such as images:3",
                    shown_text(text)));
  }
  return written_cap{text.substr(0, colon), most};
}

}  // namespace

outcome<trace_rows> read_rows(row_options const& options, table const& rows)
{
  trace_rows read;
  auto lengths = read_lengths(rows, options.length, "--length");
  if (!lengths) { return tl::unexpected(lengths.error()); }
  read.trace = std::move(*lengths);
  for (std::string const& text : options.also) {
    auto const own = read_cap(text);
    if (!own) { return tl::unexpected(own.error()); }
    auto taken = read_lengths(rows, own->expression, "--also");
    if (!taken) { return tl::unexpected(taken.error()); }
    read.also.push_back({std::move(*taken), own->most});
  }
  auto groups = numbers_of_column(rows, "--together", options.together);
  if (!groups) { return tl::unexpected(groups.error()); }
  read.group_of_row = std::move(*groups);
  auto apart = numbers_of_column(rows, "--apart", options.apart, empty_fields::differ);
  if (!apart) { return tl::unexpected(apart.error()); }
  read.apart_of_row = std::move(*apart);
  auto ids = read_ids(rows, options.id);
  if (!ids) { return tl::unexpected(ids.error()); }
  read.ids = std::move(*ids);
  return read;
}

outcome<job> prepare_job(job_options const& options, progress& shown)
{
  if (auto const checked = check_samples(options); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const policy = read_policy(options);
  if (!policy) { return tl::unexpected(policy.error()); }
  auto const limits = read_limits(options);
  if (!limits) { return tl::unexpected(limits.error()); }

  job work;
  work.limits = *limits;
  work.options = options;
  work.policy = *policy;
  if (!options.codes.empty()) {
    auto parsed = ballast::parse_data_codes(options.codes);
    if (!parsed) { return usage("--codes", parsed.error()); }
    work.codes = std::move(*parsed);
    work.source = options.codes;
    if (std::ranges::all_of(work.codes, [](auto const& code) { return code.samples == 0; })) {
      return usage("--codes: there are no samples, as every code has b0; write b1 or more");
    }
  }
  std::vector<ballast::bag_spec> specs;
  for (std::string const& text : options.bags) {
    if (are_chosen(text)) { continue; }
    auto const spec = ballast::parse_bags(text);
    if (!spec) { return usage("--bags", spec.error()); }
    specs.push_back(*spec);
  }
  auto const size = size_of(options, work.codes, specs);
  if (!size) { return tl::unexpected(size.error()); }
  if (auto const checked = check_size(work, *size); !checked) {
    return tl::unexpected(checked.error());
  }
  if (work.options.gpus_per_node == 0) { work.options.gpus_per_node = 8; }
  bool const is_whole_trace = options.no_shuffle && options.batch == 0;
  if (work.options.steps == 0) { work.options.steps = is_whole_trace ? 1 : 10; }
  auto const machines = machines_of(work.options, *size);
  if (!machines) { return tl::unexpected(machines.error()); }
  work.machines = *machines;

  auto next_spec = specs.begin();
  for (std::string const& text : options.bags) {
    named_layout& bags = work.layouts.emplace_back(named_layout{text, {}});
    if (are_chosen(text)) { continue; }
    auto layout = layout_of(options, text, *next_spec++, *size, *machines);
    if (!layout) { return tl::unexpected(layout.error()); }
    bags.layout = std::move(*layout);
  }
  if (work.layouts.empty()) {
    work.layouts.push_back({fmt::format("g1n{}", size->gpus),
                            ballast::one_gpu_bags(size->gpus).with_speeds(machines->gpu_speeds)});
  }
  if (work.admits_short_samples()) {
    for (named_layout& bags : work.layouts) {
      bags.layout = bags.layout.with_short_samples(ballast::short_samples::admitted);
    }
  }
  if (auto const priced = price(work); !priced) { return tl::unexpected(priced.error()); }

  if (!options.trace.empty()) {
    auto rows = read_table(options.trace);
    if (!rows) { return tl::unexpected(rows.error()); }
    work.rows = std::move(*rows);
    auto read = read_rows(options, work.rows);
    if (!read) { return tl::unexpected(read.error()); }
    static_cast<trace_rows&>(work) = std::move(*read);
    if (!work.trace.empty() &&
        std::ranges::all_of(work.trace, [](auto length) { return length == 0; })) {
      return bad_data(
          fmt::format("{}: all samples have 0 tokens, so that there is nothing to plan; "
                      "correct --length or the rows",
                      options.trace));
    }
    if (is_whole_trace) { work.options.batch = work.trace.size(); }
    auto const batch = batch_of(work);
    if (!batch) { return tl::unexpected(batch.error()); }
    work.options.batch = *batch;
    work.source = options.trace.substr(options.trace.find_last_of('/') + 1);
  }
  for (named_layout& bags : work.layouts) {
    if (!are_chosen(bags.bags)) { continue; }
    auto chosen = choose_layout(work, shown);
    if (!chosen) { return tl::unexpected(chosen.error()); }
    bags = std::move(*chosen);
  }
  for (named_layout& bags : work.layouts) {
    std::size_t const count = bags.layout.size();
    auto most = read_of_each({"--most", "what a bag holds"}, options.most, count, "bag");
    if (!most) { return tl::unexpected(most.error()); }
    bags.most = std::move(*most);
    auto loads = read_of_each({"--starting-loads", "the work that a bag has already"},
                              options.starting_loads, count, "bag");
    if (!loads) { return tl::unexpected(loads.error()); }
    bags.starting_loads = std::move(*loads);
  }
  return work;
}

}  // namespace cli
