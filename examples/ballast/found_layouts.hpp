// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_FOUND_LAYOUTS_HPP
#define BALLAST_EXAMPLES_FOUND_LAYOUTS_HPP

#include "cleanup.hpp"
#include "outcome.hpp"
#include "output.hpp"
#include "shown_text.hpp"
#include "write_file.hpp"

#include <ballast/core/quantities.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>

namespace cli {

inline double seconds_of(ballast::time_units picoseconds)
{
  return static_cast<double>(picoseconds) * 1e-12;
}

/// Writes the page where asked, then prints the table or the JSON; an error where no layout was
/// found, after the JSON that says so. For the runs of `search` and `orchestrate`.
template <class Run, class ToJson, class PageOf, class TableOf>
[[nodiscard]] outcome<void> show_layouts(Run const& run, ToJson const& to_json,
                                         PageOf const& page_of, TableOf const& table_of)
{
  bool const is_json = run.options.format == "json";
  if (run.layouts.empty()) {
    if (is_json) {
      auto const printed = print_json(nlohmann::ordered_json::array({to_json(run)}));
      if (!printed) { return printed; }
    }
    return bad_data(run.why_none);
  }
  std::string written;
  if (!run.options.report.empty()) {
    auto const page = page_of(run);
    if (!page) { return tl::unexpected(page.error()); }
    if (auto const done = write_file(run.options.report, *page, at_end.files); !done) {
      return bad_data(done.error().message);
    }
    written = fmt::format("page     {}\n", shown_text(run.options.report));
  }
  if (!is_json) { return print(table_of(run) + written); }
  return print_json(nlohmann::ordered_json::array({to_json(run)}));
}

}  // namespace cli

#endif  // BALLAST_EXAMPLES_FOUND_LAYOUTS_HPP
