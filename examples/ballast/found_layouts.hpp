// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"
#include "output.hpp"
#include "output_files.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cli {

inline double seconds_of(ballast::time_units picoseconds)
{
  return static_cast<double>(picoseconds) * 1e-12;
}

/// Name, degrees and GPUs of a module as --plan writes them; a name with a comma or a quotation mark
/// is quoted.
[[nodiscard]] inline std::string degrees_text(std::string name,
                                              ballast::module_layout const& degrees)
{
  if (name.find_first_of(",\"\n") != name.npos) {
    std::string quoted = "\"";
    for (char const each : name) { quoted += each == '"' ? "\"\"" : std::string(1, each); }
    name = quoted + '"';
  }
  return fmt::format("{},{},{},{},{},{},{}", name, degrees.tp, degrees.pp, degrees.dp, degrees.sp,
                     degrees.ep, degrees.gpus());
}

/// Writes plan and page where asked, then prints the table or the JSON; an error where no layout was
/// found, after the JSON that says so. For the runs of `search` and `orchestrate`.
template <class Run, class ToJson, class PlanOf, class PageOf, class TableOf>
[[nodiscard]] outcome<void> show_layouts(Run const& run, ToJson const& to_json,
                                         PlanOf const& plan_of, PageOf const& page_of,
                                         TableOf const& table_of)
{
  bool const is_json = run.options.format == "json";
  if (run.layouts.empty()) {
    if (is_json) {
      auto const printed = print_json(nlohmann::ordered_json::array({to_json(run)}));
      if (!printed) { return printed; }
    }
    return bad_data(run.why_none);
  }
  output_files files;
  if (!run.options.plan.empty()) { files.add_plan(run.options.plan, plan_of(run)); }
  if (!run.options.report.empty()) {
    auto page = page_of(run);
    if (!page) { return tl::unexpected(page.error()); }
    files.add("page", run.options.report, std::move(*page));
  }
  if (auto const done = files.write(); !done) { return done; }
  if (!is_json) { return files.print_table(table_of(run)); }
  return print_json(nlohmann::ordered_json::array({to_json(run)}));
}

}  // namespace cli
