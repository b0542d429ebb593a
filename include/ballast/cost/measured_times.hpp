// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/decimal.hpp>

namespace ballast::inline v0 {

/// Measured times of a file: of calls for fit_latency, or of whole steps for fit_steps.
///
/// Shapes      one of calls and steps is empty; lines: of each measurement its line in the file.
struct measured_times {
  std::vector<gamma_fit::measurement> calls;
  std::vector<step_fit::measurement> steps;
  std::vector<std::size_t> lines;
};

/// Reads a CSV text with the columns `length` and `seconds` of calls, or `length_sum`, `square_sum`,
/// `sequences`, `gpus` and `seconds` of steps, among others and in any order.
///
///     auto const times = read_file("times.csv", read_measured_times).value();
///     auto const fit = fit_latency(times.calls, flops);
///
/// Errors      bad_row with the line: a column is missing or there twice, a number of fields other
///             than the header's, or a field that is no whole number, of seconds no decimal one.
/// Complexity  O(bytes).
[[nodiscard]] inline result<measured_times> read_measured_times(std::string_view csv)
{
  measured_times read;
  auto const read_rows = [&](auto rows, auto const& keep) -> result<measured_times> {
    if (auto const header = rows.read_header(); !header) { return tl::unexpected(header.error()); }
    typename decltype(rows)::row fields;
    while (true) {
      auto const more = rows.next_into(fields);
      if (!more) { return tl::unexpected(more.error()); }
      if (!*more) { return std::move(read); }
      std::array<std::int64_t, std::tuple_size_v<decltype(fields)>> numbers{};
      for (std::size_t column = 0; column + 1 < fields.size(); ++column) {
        constexpr std::int64_t few = std::numeric_limits<std::uint32_t>::max();
        bool const is_number_of_things = column == 2 || column == 3;  // sequences, GPUs
        auto const number = rows.number(
            fields, column, is_number_of_things ? few : std::numeric_limits<std::int64_t>::max());
        if (!number) { return tl::unexpected(number.error()); }
        numbers[column] = *number;
      }
      std::string_view const field = fields.back();
      auto const seconds = detail::nearest_double(field);
      if (!seconds) { return rows.refuse_field(fields, fields.size() - 1, "a decimal number"); }
      keep(numbers, *seconds);
      read.lines.push_back(rows.line());
    }
  };

  csv_reader reader(csv);
  auto const header = reader.next();
  constexpr std::string_view of_steps = "length_sum";
  if (header &&
      std::find(header->fields.begin(), header->fields.end(), of_steps) != header->fields.end()) {
    return read_rows(
        detail::column_rows<5>(csv, {of_steps, "square_sum", "sequences", "gpus", "seconds"}),
        [&](std::array<std::int64_t, 5> const& numbers, double seconds) {
          read.steps.push_back({numbers[0], static_cast<std::uint64_t>(numbers[1]),
                                static_cast<std::uint32_t>(numbers[2]),
                                static_cast<std::uint32_t>(numbers[3]), seconds});
        });
  }
  return read_rows(detail::column_rows<2>(csv, {"length", "seconds"}),
                   [&](std::array<std::int64_t, 2> const& numbers, double seconds) {
                     read.calls.push_back({numbers[0], seconds});
                   });
}

}  // namespace ballast::inline v0
