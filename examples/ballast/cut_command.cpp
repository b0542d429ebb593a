// SPDX-License-Identifier: Apache-2.0
#include "cut_command.hpp"

#include "module_inputs.hpp"
#include "output.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/cut_chain.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cli {
namespace {

std::size_t stages_of(cut_run const& run)
{
  return run.cut.first.size() - 1;
}

std::int64_t load_of(cut_run const& run, std::size_t stage)
{
  std::int64_t load = 0;
  for (std::size_t layer = run.cut.first[stage]; layer < run.cut.first[stage + 1]; ++layer) {
    load += run.layers[layer].cost;
  }
  return load;
}

std::string table_of(cut_run const& run)
{
  cut_options const& options = run.options;
  std::string out = fmt::format(
      "cost {} of {}\n{}, {}, {} of each\n\n{:>5}{:>6}{:>7}{:>6}{:>18}\n", shown_text(options.load),
      shown_text(file_name_of(options.layers)), count_of(run.layers.size(), "layer"),
      count_of(options.ranks, "pipeline rank"), count_of(options.virtual_stages, "stage"), "stage",
      "rank", "first", "last", "load");
  for (std::size_t stage = 0; stage < stages_of(run); ++stage) {
    out += fmt::format("{:>5}{:>6}{:>7}{:>6}{:>18}\n", stage, stage % options.ranks,
                       run.cut.first[stage], run.cut.first[stage + 1] - 1, load_of(run, stage));
  }
  return out + fmt::format("\nthe busiest rank has {}; {}\n", run.cut.makespan,
                           gap_text(run.cut.gap(), run.cut.proven_optimal()));
}

nlohmann::ordered_json to_json(cut_run const& run)
{
  nlohmann::ordered_json json;
  json["layers"] = run.options.layers;
  json["load"] = run.options.load;
  json["ranks"] = run.options.ranks;
  json["virtual_stages"] = run.options.virtual_stages;
  json["first"] = run.cut.first;
  json["loads"] = run.cut.loads;
  json["makespan"] = run.cut.makespan;
  json["lower_bound"] = run.cut.lower_bound;
  json["gap"] = run.cut.gap();
  json["proven"] = run.cut.proven_optimal();
  return json;
}

std::string plan_of(cut_run const& run)
{
  std::string plan = fmt::format("layer,stage,rank,load{}\n", run.ids.column());
  for (std::size_t stage = 0; stage < stages_of(run); ++stage) {
    for (std::size_t layer = run.cut.first[stage]; layer < run.cut.first[stage + 1]; ++layer) {
      plan += fmt::format("{},{},{},{}{}\n", layer, stage, stage % run.options.ranks,
                          run.layers[layer].cost, run.ids.field(layer));
    }
  }
  return plan;
}

}  // namespace

outcome<cut_run> run_cut(cut_options const& options)
{
  if (auto const checked = check_plan(options.plan, options.format); !checked) {
    return tl::unexpected(checked.error());
  }
  if (auto const checked =
          check_paths({{"--layers", &options.layers}}, {{"--plan", &options.plan}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const rows = read_table(options.layers);
  if (!rows) { return tl::unexpected(rows.error()); }
  cut_run run;
  run.options = options;
  using member = std::int64_t ballast::chain_layer::*;
  for (auto const& [option, expression, value] :
       {std::tuple{"--load", &options.load, member(&ballast::chain_layer::cost)},
        std::tuple{"--state-bytes", &options.state_bytes, &ballast::chain_layer::state_bytes},
        std::tuple{"--activation-bytes", &options.activation_bytes,
                   &ballast::chain_layer::activation_bytes}}) {
    if (expression->empty()) { continue; }
    auto const read = read_column(*rows, *expression, option);
    if (!read) { return tl::unexpected(read.error()); }
    run.layers.resize(read->size());
    for (std::size_t layer = 0; layer < read->size(); ++layer) {
      run.layers[layer].*value = (*read)[layer];
    }
  }
  auto ids = read_ids(*rows, options.id);
  if (!ids) { return tl::unexpected(ids.error()); }
  run.ids = std::move(*ids);

  std::vector<std::int64_t> most;
  std::vector<std::int64_t> held;
  if (!options.memory.empty()) {
    auto const bytes = read_bytes("--memory", options.memory);
    if (!bytes) { return tl::unexpected(bytes.error()); }
    most.assign(options.ranks, static_cast<std::int64_t>(*bytes));
    // 1F1B of many microbatches keeps fewer from stage to stage.
    for (std::size_t stage = 0; stage < options.ranks && options.virtual_stages == 1; ++stage) {
      held.push_back(static_cast<std::int64_t>(options.ranks - stage));
    }
  }
  auto cut = ballast::cut_chain(
      run.layers,
      {.ranks = options.ranks, .chunks = options.virtual_stages, .most = most, .held = held});
  if (!cut) { return bad_data(fmt::format("{}: {}", options.layers, cut.error().message)); }
  run.cut = std::move(*cut);
  return run;
}

outcome<void> show_cut(cut_run const& run)
{
  output_files files;
  files.add_plan(run.options.plan, plan_of(run), run.ids.are_numbers);
  return files.show(
      run.options.format, [&] { return table_of(run); }, [&] { return to_json(run); });
}

}  // namespace cli
