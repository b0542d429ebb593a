// SPDX-License-Identifier: Apache-2.0
#include "found_layouts.hpp"
#include "orchestrate_command.hpp"
#include "output.hpp"
#include "pages/orchestration_page.hpp"
#include "shown_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cli {
namespace {

nlohmann::ordered_json to_json(orchestrate_run const& run)
{
  nlohmann::ordered_json json;
  json["feasible"] = !run.layouts.empty();
  json["evaluated"] = run.evaluated;
  json["milliseconds"] = run.seconds * 1e3;
  json["layouts"] = nlohmann::ordered_json::array();
  for (auto const& [policy, layout, simulated] : run.layouts) {
    nlohmann::ordered_json each;
    each["policy"] = policy;
    each["step_seconds"] = seconds_of(layout.step);
    each["simulated_seconds"] = seconds_of(simulated);
    each["memory_bytes"] = layout.memory_bytes;
    each["microbatches"] = layout.microbatches;
    each["gpus_used"] = layout.gpus();
    each["modules"] = modules_json(run, layout);
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
  module_columns columns{.has_kinds = run.problem.kinds.size() > 1};
  for (auto const& each : run.layouts) { columns.widen(each.layout); }
  out += columns.heading(run, 12) + fmt::format("{:>11}{:>14}{:>12}{:>12}{:>10}\n", "GPUs used",
                                                "microbatches", "predicted", "simulated", "memory");
  for (auto const& [policy, layout, simulated] : run.layouts) {
    out += fmt::format("{:<12}{}{:>11}{:>14}{:>12}{:>12}{:>10}\n", policy, columns.row(layout),
                       layout.gpus(), layout.microbatches, duration_text(seconds_of(layout.step)),
                       duration_text(seconds_of(simulated)),
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
  for (auto const& [policy, layout, simulated] : run.layouts) {
    for (std::size_t module = 0; module < layout.modules.size(); ++module) {
      plan += fmt::format("{},{},{},{},{}\n", policy, plan_text(run, layout, module),
                          seconds_of(layout.step), seconds_of(simulated), layout.memory_bytes);
    }
  }
  return plan;
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
  auto places = places_of(run, run.layouts.front().layout);
  if (!places) { return tl::unexpected(places.error()); }
  page.places = *std::move(places);
  for (std::size_t kind = 0; kind < page.places.size(); ++kind) {
    if (!page.places[kind].empty()) { page.gpus += run.problem.kinds[kind].gpus; }
  }
  page.evaluated = run.evaluated;
  page.search_seconds = run.seconds;
  orchestrate_options const& options = run.options;
  page.settings = {{"Profile", file_name_of(options.profile)},
                   {"Data", file_name_of(options.data)},
                   {"Samples", samples_text(run)},
                   {"GPUs", gpus_text(run)},
                   {"Batch", batch_text(run)},
                   {"LLM", run.problem.modules[run.llm].name}};
  add_settings(page.settings, options);
  auto const add = [&page](std::string const& name, std::vector<std::string> const& given) {
    for (std::string const& each : given) { page.settings.push_back({name, each}); }
  };
  add("Virtual stages", options.virtual_stages);
  add("Boundary", options.boundary_bytes);
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
