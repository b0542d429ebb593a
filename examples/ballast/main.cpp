// SPDX-License-Identifier: Apache-2.0
#include "../common/by_name/parse_order_policy.hpp"
#include "../common/by_name/parse_policy.hpp"
#include "../common/by_name/parse_schedule.hpp"
#include "cleanup.hpp"
#include "compare_command.hpp"
#include "completion.hpp"
#include "cut_command.hpp"
#include "experts_command.hpp"
#include "grid_command.hpp"
#include "job.hpp"
#include "notes.hpp"
#include "orchestrate_command.hpp"
#include "out_of_memory.hpp"
#include "outcome.hpp"
#include "output.hpp"
#include "output_paths.hpp"
#include "pack_command.hpp"
#include "partition_command.hpp"
#include "pipeline_command.hpp"
#include "plan_command.hpp"
#include "plan_lines.hpp"
#include "profile_command.hpp"
#include "report_command.hpp"
#include "route_command.hpp"
#include "search_command.hpp"
#include "shown_text.hpp"
#include "units_command.hpp"
#include "wrong_arguments.hpp"

#include <ballast/version.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

/// A number that is read as people write it: decimal, in full, within bounds. CLI11 itself takes
/// "010" for 8 and "-1" for the largest number there is.
template <class Number>
Number read_number(std::string const& name, std::string const& text, Number low, Number high)
{
  char const* const end = text.data() + text.size();
  Number value{};
  auto const parsed = std::from_chars(text.data(), end, value);
  // Written so that NaN is refused.
  bool const good = parsed.ec == std::errc{} && parsed.ptr == end && value >= low && value <= high;
  if (!good) {
    throw CLI::ValidationError(
        name, fmt::format("'{}' is no {} from {} to {}", text,
                          std::is_integral_v<Number> ? "whole number" : "number", low, high));
  }
  return value;
}

template <class Number, class Target>
void add_number(CLI::App& app, std::string const& name, Target& target, Number low, Number high,
                std::string const& help)
{
  auto const read = [name, &target, low, high](std::string const& text) {
    target = read_number(name, text, low, high);
  };
  app.add_option_function<std::string>(name, read, help)->type_name("N");
}

constexpr std::size_t most_tokens = std::size_t{1} << 40;

/// Refuses an empty text, which would be no text at all: `remedy` says what to write.
auto no_empty(std::string const& what, std::string const& remedy)
{
  return [why = fmt::format("the {} is empty; {}", what, remedy)](std::string const& text) {
    return text.empty() ? why : std::string();
  };
}

/// One of several names.
CLI::Validator one_of(std::vector<std::string> const& names)
{
  CLI::Validator named = CLI::IsMember(names);  // which lists them in the help
  named.operation([names](std::string const& text) {
    return std::ranges::find(names, text) != names.end()
               ? std::string()
               : fmt::format("there is no '{}'; choose one of {}", text, fmt::join(names, ", "));
  });
  return named;
}

/// The path of a file to read or write.
void add_file(CLI::App& app, std::string const& name, std::string& target, std::string const& help)
{
  app.add_option(name, target, help)->type_name("FILE")->check(no_empty("path", "name a file"));
}

/// The path of a file to read.
void add_input(CLI::App& app, std::string const& name, std::string& target, std::string const& help)
{
  add_file(app, name, target, help);
  app.get_option(name)->transform([](std::string const& path) {
    return path == "-" ? std::string(cli::standard_input) : path;
  });
}

/// What a command decided, for a program to read.
void add_plan_file(CLI::App& app, std::string& target, std::string const& what,
                   std::string const& columns)
{
  add_file(app, "--plan", target,
           fmt::format("Write {} to this file, CSV or .jsonl, - for standard output: {}", what,
                       columns));
}

/// A column of a file.
void add_column(CLI::App& app, std::string const& name, std::string& target,
                std::string const& help)
{
  app.add_option(name, target, help)->type_name("COLUMN")->check(no_empty("name", "name a column"));
}

/// A number of each row of a file.
void add_expression(CLI::App& app, std::string const& name, std::string& target,
                    std::string const& help)
{
  app.add_option(name, target, help)
      ->type_name("EXPR")
      ->check(no_empty("expression", "name a column"));
}

/// Whole numbers, in a list or a file.
void add_numbers(CLI::App& app, std::string const& name, std::string& target,
                 std::string const& help)
{
  add_input(app, name, target, help + ": a list, or a file with one on each line");
  app.get_option(name)->type_name("N,...|FILE");
}

void add_policy(CLI::App& app, std::string& policy)
{
  app.add_option("--policy", policy, "One of " + by_name::policy_names())
      ->type_name("NAME")
      ->capture_default_str();
}

void add_format(CLI::App& app, std::string& format)
{
  app.add_option("--format", format, "How to print the result: table or json")
      ->type_name("FORMAT")
      ->check(one_of({"table", "json"}))
      ->capture_default_str();
}

void add_samples(CLI::App& app, std::string& samples, std::string const& what)
{
  app.add_option("--samples", samples,
                 what +
                     ": any, at_most:N, equal (counts differ by one at most), multiple_of:N "
                     "(each count is a multiple) or filled (none gets nothing)")
      ->type_name("RULE")
      ->capture_default_str();
}

/// What plans keep to beside the tokens of a GPU.
void add_limits(CLI::App& app, cli::job_options& options)
{
  add_numbers(app, "--most", options.most,
              "Most tokens of each bag, or of all bags where it is one");
  add_numbers(app, "--starting-loads", options.starting_loads,
              "Work that each bag has already, in the unit of the cost");
  app.add_option("--also", options.also,
                 "A further cap, up to three, such as images:3: a GPU gets at most so much of a "
                 "column of the trace, or of a sum of columns")
      ->type_name("EXPR:N")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  add_samples(app, options.samples, "How many samples each bag gets");
  app.add_option("--then", options.then,
                 "What decides among plans of one makespan: level (the next latest bags too) or "
                 "fewest_moves (of tokens)")
      ->type_name("AIM")
      ->check(one_of({"level", "fewest_moves"}));
  add_number<std::uint32_t>(app, "--within-per-million", options.within_per_million, 0,
                            std::numeric_limits<std::uint32_t>::max(),
                            "How much longer than the shortest a plan may be for --then "
                            "(default: 0)");
}

/// The file of samples, of which columns say how long they are and what they are called.
void add_trace(CLI::App& app, cli::row_options& options)
{
  add_input(
      app, "--trace", options.trace,
      "File of samples: CSV with a header row, or JSON lines, whose nested values are named a.b; "
      "- for standard input, as of every file that is read");
  add_expression(app, "--length", options.length,
                 "Length of a sample: a column, or a sum such as text_tokens+visual_tokens");
  add_column(app, "--id", options.id,
             "Column that names samples in the files that are written, as their last column `id`");
}

/// Columns whose values say what lies together.
void add_keys(CLI::App& app, cli::row_options& options, std::string const& samples)
{
  add_column(
      app, "--together", options.together,
      "Column of the trace, or several as A,B: " + samples + " with the same values stay together");
  add_column(app, "--apart", options.apart,
             "The same for samples that stay apart; one without a value may lie anywhere");
}

/// How a job is planned.
void add_planning(CLI::App& app, cli::job_options& options)
{
  add_policy(app, options.policy);
  add_number<std::size_t>(
      app, "--most-per-gpu", options.most_per_gpu, 1, most_tokens,
      "Most tokens that a GPU can hold, with --microbatches at a time; no plan exceeds it "
      "(default: no limit)");
  add_limits(app, options);
}

/// The options that say which job is looked at, the same for every subcommand.
void add_job(CLI::App& app, cli::job_options& options)
{
  constexpr std::size_t most = std::size_t{1} << 24;
  add_trace(app, options);
  app.add_option("--codes", options.codes,
                 "Instead of a trace, data codes such as g4b5i512f1s0,g8b1i2048f1s0")
      ->type_name("CODES")
      ->check(no_empty("text", "write codes such as g4b5i512f1s0"));
  add_number<std::size_t>(
      app, "--gpus", options.gpus, 1, most,
      "GPUs of the job (default: as many as the nodes, codes or bags describe)");
  add_number<std::size_t>(app, "--gpus-per-node", options.gpus_per_node, 1, most,
                          "GPUs of a node (default: 8)");
  add_numbers(app, "--nodes", options.nodes, "Instead of both, GPUs of every node");
  add_numbers(app, "--speeds", options.speeds, "Speed of every GPU in rank order");
  app.add_option("--bags", options.bags,
                 "Compute bags such as g1n2+g2n1+g4n1, repeated over the job; give the option "
                 "several times to compare; auto chooses them (default: bags of one GPU)")
      ->type_name("SPEC")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  app.add_flag("--largest-bags-first", options.largest_bags_first,
               "Lay the largest bags first where bags would straddle a node or be misaligned");
  app.add_option(
         "--short-samples", options.short_samples,
         "What to do with samples of fewer tokens than every bag has GPUs: refuse the step, "
         "or admit them, which leaves GPUs without a token, and say how many there were")
      ->type_name("WHAT")
      ->check(one_of({"refuse", "admit"}))
      ->capture_default_str();
  app.add_option(
         "--cost", options.cost,
         "Cost model: tokens, or transformer:d=3072,gamma=0.405, which counts attention too")
      ->type_name("MODEL")
      ->capture_default_str();
  add_input(app, "--measured", options.measured,
            "CSV file to fit the model's times to: length,seconds of calls, or of steps "
            "length_sum,square_sum,sequences,gpus,seconds");
  add_number<double>(app, "--tflops", options.tflops, 1e-3, 1e9,
                     "TFLOP/s of the fastest GPU, for predicted times (default: 400)");
  add_keys(app, options, "samples of a step");
  app.add_flag(
      "--no-shuffle", options.no_shuffle,
      "Steps take the rows of the trace as they stand; without --batch a step is all rows");
  add_number<std::size_t>(app, "--batch", options.batch, 1, std::size_t{1} << 30,
                          "Samples per step over all GPUs, with a trace (default: 8 per GPU, or "
                          "with --no-shuffle all)");
  add_number<std::size_t>(app, "--steps", options.steps, 1, 10'000'000,
                          "Steps to plan (default: 10, or 1 where a step is all rows)");
  add_number<std::uint64_t>(app, "--seed", options.seed, 0,
                            std::numeric_limits<std::uint64_t>::max(),
                            "Seed of all random numbers (default: 1)");
  app.add_flag("--place-by-node", options.place_by_node,
               "Exchange what equal bags own, so that few tokens cross nodes");
  add_number<std::size_t>(app, "--bytes-per-token", options.bytes_per_token, 1, 1 << 30,
                          "Width of the array that is moved (default: the cost model's d in bf16)");
  add_number<double>(app, "--within-node-bandwidth", options.within_node_gb_per_s, 1e-6, 1e9,
                     "GB/s of a GPU inside its node, in each direction (default: 450)");
  add_number<double>(app, "--between-nodes-bandwidth", options.between_nodes_gb_per_s, 1e-6, 1e9,
                     "GB/s of a GPU to other nodes, in each direction (default: 50)");
  add_number<double>(app, "--latency-us", options.latency_us, 0, 1e9,
                     "Microseconds that moving anything takes at least (default: 10)");
  add_format(app, options.format);
}

CLI::App& add_partition(CLI::App& app, cli::partition_options& options)
{
  auto& partition = *app.add_subcommand(
      "partition", "Solve scheduling problems P||Cmax and say how many optima are proven");
  partition
      .add_option(
          "--instances", options.instances,
          "Files of the number of machines, the number of jobs and their times; folders and "
          "archives of such files")
      ->type_name("FILE")
      ->check(no_empty("path", "name a file"))
      ->required();
  add_number<std::size_t>(partition, "--most-bytes", options.most_bytes, 1, std::size_t{1} << 50,
                          "Most bytes that an archive may hold unpacked (default: 100 times its "
                          "own, at least 16 MiB and "
                          "at most 1 GiB)");
  add_policy(partition, options.policy);
  add_samples(partition, options.samples, "How many jobs each machine gets");
  add_format(partition, options.format);
  add_plan_file(partition, options.plan, "which machine does which job of each instance",
                "step,sample,bag,cost");
  return partition;
}

CLI::App& add_pack(CLI::App& app, cli::pack_options& options)
{
  auto& pack =
      *app.add_subcommand("pack", "Pack samples into as few bins as possible, none above a cap");
  add_trace(pack, options);
  constexpr std::size_t most = std::size_t{1} << 24;
  add_number<std::int64_t>(pack, "--most-per-gpu", options.most_per_gpu, 1, std::int64_t{1} << 40,
                           "Most tokens of a bin, which one GPU computes");
  for (auto const* const name : {"--trace", "--length", "--most-per-gpu"}) {
    pack.get_option(name)->required();
  }
  add_samples(pack, options.samples, "How many samples each bin gets");
  pack.add_option("--also", options.also,
                  "What a bin has of something else: a column, or a sum, and the most, such as "
                  "image_count:8; give the option several times")
      ->type_name("EXPR:N")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  add_keys(pack, options, "samples");
  add_number<std::size_t>(pack, "--least-bins", options.bins.least, 1, most,
                          "Bins that there are at least, over which samples are spread evenly");
  add_number<std::size_t>(pack, "--bins-multiple-of", options.bins.multiple_of, 1, most,
                          "The number of bins is a multiple of this (default: 1)");
  add_number<std::int64_t>(pack, "--rounded-to", options.rounded_to, 1, most,
                           "Lengths are rounded up to multiples of this (default: 1)");
  pack.add_flag("--level", options.is_level, "Of as many bins, the largest is least");
  pack.add_flag("--padded", options.bins.is_padded,
                "A bin takes its number of samples times the longest, not the sum");
  add_number<std::size_t>(pack, "--batch", options.batch, 1, std::size_t{1} << 30,
                          "Rows of a step, as they stand in the trace (default: all)");
  add_format(pack, options.format);
  add_plan_file(pack, options.plan, "which sample lies in which bin", "step,sample,bag,tokens");
  return pack;
}

void add_ordering(CLI::App& app, cli::ordering_options& options)
{
  app.add_option("--schedule", options.schedule, "One of " + by_name::schedule_names())
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--order", options.order,
                 "How to order microbatches, one of " + by_name::order_policy_names())
      ->type_name("NAME")
      ->capture_default_str();
}

CLI::App& add_plan(CLI::App& app, cli::plan_options& options)
{
  auto& plan = *app.add_subcommand(
      "plan", "Place the samples of training steps on GPU bags and say how even the work is");
  add_job(plan, options.job);
  add_planning(plan, options.job);
  auto* const stages =
      plan.add_option("--stages", options.stages,
                      "Order the samples of every bag for a pipeline of so many stages, or of "
                      "modules such as visual_tokens:2,text_tokens+visual_tokens:6")
          ->type_name("SPEC")
          ->check(no_empty("text", "write a number of stages"));
  add_ordering(plan, options.ordering);
  for (auto const* const name : {"--schedule", "--order"}) { plan.get_option(name)->needs(stages); }
  auto* const microbatches =
      plan.add_option(
              "--microbatches", options.microbatches,
              "Microbatches of every rank, whose gradients are added up: a number, auto, the "
              "fewest that are found, or multiple_of:N, the fewest such (default: a step is "
              "computed at once)")
          ->type_name("K|auto|multiple_of:N")
          ->check(no_empty("text", "write a number, or auto"));
  plan.add_option("--meet", options.meet,
                  "When ranks wait for each other: step, after all their microbatches, or "
                  "microbatch, after each")
      ->type_name("WHEN")
      ->check(one_of({"step", "microbatch"}))
      ->capture_default_str();
  add_column(plan, "--kind", options.kind,
             "Column of the trace: the samples of a slot of microbatches have the same value");
  auto* const padded = plan.add_flag("--padded", options.is_padded,
                                     "A microbatch pads its samples to the longest of them");
  add_expression(plan, "--target", options.target,
                 "A second length that is padded by itself, as that of a decoder");
  plan.get_option("--target")->needs(padded);
  for (auto const* const name : {"--meet", "--kind", "--padded"}) {
    plan.get_option(name)->needs(microbatches);
  }
  add_plan_file(plan, options.plan, "who computes which sample", std::string(cli::plan_columns));
  add_file(plan, "--picture", options.picture, "Write the work per GPU as an SVG file");
  add_file(plan, "--report", options.report, "Write an HTML page with pictures to this file");
  add_file(plan, "--timeline", options.timeline,
           "Write a timeline of the first 100 steps for ui.perfetto.dev to this file");
  return plan;
}

CLI::App& add_pipeline(CLI::App& app, cli::pipeline_options& options)
{
  auto& pipeline = *app.add_subcommand(
      "pipeline", "Order the microbatches of a pipeline and say how near to the best that is");
  add_input(pipeline, "--durations", options.durations,
            "CSV file or JSON lines with the columns microbatch,stage,forward,backward, and maybe "
            "weights,held,held_for_weights");
  add_column(pipeline, "--id", options.id,
             "Column that names microbatches in the files that are written");
  pipeline.get_option("--durations")->required();
  add_ordering(pipeline, options.ordering);
  auto& schedule = *pipeline.get_option("--schedule");
  schedule.description(schedule.get_description() +
                       "; planned or planned:v=N, tasks and order together; or a CSV file with the "
                       "columns rank,stage,microbatch,pass, or with cells such as 0F1");
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  add_number<std::uint64_t>(pipeline, "--evaluations", options.evaluations, 0, most,
                            "Orders that the search evaluates (default: as in local_search)");
  add_number<std::uint64_t>(pipeline, "--seed", options.seed, 0, most,
                            "Seed of the search (default: 1)");
  pipeline
      .add_option("--transfer", options.transfer,
                  "Time between neighbouring stages, in the unit of the file")
      ->type_name("T")
      ->capture_default_str();
  add_numbers(pipeline, "--most-held", options.most_held,
              "Bytes that each pipeline rank may keep, or every rank where it is one number");
  add_format(pipeline, options.format);
  add_plan_file(pipeline, options.plan, "the tasks of each rank in their order",
                "rank,stage,microbatch,pass,position,start,end");
  add_file(pipeline, "--timeline", options.timeline,
           "Write a timeline of both orders for ui.perfetto.dev to this file");
  add_file(pipeline, "--report", options.report, "Write an HTML page with pictures to this file");
  return pipeline;
}

CLI::App& add_profile(CLI::App& app, cli::profile_options& options)
{
  auto& profile = *app.add_subcommand(
      "profile",
      "Measure how fast the modules of a model are on this machine, by built-in kernels");
  add_file(profile, "--output", options.output,
           "CSV file of the profile; points that it has are not measured again");
  profile.get_option("--output")->required();
  auto const add_text = [&profile](std::string const& name, std::string& target,
                                   std::string const& type, std::string const& help) {
    profile.add_option(name, target, help)->type_name(type)->capture_default_str();
  };
  profile
      .add_option("--device", options.device,
                  "What measures: cpu, gpu, or auto, a GPU where there is one")
      ->check(one_of({"cpu", "gpu", "auto"}))
      ->capture_default_str();
  add_text("--llm", options.llm, "MODEL",
           "The LLM: a transformer with causal=1, or auto, one that suits the device");
  add_text("--encoder", options.encoder, "MODEL", "The encoder, auto, or '' for none");
  add_text("--lengths", options.lengths, "N,N,...", "Lengths of samples to measure in the LLM");
  add_text("--items", options.items, "N,N,...", "Items of a microbatch to measure in the encoder");
  add_number<std::size_t>(profile, "--tokens-per-item", options.tokens_per_item, 1, 1 << 16,
                          "Tokens of an item of the encoder (default: what suits the device)");
  add_text("--tp", options.degrees, "N,N,...", "Tensor-parallel degrees");
  add_text("--hardware", options.hardware, "TEXT",
           "What makes it other hardware (default: what the system says of the device)");
  add_text("--data", options.data, "TEXT", "What makes it other data");
  add_number<std::uint32_t>(profile, "--runs", options.runs, 1, 10'000,
                            "Runs of each point (default: 9)");
  add_number<std::uint32_t>(profile, "--warm-up", options.warm_up, 0, 10'000,
                            "Runs before them that are not counted (default: 2)");
  add_number<double>(profile, "--budget", options.budget_seconds, 1e-9, 1e9,
                     "Seconds after which no point is begun (default: no limit)");
  add_number<std::size_t>(profile, "--check", options.check, 1, 1'000'000,
                          "Predict so many lengths that were not measured, and measure them");
  add_number<std::uint64_t>(profile, "--seed", options.seed, 0,
                            std::numeric_limits<std::uint64_t>::max(),
                            "Seed of those lengths (default: 1)");
  add_format(profile, options.format);
  return profile;
}

/// An option that is given several times.
void add_list(CLI::App& app, std::string const& name, std::vector<std::string>& target,
              std::string const& type, std::string const& help)
{
  app.add_option(name, target, help)
      ->type_name(type)
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

/// The options that say which model, data and GPUs get a layout.
void add_modules(CLI::App& app, cli::model_options& options)
{
  add_input(app, "--profile", options.profile, "CSV file of the profiles of the modules");
  add_input(app, "--data", options.data,
            "CSV file of samples, with a column of sizes for each module, named as it");
  add_list(app, "--size", options.sizes, "MODULE=EXPR",
           "Sizes in a module that is no column of the data: its name and an expression, such as "
           "llm=text_tokens+visual_tokens; give the option several times");
  constexpr std::uint32_t most = std::uint32_t{1} << 24;
  add_number<std::uint32_t>(app, "--gpus", options.gpus, 1, most, "GPUs of the job");
  add_number<std::uint32_t>(app, "--gpus-per-node", options.gpus_per_node, 1, most,
                            "GPUs of a node (default: 8)");
  app.add_option("--memory", options.memory, "Memory of a GPU, such as 80GB or 80GiB")
      ->type_name("SIZE");
  add_number<std::uint32_t>(app, "--global-batch", options.global_batch, 1, most,
                            "Samples of a step");
  add_list(app, "--frozen", options.frozen, "MODULE",
           "A module whose weights are not trained; give the option several times");
  add_list(app, "--trained-input", options.trained_inputs, "MODULE",
           "A module that a trained projector feeds; give the option several times");
  add_list(app, "--may-shard", options.may_shard, "MODULE",
           "A module whose replicas may shard its weights and gather them layer by layer (FSDP, "
           "ZeRO-3), where that is shorter or fits; give the option several times");
  add_list(
      app, "--more-gpus", options.more_gpus, "N:SIZE",
      "GPUs of another kind and their memory, such as 32:40GB, or 32:40GB:0.5 for GPUs of half "
      "the speed; which module runs on which kind is searched; give the option several times");
  add_list(app, "--own-gpus", options.own_gpus, "MODULE=N:SIZE",
           "GPUs and their memory that a module has for itself, such as vision=32:40GB, or "
           "vision=32:40GB:0.5 for GPUs of half the speed; give the option several times");
  add_number<double>(app, "--between-nodes-bandwidth", options.between_nodes_gb_per_s, 1e-6, 1e9,
                     "GB/s of a GPU in each direction, for gradients and for what modules send "
                     "each other (default: they take no time)");
  app.add_option("--state", options.state,
                 "Bytes of weight, gradient and optimiser of a parameter; replicas share the last "
                 "(default: 2,2,12, which search does not share)")
      ->type_name("N,N,N")
      ->check(no_empty("list", "write 2,2,12"));
  for (auto const* const name : {"--profile", "--data", "--gpus", "--memory", "--global-batch"}) {
    app.get_option(name)->required();
  }
}

CLI::App& add_search(CLI::App& app, cli::search_options& options)
{
  auto& search = *app.add_subcommand(
      "search",
      "Find the layouts with the shortest simulated steps: tp, pp and dp of every module");
  add_modules(search, options);
  constexpr std::uint32_t most = std::uint32_t{1} << 24;
  search.add_flag("--leave-gpus", options.leave_gpus,
                  "GPUs may stay unused, where they do not help");
  add_number<std::size_t>(search, "--print", options.print, 1, most,
                          "Layouts to print, the best ones (default: 5, or all)");
  search.add_flag("--side-by-side", options.side_by_side,
                  "The modules before the last feed it, and not each other");
  search
      .add_option("--virtual-stages", options.virtual_stages,
                  "Numbers of virtual stages that each stage of the last module may have beside 1, "
                  "with an interleaved schedule: 2,4 (default: none)")
      ->type_name("LIST")
      ->check(no_empty("list", "write 2,4"));
  search.add_flag("--split-backwards", options.split_backwards,
                  "Schedules may split backwards into gradients of inputs and of weights: zero "
                  "bubble, in a V for a single module, or planned");
  add_number<double>(search, "--budget", options.budget, 1e-9, 1e6,
                     "Thousand million steps of work that the search may do, of which each "
                     "takes about two seconds (default: 1.07)");
  search
      .add_flag("--prove", options.is_proof_wanted,
                "Search until no other layout can be better, however long that takes")
      ->excludes("--budget");
  search
      .add_option("--estimate", options.estimate,
                  "What stands for the data in a price: mean-sample, or mean-step, the mean over "
                  "the steps of all drawn samples")
      ->type_name("NAME")
      ->check(one_of({"mean-sample", "mean-step"}))
      ->capture_default_str();
  add_number<std::size_t>(search, "--draws", options.draws, 1, most,
                          "Samples that are priced, drawn from the data (default: 1024, or all)");
  search
      .add_option("--memory-quantile", options.memory_quantile,
                  "Share of microbatches that have to fit into memory")
      ->type_name("X")
      ->capture_default_str();
  add_number<std::size_t>(search, "--batches", options.batches, 1, 10'000,
                          "Batches of the data to simulate (default: 4)");
  add_number<std::uint64_t>(search, "--seed", options.seed, 0,
                            std::numeric_limits<std::uint64_t>::max(),
                            "Seed of what is drawn (default: 1)");
  add_format(search, options.format);
  add_plan_file(search, options.plan, "the layouts", "layout,module,tp,pp,dp,sp,ep,gpus,...");
  add_file(search, "--report", options.report, "Write an HTML page with pictures to this file");
  return search;
}

CLI::App& add_orchestrate(CLI::App& app, cli::orchestrate_options& options)
{
  auto& orchestrate = *app.add_subcommand(
      "orchestrate", "Give every module of a model GPUs and a parallelism of its own");
  add_modules(orchestrate, options);
  constexpr std::uint32_t most = std::uint32_t{1} << 24;
  add_number<std::uint32_t>(orchestrate, "--microbatch", options.microbatch, 1, most,
                            "Samples of a microbatch of each replica of the LLM (default: 1)");
  orchestrate.add_option("--llm", options.llm, "The module that is the LLM (default: the last)")
      ->type_name("MODULE")
      ->check(no_empty("name", "name a module"));
  add_list(orchestrate, "--virtual-stages", options.virtual_stages, "MODULE=N",
           "Virtual stages of each stage of a module; give the option several times");
  add_list(orchestrate, "--boundary-bytes", options.boundary_bytes, "MODULE=SIZE",
           "What a stage of a module sends of a sample to the next; give the option several times");
  add_format(orchestrate, options.format);
  add_plan_file(orchestrate, options.plan, "the layouts", "policy,module,tp,pp,dp,sp,ep,gpus,...");
  add_file(orchestrate, "--report", options.report,
           "Write an HTML page with pictures to this file");
  return orchestrate;
}

CLI::App& add_report(CLI::App& app, cli::report_options& options)
{
  auto& report = *app.add_subcommand(
      "report", "Draw the page of a training run from the log that its step_log wrote");
  add_input(report, "log", options.log, "The log: a line of JSON for each step");
  report.get_option("log")->required();
  add_file(report, "--output", options.output,
           "The HTML page (default: the name of the log with .html behind it)");
  add_file(report, "--times", options.times,
           "Write the measured times to this CSV file, as plan --measured reads it");
  return report;
}

CLI::App& add_compare(CLI::App& app, cli::compare_options& options)
{
  auto& compare = *app.add_subcommand(
      "compare", "Plan the same training steps by several policies, limits and bags, in one table");
  add_job(compare, options.job);
  auto const may_be_given_again = [](CLI::Option& option) {
    option.expected(1)->allow_extra_args(false)->take_all();
  };
  may_be_given_again(
      *compare
           .add_option("--policy", options.policies,
                       "Give the option several times: one of " + by_name::policy_names())
           ->type_name("NAME"));
  may_be_given_again(
      *compare
           .add_option_function<std::vector<std::string>>(
               "--most-per-gpu",
               [&options](std::vector<std::string> const& texts) {
                 for (std::string const& text : texts) {
                   options.most_per_gpu.push_back(
                       read_number<std::size_t>("--most-per-gpu", text, 1, most_tokens));
                 }
               },
               "Most tokens that a GPU can hold; give the option several times to compare")
           ->type_name("N"));
  add_limits(compare, options.job);
  add_file(compare, "--report", options.report, "Write an HTML page with pictures to this file");
  return compare;
}

CLI::App& add_cut(CLI::App& app, cli::cut_options& options)
{
  auto& cut = *app.add_subcommand(
      "cut", "Cut a chain of layers into the stages of a pipeline whose busiest rank has least");
  constexpr std::size_t most = std::size_t{1} << 20;
  add_input(cut, "--layers", options.layers,
            "File of layers in the order of the chain, CSV or JSON lines");
  add_expression(cut, "--load", options.load, "What a layer costs: a column, or a sum of columns");
  add_number<std::size_t>(cut, "--ranks", options.ranks, 1, most, "Pipeline ranks");
  for (auto const* const name : {"--layers", "--load", "--ranks"}) {
    cut.get_option(name)->required();
  }
  add_number<std::size_t>(cut, "--virtual-stages", options.virtual_stages, 1, most,
                          "Stages of each rank, dealt in turn (default: 1)");
  cut.add_option("--memory", options.memory, "Memory of a GPU, such as 80GB (default: no limit)")
      ->type_name("SIZE");
  add_expression(cut, "--state-bytes", options.state_bytes,
                 "Bytes of weights, gradients and optimiser of a layer");
  add_expression(cut, "--activation-bytes", options.activation_bytes,
                 "Bytes that a layer keeps of a microbatch; a rank has as many as 1F1B keeps, with "
                 "virtual stages one");
  add_column(cut, "--id", options.id, "Column that names layers in the files that are written");
  add_format(cut, options.format);
  add_plan_file(cut, options.plan, "which stage has which layer", "layer,stage,rank,load");
  return cut;
}

CLI::App& add_experts(CLI::App& app, cli::experts_options& options)
{
  auto& experts = *app.add_subcommand(
      "experts", "Place replicas of experts on GPUs so that the busiest GPU has least");
  constexpr std::size_t most = std::size_t{1} << 20;
  add_input(experts, "--experts", options.experts, "File of experts, CSV or JSON lines");
  add_expression(experts, "--load", options.load,
                 "Load of an expert, such as its tokens: a column, or a sum of columns");
  add_number<std::size_t>(experts, "--gpus", options.gpus, 1, most, "GPUs of the job");
  add_numbers(experts, "--slots", options.slots,
              "Replicas that fit each GPU, or every GPU where it is one number");
  for (auto const* const name : {"--experts", "--load", "--gpus", "--slots"}) {
    experts.get_option(name)->required();
  }
  add_number<std::size_t>(experts, "--gpus-per-node", options.gpus_per_node, 1, most,
                          "GPUs of a node (default: 8)");
  add_number<std::size_t>(experts, "--most-nodes", options.most_nodes, 1, most,
                          "Nodes that the replicas of an expert are on (default: no limit)");
  experts.add_flag("--uneven", options.is_uneven,
                   "The replicas of an expert may have different shares of its load");
  add_column(experts, "--id", options.id,
             "Column that names experts in the files that are written");
  add_format(experts, options.format);
  add_plan_file(experts, options.plan, "where replicas are", "expert,replica,gpu,load");
  return experts;
}

CLI::App& add_completion(CLI::App& app, std::string& shell)
{
  auto& completion = *app.add_subcommand(
      "completion", "Print the script by which a shell completes these words and options");
  completion.add_option("shell", shell, "The shell: source <(ballast completion bash)")
      ->check(one_of({"bash", "zsh"}))
      ->required();
  return completion;
}

CLI::App& add_route(CLI::App& app, cli::units_options& options)
{
  auto& route = *app.add_subcommand(
      "route", "Say what it takes to bring the samples of training steps to their GPU bags");
  add_job(route, options.job);
  add_planning(route, options.job);
  add_plan_file(route, options.plan, "who reads and who computes which sample",
                fmt::format("{},source", cli::plan_columns));
  auto* const units =
      route
          .add_option("--units", options.units,
                      "Instead of bags, two modules whose samples go from the one to the other: "
                      "their data-parallel sizes, such as 12:4, or data x pipeline x tensor of "
                      "each, such as 12x1x1:4x2x8")
          ->type_name("A:B")
          ->check(no_empty("text", "give two sizes, such as 12:4"));
  for (auto const* const name : {"--bags",
                                 "--largest-bags-first",
                                 "--short-samples",
                                 "--policy",
                                 "--together",
                                 "--apart",
                                 "--id",
                                 "--most",
                                 "--starting-loads",
                                 "--most-per-gpu",
                                 "--also",
                                 "--samples",
                                 "--then",
                                 "--within-per-million",
                                 "--speeds",
                                 "--codes",
                                 "--place-by-node",
                                 "--measured",
                                 "--tflops",
                                 "--plan"}) {
    units->excludes(route.get_option(name));
  }
  return route;
}

// Not fmt::print, which throws where standard error is full: nothing would catch it.
int complain(cli::failure const& why)
{
  std::fputs(("ballast: " + cli::shown_text(why.message) + "\n").c_str(), stderr);
  return why.exit_code;
}

int complain(cli::outcome<void> const& done)
{
  return done ? 0 : complain(done.error());
}

/// Runs a command and shows what it found.
template <class Options, class Run, class Show>
cli::outcome<void> perform(Options const& options, Run run, Show show, std::string_view doing,
                           std::string_view remedy)
{
  auto const found = cli::in_memory(doing, remedy, [&] { return run(options); });
  if (!found) { return tl::unexpected(found.error()); }
  auto shown =
      cli::in_memory("drawing and printing what was found", remedy, [&] { return show(*found); });
  if (shown) {
    for (std::string const& note : cli::notes()) { complain({0, note}); }
  }
  return shown;
}

}  // namespace

int main(int argc, char** argv)
{
  cli::clean_up_when_stopped();
  try {
    CLI::App app(
        "ballast plans which GPU computes which samples, so that all GPUs of a training job are "
        "equally busy");
    app.require_subcommand(1);
    app.set_version_flag(
        "--version", fmt::format("{}.{}.{}", BALLAST_VERSION / 10000, BALLAST_VERSION / 100 % 100,
                                 BALLAST_VERSION % 100));
    cli::plan_options plan;
    cli::units_options route;
    cli::partition_options partition;
    cli::pack_options pack;
    cli::pipeline_options pipeline;
    cli::profile_options profile;
    cli::search_options search;
    cli::orchestrate_options orchestrate;
    cli::report_options report;
    cli::compare_options compare;
    cli::cut_options cut;
    cli::experts_options experts;
    std::string shell;
    CLI::App const& plan_command = add_plan(app, plan);
    CLI::App const& route_command = add_route(app, route);
    add_partition(app, partition);
    CLI::App const& pack_command = add_pack(app, pack);
    CLI::App const& pipeline_command = add_pipeline(app, pipeline);
    CLI::App const& profile_command = add_profile(app, profile);
    CLI::App const& search_command = add_search(app, search);
    CLI::App const& orchestrate_command = add_orchestrate(app, orchestrate);
    CLI::App const& report_command = add_report(app, report);
    CLI::App const& compare_command = add_compare(app, compare);
    CLI::App const& cut_command = add_cut(app, cut);
    CLI::App const& experts_command = add_experts(app, experts);
    CLI::App const& completion_command = add_completion(app, shell);
    std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    if (!arguments.empty() && arguments.front() == "help") {  // help plan: plan --help
      arguments.erase(arguments.begin());
      arguments.insert(arguments.begin() + (arguments.empty() ? 0 : 1), "--help");
    }
    try {
      app.parse(std::vector(arguments.rbegin(), arguments.rend()));  // from the last to the first
    } catch (CLI::CallForVersion const& version) {
      return complain(cli::print(std::string(version.what()) + "\n"));
    } catch (CLI::Success const& asked) {
      auto const is_first = [&arguments](CLI::App const* command) {
        return arguments.front() == command->get_name();
      };
      if (!arguments.empty() && !arguments.front().starts_with('-') &&
          app.get_subcommands(is_first).empty()) {
        return complain({2, cli::wrong_arguments(app, arguments, asked.what())});
      }
      return complain(cli::print(app.help()));
    } catch (CLI::ParseError const& wrong) {
      return complain({2, cli::wrong_arguments(app, arguments, wrong.what())});
    }
    plan.policy_given = plan_command.get_option("--policy")->count() > 0;
    constexpr std::string_view fewer = "take fewer samples per step, or fewer GPUs";
    if (plan_command.parsed() && !plan.microbatches.empty()) {
      return complain(perform(plan, cli::run_grid, cli::show_grid, "planning steps", fewer));
    }
    if (plan_command.parsed()) {
      return complain(perform(plan, cli::run_plan, cli::show_plan, "planning steps", fewer));
    }
    if (route_command.parsed() && !route.units.empty()) {
      return complain(perform(route, cli::run_units, cli::show_units, "placing samples", fewer));
    }
    if (route_command.parsed()) {
      return complain(perform(cli::route_options{route.job, route.plan}, cli::run_route,
                              cli::show_route, "planning steps", fewer));
    }
    if (pack_command.parsed()) {
      return complain(perform(pack, cli::run_pack, cli::show_pack, "packing samples",
                              "give fewer rows, or a smaller --batch"));
    }
    if (pipeline_command.parsed()) {
      return complain(perform(pipeline, cli::run_pipeline, cli::show_pipeline,
                              "ordering microbatches", "choose another --order"));
    }
    if (profile_command.parsed()) {
      return complain(perform(profile, cli::run_profile, cli::show_profile, "measuring modules",
                              "give smaller models or fewer lengths"));
    }
    if (search_command.parsed()) {
      return complain(perform(search, cli::run_search, cli::show_search, "searching layouts",
                              "give fewer samples or a smaller global batch"));
    }
    if (orchestrate_command.parsed()) {
      return complain(perform(orchestrate, cli::run_orchestrate, cli::show_orchestrate,
                              "orchestrating modules", "give fewer samples or a smaller batch"));
    }
    if (compare_command.parsed()) {
      return complain(
          perform(compare, cli::run_compare, cli::show_compare, "planning steps", fewer));
    }
    if (cut_command.parsed()) {
      return complain(
          perform(cut, cli::run_cut, cli::show_cut, "cutting layers", "give fewer of them"));
    }
    if (experts_command.parsed()) {
      return complain(perform(experts, cli::run_experts, cli::show_experts, "placing experts",
                              "give fewer of them"));
    }
    if (completion_command.parsed()) {
      return complain(cli::print(cli::completion_script(app, shell)));
    }
    if (report_command.parsed()) {
      return complain(perform(report, cli::run_report, cli::show_report, "reading the log",
                              "give a shorter log"));
    }
    return complain(perform(partition, cli::run_partition, cli::show_partition,
                            "planning instances", "give fewer of them"));
  } catch (std::bad_alloc const&) {
    std::fputs("ballast: memory ran out; allow the program more\n", stderr);
    return 1;
  } catch (std::exception const& problem) {
    return complain({1, problem.what()});
  }
}
