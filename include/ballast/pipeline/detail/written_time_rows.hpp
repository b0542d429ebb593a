// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_WRITTEN_TIME_ROWS_HPP
#define BALLAST_PIPELINE_DETAIL_WRITTEN_TIME_ROWS_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/excerpt.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ballast::inline v0::detail {

/// A row of the file: how long one microbatch takes on one stage.
struct written_time {
  std::uint32_t microbatch = 0;
  std::uint32_t stage = 0;
  decimal forward;
  decimal backward;
  std::size_t line = 0;
};

class time_row_reader {
 public:
  explicit time_row_reader(std::string_view csv) : rows_(csv) {}

  /// All rows of the file, in its order.
  [[nodiscard]] result<std::vector<written_time>> read()
  {
    if (auto found = find_columns(); !found) { return tl::unexpected(found.error()); }
    std::vector<written_time> all;
    while (true) {
      auto const row = rows_.next();
      if (!row) { return tl::unexpected(row.error()); }
      if (row->fields.empty()) { break; }
      line_ = row->line;
      if (row->fields.size() != columns_) {
        return refuse(concat("the number of fields is ", row->fields.size(),
                             ", but the header has ", columns_, "; correct the row"));
      }
      written_time& next = all.emplace_back();
      next.line = line_;
      auto done = read_number_into(next.microbatch, row->fields, 0, most_microbatches);
      if (done) { done = read_number_into(next.stage, row->fields, 1, stage_graph::most_stages); }
      if (done) { done = read_time_into(next.forward, row->fields, 2); }
      if (done) { done = read_time_into(next.backward, row->fields, 3); }
      if (!done) { return tl::unexpected(done.error()); }
    }
    if (all.empty()) {
      return refuse("no row follows the header; add one per microbatch and stage");
    }
    return all;
  }

 private:
  static constexpr std::array<std::string_view, 4> names = {"microbatch", "stage", "forward",
                                                            "backward"};
  static constexpr std::size_t most_microbatches = std::size_t{1} << 30;

  [[nodiscard]] static std::string header_row() { return "microbatch,stage,forward,backward"; }

  [[nodiscard]] tl::unexpected<error> refuse(std::string const& why) const
  {
    return fail(error_code::bad_row, line_, "line ", line_, ": ", why);
  }

  [[nodiscard]] result<void> find_columns()
  {
    auto const header = rows_.next();
    if (!header) { return tl::unexpected(header.error()); }
    columns_ = header->fields.size();
    if (columns_ == 0) { return refuse("there is no header; write " + header_row()); }
    line_ = header->line;
    for (std::size_t name = 0; name < names.size(); ++name) {
      auto const count = std::count(header->fields.begin(), header->fields.end(), names[name]);
      if (count != 1) {
        return refuse(std::string(count == 0 ? "there is no column '" : "there are two columns '")
                          .append(names[name])
                          .append("'; write the header ")
                          .append(header_row()));
      }
      at_[name] = static_cast<std::uint32_t>(
          std::find(header->fields.begin(), header->fields.end(), names[name]) -
          header->fields.begin());
    }
    return {};
  }

  [[nodiscard]] result<void> read_number_into(std::uint32_t& number,
                                              std::span<std::string_view const> fields,
                                              std::size_t name, std::size_t end) const
  {
    std::string_view const field = fields[at_[name]];
    auto const [past, problem] = std::from_chars(field.data(), field.data() + field.size(), number);
    bool const is_number = problem == std::errc{} && past == field.data() + field.size();
    if (is_number && number < end) { return {}; }
    return refuse(concat("column '", names[name], "' holds ", excerpt(field),
                         ", expected a whole number from 0 to ", end - 1, "; correct the row"));
  }

  [[nodiscard]] result<void> read_time_into(decimal& time, std::span<std::string_view const> fields,
                                            std::size_t name) const
  {
    auto const read = parse_decimal(fields[at_[name]]);
    if (!read) {
      return refuse(
          std::string("column '").append(names[name]).append("': ").append(read.error().message));
    }
    time = *read;
    return {};
  }

  csv_reader rows_;
  std::array<std::uint32_t, 4> at_{};  // the field of each of the names
  std::size_t columns_ = 0;
  std::size_t line_ = 1;
};

/// All rows of a CSV text with the columns microbatch, stage, forward and backward among others, in
/// its order: at least one.
///
/// Errors      bad_row with the line of the first row that is wrong by itself.
/// Complexity  O(bytes).
[[nodiscard]] inline result<std::vector<written_time>> read_time_rows(std::string_view csv)
{
  return time_row_reader(csv).read();
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_WRITTEN_TIME_ROWS_HPP
