// SPDX-License-Identifier: Apache-2.0
#include "found_layouts.hpp"
#include "orchestrate_command.hpp"
#include "output.hpp"
#include "pages/orchestration_page.hpp"
#include "shown_text.hpp"

#include <ballast/parallelism/model_layout.hpp>
#include <ballast/topology/process_grid.hpp>

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

nlohmann::ordered_json to_json(orchestrate_run const& run)
{
  nlohmann::ordered_json json;
  json["feasible"] = !run.layouts.empty();
  json["evaluated"] = run.evaluated;
  json["milliseconds"] = run.seconds * 1e3;
  json["layouts"] = nlohmann::ordered_json::array();
  for (policy_layout const& found : run.layouts) {
    auto const& [policy, layout, simulated] = found;
    nlohmann::ordered_json each;
    each["policy"] = policy;
    each["step_seconds"] = seconds_of(layout.step);
    each["simulated_seconds"] = seconds_of(simulated);
    each["memory_bytes"] = layout.memory_bytes;
    each["microbatches"] = layout.microbatches;
    each["gpus_used"] = layout.gpus();
    each["modules"] = nlohmann::ordered_json::array();
    for (std::size_t module = 0; module < run.problem.modules.size(); ++module) {
      ballast::module_layout const& degrees = layout.modules[module];
      each["modules"].push_back({{"name", run.problem.modules[module].name},
                                 {"tp", degrees.tp},
                                 {"pp", degrees.pp},
                                 {"dp", degrees.dp},
                                 {"sp", degrees.sp},
                                 {"ep", degrees.ep},
                                 {"gpus", degrees.gpus()},
                                 {"kind", found.kind(module)}});
    }
    json["layouts"].push_back(each);
  }
  return json;
}

/// "5000 samples: 4 of vision, 1310 of llm".
std::string samples_text(orchestrate_run const& run)
{
  std::string text = count_of(run.rows, "sample") + " of mean sizes ";
  for (std::size_t module = 0; module < run.mean_sizes.size(); ++module) {
    text += fmt::format("{}{} {}", module == 0 ? "" : ", ", run.problem.modules[module].name,
                        run.mean_sizes[module]);
  }
  return text;
}

/// "64 GPUs of 80 GB on nodes of 8", and those that modules have of their own.
std::string gpus_text(orchestrate_run const& run)
{
  std::string text;
  for (std::size_t kind = 0; kind < run.problem.kinds.size(); ++kind) {
    ballast::gpu_kind const& of = run.problem.kinds[kind];
    text += fmt::format("{}{} of {}", kind == 0 ? "" : ", ", count_of(of.gpus, "GPU"),
                        bytes_text(static_cast<double>(of.memory_bytes)));
    if (of.speed.numerator != of.speed.denominator) {
      text += fmt::format(" at speed {:g}", of.speed.value());
    }
    for (std::size_t module = 0; module < run.modules.size(); ++module) {
      if (kind > 0 && run.roles[module].kinds == std::vector{kind}) {
        text += " for " + run.modules[module].name;
      }
    }
  }
  return fmt::format("{} on nodes of {}", text, run.options.gpus_per_node);
}

/// "global batch 512, microbatches of 1".
std::string batch_text(orchestrate_run const& run)
{
  return fmt::format("global batch {}, microbatches of {}", run.options.global_batch,
                     run.options.microbatch);
}

std::string table_of(orchestrate_run const& run)
{
  std::string out = fmt::format("\n{}\n{}\n{}\n{}, {}\n\n", shown_text(run.options.profile),
                                shown_text(run.options.data), shown_text(samples_text(run)),
                                shown_text(gpus_text(run)), batch_text(run));
  bool const has_kinds = run.problem.kinds.size() > 1;
  std::string degrees = fmt::format("{:<12}", "");
  std::string heading = fmt::format("{:<12}", "");
  std::size_t wide = 6;  // what stands under tp
  for (auto const& each : run.layouts) { wide = std::max(wide, pages::tp_width(each.layout)); }
  for (auto const& module : run.problem.modules) {
    degrees += fmt::format("{:>{}}", shown_text(module.name), wide + (has_kinds ? 24 : 18));
    heading += fmt::format("{:>{}}{:>5}{:>6}{:>7}", "tp", wide, "pp", "dp", "GPUs");
    if (has_kinds) { heading += fmt::format("{:>6}", "kind"); }
  }
  out += degrees + "\n" + heading +
         fmt::format("{:>11}{:>14}{:>12}{:>12}{:>10}\n", "GPUs used", "microbatches", "predicted",
                     "simulated", "memory");
  for (policy_layout const& found : run.layouts) {
    auto const& [policy, layout, simulated] = found;
    out += fmt::format("{:<12}", policy);
    for (std::size_t module = 0; module < layout.modules.size(); ++module) {
      ballast::module_layout const& each = layout.modules[module];
      out += fmt::format("{:>{}}{:>5}{:>6}{:>7}", pages::tp_text(each), wide, each.pp, each.dp,
                         each.gpus());
      if (has_kinds) { out += fmt::format("{:>6}", found.kind(module)); }
    }
    out += fmt::format("{:>11}{:>14}{:>12}{:>12}{:>10}\n", layout.gpus(), layout.microbatches,
                       duration_text(seconds_of(layout.step)), duration_text(seconds_of(simulated)),
                       bytes_text(static_cast<double>(layout.memory_bytes)));
  }
  return out + fmt::format("\n{} of modules priced in {}\n\n", count_of(run.evaluated, "layout"),
                           duration_text(run.seconds));
}

std::string plan_of(orchestrate_run const& run)
{
  std::string plan =
      "policy,module,tp,pp,dp,sp,ep,gpus,microbatches,kind,step_seconds,simulated_seconds,"
      "memory_bytes\n";
  for (policy_layout const& found : run.layouts) {
    auto const& [policy, layout, simulated] = found;
    for (std::size_t module = 0; module < layout.modules.size(); ++module) {
      plan += fmt::format("{},{},{},{},{},{},{}\n", policy,
                          degrees_text(run.problem.modules[module].name, layout.modules[module]),
                          layout.microbatches, found.kind(module), seconds_of(layout.step),
                          seconds_of(simulated), layout.memory_bytes);
    }
  }
  return plan;
}

/// Where the best layout's modules of one kind lie.
outcome<std::vector<ballast::grid_place>> places_of(orchestrate_run const& run, std::size_t kind)
{
  std::vector<ballast::module_layout> modules;
  std::vector<std::uint32_t> numbers;
  std::uint64_t gpus = 0;
  for (std::size_t module = 0; module < run.problem.modules.size(); ++module) {
    if (run.layouts.front().kind(module) != kind) { continue; }
    numbers.push_back(static_cast<std::uint32_t>(module));
    modules.push_back(run.layouts.front().layout.modules[module]);
    gpus += modules.back().gpus();
  }
  auto places = ballast::place_layout(modules, static_cast<std::uint32_t>(gpus),
                                      run.problem.kinds[kind].gpus_per_node);
  if (!places) { return bad_data(places.error().message); }
  for (ballast::grid_place& each : *places) { each.module = numbers[each.module]; }
  return std::move(*places);
}

outcome<std::string> page_of(orchestrate_run const& run)
{
  pages::orchestration_page_data page;
  for (std::size_t module = 0; module < run.problem.modules.size(); ++module) {
    page.modules.push_back(run.problem.modules[module].name);
  }
  page.llm = run.llm;
  page.gpus_per_node = run.options.gpus_per_node;
  for (auto const& each : run.layouts) {
    page.layouts.push_back({each.policy, each.layout, each.simulated});
  }
  for (std::size_t kind = 0; kind < run.problem.kinds.size(); ++kind) {
    auto places = places_of(run, kind);
    if (!places) { return tl::unexpected(places.error()); }
    if (!places->empty()) { page.gpus += run.problem.kinds[kind].gpus; }
    page.places.push_back(std::move(*places));
  }
  page.evaluated = run.evaluated;
  page.search_seconds = run.seconds;
  orchestrate_options const& options = run.options;
  page.settings = {{"Profile", file_name_of(options.profile)},
                   {"Data", file_name_of(options.data)},
                   {"Samples", samples_text(run)},
                   {"GPUs", gpus_text(run)},
                   {"Batch", batch_text(run)},
                   {"LLM", run.problem.modules[run.llm].name},
                   {"State", options.state + " bytes of weight, gradient and optimiser"}};
  auto const add = [&page](std::string const& name, std::vector<std::string> const& given) {
    for (std::string const& each : given) { page.settings.push_back({name, each}); }
  };
  add("Size", options.sizes);
  add("Frozen", options.frozen);
  add("Trained input", options.trained_inputs);
  add("Virtual stages", options.virtual_stages);
  add("Boundary", options.boundary_bytes);
  if (options.between_nodes_gb_per_s > 0) {
    page.settings.push_back(
        {"Between nodes", fmt::format("{} GB/s of a GPU", options.between_nodes_gb_per_s)});
  }
  return pages::orchestration_page(page);
}

}  // namespace

outcome<void> show_orchestrate(orchestrate_run const& run)
{
  return show_layouts(
      run, [](orchestrate_run const& of) { return to_json(of); },
      [](orchestrate_run const& of) { return plan_of(of); },
      [](orchestrate_run const& of) { return page_of(of); },
      [](orchestrate_run const& of) { return table_of(of); });
}

}  // namespace cli
