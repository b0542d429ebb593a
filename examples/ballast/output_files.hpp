// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cleanup.hpp"
#include "outcome.hpp"
#include "output.hpp"
#include "shown_text.hpp"
#include "write_file.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

/// The path of --plan that stands for standard output.
inline constexpr std::string_view standard_output = "-";

/// Why --plan and --format do not go together, if so.
[[nodiscard]] inline outcome<void> check_plan(std::string const& plan, std::string const& format)
{
  if (plan != standard_output || format != "json") { return {}; }
  return usage("--plan - and --format json both go to standard output; name a file for --plan");
}

/// The files that a command writes, and the list of them below its table.
class output_files {
 public:
  /// An empty path is an option that was not given.
  void add(std::string_view what, std::string const& path, std::string content)
  {
    if (path.empty()) { return; }
    listed_ += fmt::format("{:<8} {}\n", what, shown_text(path));
    files_.push_back({path, std::move(content)});
  }

  /// The same for --plan, which may be standard output or a file of JSON lines, in which ids are
  /// numbers only where all are.
  void add_plan(std::string const& path, std::string csv, bool are_ids_numbers = true)
  {
    if (path.ends_with(".jsonl")) { return add("plan", path, json_lines_of(csv, are_ids_numbers)); }
    if (path != standard_output) { return add("plan", path, std::move(csv)); }
    plan_ = std::move(csv);
    is_plan_printed_ = true;
  }

  /// A line below the file that was added last.
  void add_note(std::string_view note) { listed_ += fmt::format("         {}\n", note); }

  /// Writes all or none, before anything is printed: a failure leaves no output behind.
  [[nodiscard]] outcome<void> write() const
  {
    if (auto const done = write_files(files_, at_end.files); !done) {
      return bad_data(done.error().message);
    }
    return {};
  }

  /// Writes the files, then prints the table that `table_of()` draws or, with --format json, an array
  /// of what `to_json()` returns.
  template <class TableOf, class ToJson>
  [[nodiscard]] outcome<void> show(std::string_view format, TableOf const& table_of,
                                   ToJson const& to_json) const
  {
    if (auto const done = write(); !done) { return done; }
    if (format != "json") { return print_table(table_of()); }
    return print_json(nlohmann::ordered_json::array({to_json()}));
  }

  /// To standard error where standard output has the plan.
  [[nodiscard]] outcome<void> print_table(std::string const& table) const
  {
    if (!is_plan_printed_) { return print(table + listed_); }
    if (auto const done = print(plan_); !done) { return done; }
    std::fputs((table + listed_).c_str(), stderr);
    return {};
  }

 private:
  std::string listed_;
  std::vector<file_content> files_;
  std::string plan_;
  bool is_plan_printed_ = false;
};

}  // namespace cli
