// SPDX-License-Identifier: Apache-2.0
#include "experts_command.hpp"

#include "machines.hpp"
#include "output.hpp"
#include "output_files.hpp"
#include "output_paths.hpp"
#include "shown_text.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/place_experts.hpp>
#include <ballast/parallelism/share_experts.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cli {
namespace {

/// The load of each replica, as it is split over those of its expert.
outcome<void> share(experts_run& run)
{
  auto const& places = run.placed.gpus;
  auto const uneven = ballast::share_experts(run.loads, places, run.options.gpus);
  if (!uneven) { return bad_data(uneven.error().message); }
  run.load_of_gpu.assign(run.options.gpus, 0);
  for (std::size_t expert = 0; expert < run.loads.size(); ++expert) {
    auto const id = ballast::to_id<ballast::expert_id>(expert);
    for (std::size_t replica = 0; replica < places[id].size(); ++replica) {
      double const even =
          static_cast<double>(run.loads[expert]) / static_cast<double>(places[id].size());
      double const part =
          static_cast<double>(uneven->parts[id][replica]) / static_cast<double>(uneven->unit);
      run.shares.push_back(run.options.is_uneven ? part : even);
      run.load_of_gpu[to_index(places[id][replica])] += run.options.is_uneven ? part : even;
    }
    run.shares.end_row();
  }
  return {};
}

std::string table_of(experts_run const& run)
{
  experts_options const& options = run.options;
  std::string out =
      fmt::format("cost {} of {}\n{}, {} on {}\n\n{:>5}{:>14}  experts\n", shown_text(options.load),
                  shown_text(file_name_of(options.experts)), count_of(run.loads.size(), "expert"),
                  count_of(run.placed.gpus.values().size(), "replica"),
                  count_of(options.gpus, "GPU"), "GPU", "load");
  for (std::size_t gpu = 0; gpu < options.gpus; ++gpu) {
    std::string names;
    for (auto const expert : run.placed.experts[ballast::to_id<ballast::rank_id>(gpu)]) {
      names += fmt::format(" {}", to_index(expert));
    }
    out += fmt::format("{:>5}{:>14.1f} {}\n", gpu, run.load_of_gpu[gpu], names);
  }
  return out + fmt::format("\nthe busiest GPU has {:.1f}; {}\n", run.placed.makespan.value(),
                           gap_text(run.placed.gap(), run.placed.proven_optimal()));
}

nlohmann::ordered_json to_json(experts_run const& run)
{
  nlohmann::ordered_json json;
  json["experts"] = run.options.experts;
  json["load"] = run.options.load;
  json["gpus"] = run.options.gpus;
  json["replicas"] = run.placed.gpus.values().size();
  json["makespan"] = run.placed.makespan.value();
  json["lower_bound"] = run.placed.lower_bound.value();
  json["gap"] = run.placed.gap();
  json["proven"] = run.placed.proven_optimal();
  json["digest"] = run.placed.digest();
  json["places"] = nlohmann::ordered_json::array();
  for (auto const places : run.placed.gpus) {
    auto& row = json["places"].emplace_back(nlohmann::ordered_json::array());
    for (auto const gpu : places) { row.push_back(to_index(gpu)); }
  }
  json["loads"] = run.load_of_gpu;
  return json;
}

std::string plan_of(experts_run const& run)
{
  std::string plan = fmt::format("expert,replica,gpu,load{}\n", run.ids.column());
  for (std::size_t expert = 0; expert < run.loads.size(); ++expert) {
    auto const id = ballast::to_id<ballast::expert_id>(expert);
    for (std::size_t replica = 0; replica < run.placed.gpus[id].size(); ++replica) {
      plan += fmt::format("{},{},{},{:.3f}{}\n", expert, replica,
                          to_index(run.placed.gpus[id][replica]), run.shares[id][replica],
                          run.ids.field(expert));
    }
  }
  return plan;
}

}  // namespace

outcome<experts_run> run_experts(experts_options const& options)
{
  if (auto const checked = check_plan(options.plan, options.format); !checked) {
    return tl::unexpected(checked.error());
  }
  if (auto const checked =
          check_paths({{"--experts", &options.experts}, {"--slots", &options.slots}},
                      {{"--plan", &options.plan}});
      !checked) {
    return tl::unexpected(checked.error());
  }
  auto const rows = read_table(options.experts);
  if (!rows) { return tl::unexpected(rows.error()); }
  auto loads = read_column(*rows, options.load, "--load");
  if (!loads) { return tl::unexpected(loads.error()); }
  auto ids = read_ids(*rows, options.id);
  if (!ids) { return tl::unexpected(ids.error()); }
  auto const slots = read_of_each({"--slots", "the replicas that a GPU has room for", 0, 1 << 20},
                                  options.slots, options.gpus, "GPU");
  if (!slots) { return tl::unexpected(slots.error()); }

  experts_run run;
  run.options = options;
  run.loads = std::move(*loads);
  run.ids = std::move(*ids);
  std::vector<std::uint32_t> const room(slots->begin(), slots->end());
  std::vector<std::uint32_t> nodes;
  for (std::size_t left = options.gpus; left > 0; left -= nodes.back()) {
    nodes.push_back(static_cast<std::uint32_t>(std::min(left, options.gpus_per_node)));
  }
  ballast::expert_rules rules;
  rules.most_nodes = options.most_nodes;
  if (options.most_nodes != 0) { rules.nodes = nodes; }
  rules.uneven = options.is_uneven;
  auto placed = ballast::place_experts(run.loads, room, rules);
  if (!placed) { return bad_data(fmt::format("{}: {}", options.experts, placed.error().message)); }
  run.placed = std::move(*placed);
  if (auto const shared = share(run); !shared) { return tl::unexpected(shared.error()); }
  return run;
}

outcome<void> show_experts(experts_run const& run)
{
  output_files files;
  files.add_plan(run.options.plan, plan_of(run), run.ids.are_numbers);
  return files.show(
      run.options.format, [&] { return table_of(run); }, [&] { return to_json(run); });
}

}  // namespace cli
