// SPDX-License-Identifier: Apache-2.0
#include "found_layouts.hpp"

#include "pages/layout_page.hpp"
#include "shown_text.hpp"

#include <fmt/format.h>

namespace cli {
namespace {

/// Of the GPUs of a module.
std::size_t kind_of(ballast::model_layout const& layout, std::size_t module)
{
  return layout.kinds.empty() ? 0 : layout.kinds[module];
}

}  // namespace

std::string gpus_text(model_job const& job)
{
  std::string text;
  for (std::size_t kind = 0; kind < job.problem.kinds.size(); ++kind) {
    ballast::gpu_kind const& of = job.problem.kinds[kind];
    text += fmt::format("{}{} of {}", kind == 0 ? "" : ", ", count_of(of.gpus, "GPU"),
                        bytes_text(static_cast<double>(of.memory_bytes)));
    if (of.speed.numerator != of.speed.denominator) {
      text += fmt::format(" at speed {:g}", of.speed.value());
    }
    for (std::size_t module = 0; module < job.modules.size(); ++module) {
      if (kind > 0 && job.roles[module].kinds == std::vector{kind}) {
        text += " for " + job.modules[module].name;
      }
    }
  }
  return fmt::format("{} on nodes of {}", text, job.problem.kinds.front().gpus_per_node);
}

void module_columns::widen(ballast::model_layout const& layout)
{
  wide = std::max(wide, pages::tp_width(layout));
}

std::string module_columns::heading(model_job const& job, std::size_t indent) const
{
  std::string names(indent, ' ');
  std::string headings = names;
  for (auto const& module : job.modules) {
    names += fmt::format("{:>{}}", shown_text(module.name), wide + (has_kinds ? 24 : 18));
    headings += fmt::format("{:>{}}{:>5}{:>6}{:>7}", "tp", wide, "pp", "dp", "GPUs");
    if (has_kinds) { headings += fmt::format("{:>6}", "kind"); }
  }
  return names + "\n" + headings;
}

std::string module_columns::row(ballast::model_layout const& layout) const
{
  std::string text;
  for (std::size_t module = 0; module < layout.modules.size(); ++module) {
    ballast::module_layout const& each = layout.modules[module];
    text += fmt::format("{:>{}}{:>5}{:>6}{:>7}", pages::tp_text(each), wide, each.pp, each.dp,
                        each.gpus());
    if (has_kinds) { text += fmt::format("{:>6}", kind_of(layout, module)); }
  }
  return text;
}

nlohmann::ordered_json modules_json(model_job const& job, ballast::model_layout const& layout)
{
  auto json = nlohmann::ordered_json::array();
  for (std::size_t module = 0; module < job.modules.size(); ++module) {
    ballast::module_layout const& degrees = layout.modules[module];
    json.push_back({{"name", job.modules[module].name},
                    {"tp", degrees.tp},
                    {"pp", degrees.pp},
                    {"dp", degrees.dp},
                    {"sp", degrees.sp},
                    {"ep", degrees.ep},
                    {"gpus", degrees.gpus()},
                    {"kind", kind_of(layout, module)},
                    {"sharded", degrees.is_sharded}});
  }
  return json;
}

std::string plan_text(model_job const& job, ballast::model_layout const& layout, std::size_t module)
{
  std::string name = job.modules[module].name;
  if (name.find_first_of(",\"\n") != name.npos) {  // is quoted
    std::string quoted = "\"";
    for (char const each : name) { quoted += each == '"' ? "\"\"" : std::string(1, each); }
    name = quoted + '"';
  }
  ballast::module_layout const& degrees = layout.modules[module];
  return fmt::format("{},{},{},{},{},{},{},{},{}", name, degrees.tp, degrees.pp, degrees.dp,
                     degrees.sp, degrees.ep, degrees.gpus(), layout.microbatches,
                     kind_of(layout, module));
}

outcome<std::vector<std::vector<ballast::grid_place>>> places_of(
    model_job const& job, ballast::model_layout const& layout)
{
  std::vector<std::vector<ballast::grid_place>> all;
  for (std::size_t kind = 0; kind < job.problem.kinds.size(); ++kind) {
    std::vector<ballast::module_layout> modules;
    std::vector<std::uint32_t> numbers;
    std::uint64_t gpus = 0;
    for (std::size_t module = 0; module < layout.modules.size(); ++module) {
      if (kind_of(layout, module) != kind) { continue; }
      numbers.push_back(static_cast<std::uint32_t>(module));
      modules.push_back(layout.modules[module]);
      gpus += modules.back().gpus();
    }
    auto places = ballast::place_layout(modules, static_cast<std::uint32_t>(gpus),
                                        job.problem.kinds[kind].gpus_per_node);
    if (!places) { return bad_data(places.error().message); }
    for (ballast::grid_place& each : *places) { each.module = numbers[each.module]; }
    all.push_back(*std::move(places));
  }
  return all;
}

void add_settings(std::vector<pages::html_page::setting>& settings, model_options const& options)
{
  auto const add = [&settings](std::string const& name, std::vector<std::string> const& given) {
    for (std::string const& each : given) { settings.push_back({name, each}); }
  };
  add("Size", options.sizes);
  add("Frozen", options.frozen);
  add("Trained input", options.trained_inputs);
  add("May be sharded", options.may_shard);
  if (!options.state.empty()) {
    settings.push_back({"State", options.state + " bytes of weight, gradient and optimiser"});
  }
  if (options.between_nodes_gb_per_s > 0) {
    settings.push_back(
        {"Between nodes", fmt::format("{} GB/s of a GPU", options.between_nodes_gb_per_s)});
  }
}

}  // namespace cli
