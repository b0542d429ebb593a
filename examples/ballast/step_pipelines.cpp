// SPDX-License-Identifier: Apache-2.0
#include "step_pipelines.hpp"

#include "output.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/pipeline/module_times.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <system_error>

namespace cli {
namespace {

/// The parts of a text between commas, but for those between backticks, which name a column.
std::vector<std::string_view> parts_of(std::string_view text)
{
  std::vector<std::string_view> parts;
  std::size_t first = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '`') { quoted = !quoted; }
    if (text[at] != ',' || quoted) { continue; }
    parts.push_back(text.substr(first, at - first));
    first = at + 1;
  }
  parts.push_back(text.substr(first));
  return parts;
}

/// A number of stages, or 0 where the text is not one.
std::size_t stages_of(std::string_view text)
{
  std::size_t stages = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), stages);
  bool const good = problem == std::errc{} && end == text.data() + text.size() &&
                    stages <= ballast::stage_graph::most_stages;
  return good ? stages : 0;
}

}  // namespace

outcome<stage_modules> read_stages(std::string const& text, job const& work)
{
  if (work.trace.empty()) {
    return usage("--stages goes with --trace, whose columns say how much work a stage has");
  }
  stage_modules modules;
  for (std::string_view const part : parts_of(text)) {
    std::size_t const colon = part.find_last_of(':');
    bool const named = colon != part.npos;
    std::size_t const stages = stages_of(named ? part.substr(colon + 1) : part);
    if (stages == 0) {
      return usage(fmt::format(
          "--stages {}: '{}' does not end in a number of stages from 1 to {}, as in 8 or "
          "visual_tokens:2,text_tokens:6",
          text, part, ballast::stage_graph::most_stages));
    }
    modules.layers.emplace_back(stages, 1U);
    if (!named) {
      modules.lengths.push_back(work.trace);
      continue;
    }
    auto lengths = read_lengths(work.rows, std::string(part.substr(0, colon)), "--stages");
    if (!lengths) { return tl::unexpected(lengths.error()); }
    modules.lengths.push_back(std::move(*lengths));
  }
  if (modules.stages() > ballast::stage_graph::most_stages) {
    return usage(fmt::format("--stages {}: a pipeline has at most {} stages; use fewer", text,
                             ballast::stage_graph::most_stages));
  }
  return modules;
}

step_pipelines::step_pipelines(stage_modules modules, ordering const& chosen,
                               ballast::stage_graph graph)
    : modules_(std::move(modules)), chosen_(chosen), graph_(std::move(graph))
{}

outcome<step_pipelines> step_pipelines::make(job const& work, std::string const& stages,
                                             ordering_options const& options)
{
  auto modules = read_stages(stages, work);
  if (!modules) { return tl::unexpected(modules.error()); }
  if (work.policy.batches() != ballast::batching::packed) {
    return usage(
        fmt::format("--stages: {} pads the samples of a bag to one batch, and a microbatch "
                    "here is a sample; choose another --policy",
                    work.options.policy));
  }
  auto chosen = read_ordering(options);
  if (!chosen) { return tl::unexpected(chosen.error()); }
  auto graph = chain_for(options, chosen->schedule, modules->stages(), 0, "--stages " + stages);
  if (!graph) { return tl::unexpected(graph.error()); }
  return step_pipelines(std::move(*modules), *chosen, std::move(*graph));
}

outcome<void> step_pipelines::read_times(job const& work, planned_step const& step,
                                         ballast::bag_id bag)
{
  auto const samples = step.plan.samples[bag];
  std::size_t const modules = modules_.lengths.size();
  whole_.stages = modules;
  whole_.rows.resize(samples.size() * modules);
  for (std::size_t at = 0; at < samples.size(); ++at) {
    std::uint32_t const row = step.batch.rows[to_index(samples[at])];
    for (std::size_t module = 0; module < modules; ++module) {
      ballast::time_units const forward = work.cost(modules_.lengths[module][row]);
      ballast::time_units const backward = ballast::saturating_sum(forward, forward);
      if (backward == ballast::no_cost) {
        return bad_data(fmt::format(
            "step {}: a sample of {} in module {} of --stages costs more than 62 bits hold "
            "(row {} of the trace); leave it out",
            step.index + 1,
            count_of(static_cast<std::size_t>(modules_.lengths[module][row]), "token"), module,
            row + 1));
      }
      whole_.rows[at * modules + module] = {forward, backward};
    }
  }
  ballast::split_over_stages_into(times_, whole_, modules_.layers);
  return {};
}

outcome<pipeline_figures> step_pipelines::order(job const& work, planned_step const& step,
                                                ballast::bag_layout const& layout)
{
  pipeline_figures figures;
  double busy = 0;  // GPU seconds
  double gpus = 0;  // of one rank of all bags
  double const unit_seconds = work.seconds_at_speed_one();
  for (std::size_t index = 0; index < layout.size(); ++index) {
    auto const bag = ballast::to_id<ballast::bag_id>(index);
    std::size_t const microbatches = step.plan.samples[bag].size();
    if (auto const read = read_times(work, step, bag); !read) {
      return tl::unexpected(read.error());
    }
    auto found = schedules_.find(microbatches);
    if (found == schedules_.end()) {
      constexpr std::size_t most_kept = 64;
      if (schedules_.size() == most_kept) { schedules_.clear(); }
      auto compiled = compile(chosen_.schedule, graph_, microbatches);
      if (!compiled) { return tl::unexpected(compiled.error()); }
      found = schedules_.emplace(microbatches, std::move(*compiled)).first;
    }
    auto const start = std::chrono::steady_clock::now();
    auto const done =
        ballast::order_microbatches_into(plan_, memory_, found->second, times_, chosen_.policy);
    figures.order_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!done) {
      return bad_data(
          fmt::format("step {}, bag {}: {}", step.index + 1, index, done.error().message));
    }
    auto const of_bag = static_cast<double>(layout[bag].gpus);
    auto const speed = static_cast<double>(layout.speeds()[index]);
    auto const seconds = [&](ballast::time_units time) {
      return static_cast<double>(time) * unit_seconds / speed;
    };
    figures.makespan_given = std::max(figures.makespan_given, seconds(plan_.makespan_given));
    figures.makespan = std::max(figures.makespan, seconds(plan_.makespan));
    figures.lower_bound = std::max(figures.lower_bound, seconds(plan_.lower_bound));
    gpus += of_bag;
    for (auto const& [forward, backward] : times_.rows) {
      busy += of_bag * seconds(forward + backward);
    }
  }
  auto const idle = [&](double makespan) {
    double const paid = gpus * static_cast<double>(ranks()) * makespan;
    return paid > 0 ? std::max(0.0, 1 - busy / paid) : 0.0;
  };
  figures.idle_share_given = idle(figures.makespan_given);
  figures.idle_share = idle(figures.makespan);
  return figures;
}

}  // namespace cli
