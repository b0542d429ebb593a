// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "module_inputs.hpp"
#include "outcome.hpp"
#include "output.hpp"
#include "output_files.hpp"
#include "pages/html_page.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/topology/process_grid.hpp>

#include <nlohmann/json.hpp>

namespace cli {

inline double seconds_of(ballast::time_units picoseconds)
{
  return static_cast<double>(picoseconds) * 1e-12;
}

/// "64 GPUs of 80 GB, 4 GPUs of 40 GB at speed 0.5 for vision on nodes of 8".
[[nodiscard]] std::string gpus_text(model_job const& job);

/// The columns of modules in a table, as wide as the layouts want them.
struct module_columns {
  std::size_t wide = 6;    ///< what stands under tp
  bool has_kinds = false;  ///< of GPUs

  void widen(ballast::model_layout const& layout);
  /// The line of names, behind so many spaces, and that of headings.
  [[nodiscard]] std::string heading(model_job const& job, std::size_t indent) const;
  [[nodiscard]] std::string row(ballast::model_layout const& layout) const;
};

/// What JSON has of the modules of a layout.
[[nodiscard]] nlohmann::ordered_json modules_json(model_job const& job,
                                                  ballast::model_layout const& layout);

/// A module's line of --plan from its name to its kind of GPUs.
[[nodiscard]] std::string plan_text(model_job const& job, ballast::model_layout const& layout,
                                    std::size_t module);

/// Where the modules of a layout lie on each kind of GPUs.
[[nodiscard]] outcome<std::vector<std::vector<ballast::grid_place>>> places_of(
    model_job const& job, ballast::model_layout const& layout);

/// What the pages say of modules and GPUs, behind what their command adds.
void add_settings(std::vector<pages::html_page::setting>& settings, model_options const& options);

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
