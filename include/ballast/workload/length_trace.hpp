// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/column_expression.hpp>

namespace ballast::inline v0 {

/// The lengths of real samples: one per row of a CSV text, in its order.
///
/// In          csv has a header row; expression says what to add up, see `column_expression`.
/// Ensures     (1) one length per row below the header, in [0, longest_sample]
///             (2) of several bad rows, the first is reported
/// Errors      bad_row with the line: no header, no row below it, a number of fields other than the
///             header's, a field that is no whole number, a length below 0 or above longest_sample,
///             bad quoting. From the expression: its own errors, with an offset into it.
/// Complexity  O(bytes), in one pass.
[[nodiscard]] inline result<std::vector<tokens>> read_length_trace(std::string_view csv,
                                                                   std::string_view expression)
{
  auto const bad_row = [](std::size_t line, std::string const& reason) {
    return fail(error_code::bad_row, line, "line ", line, ": ", reason);
  };

  csv_reader rows(csv);
  auto const header = rows.next();
  if (!header) { return tl::unexpected(header.error()); }
  if (header->fields.empty()) {
    return bad_row(1, "there is no header; write the column names in the first row");
  }
  std::size_t const columns = header->fields.size();
  auto const length_of = parse_column_expression(expression, header->fields);
  if (!length_of) { return tl::unexpected(length_of.error()); }
  if (!length_of->names_a_column()) {
    return fail(error_code::syntax, 0,
                excerpt(expression) +
                    " names no column, so all lengths would be equal; put a column whose name is a "
                    "number between backticks");
  }

  std::vector<tokens> lengths;
  while (true) {
    auto const row = rows.next();
    if (!row) { return tl::unexpected(row.error()); }
    if (row->fields.empty()) { break; }
    if (row->fields.size() != columns) {
      return bad_row(
          row->line,
          detail::concat("the number of fields is ", row->fields.size(), ", but the header has ",
                         columns, "; quote fields that hold commas, or remove the row"));
    }
    auto const length = length_of->evaluate(*row);
    if (!length) { return tl::unexpected(length.error()); }
    if (*length < 0 || *length > longest_sample) {
      return bad_row(row->line, detail::concat(excerpt(expression), " is ", *length,
                                               ", expected 0 to ", longest_sample,
                                               " tokens; fix the row or choose other columns"));
    }
    lengths.push_back(*length);
  }
  if (lengths.empty()) { return bad_row(header->line, "no row follows the header; add samples"); }
  return lengths;
}

/// The sizes of real samples in several modules: items of encoders, tokens of the LLM. One sample
/// per row of a CSV text, in its order; each size is a column or an expression of columns, see
/// `column_expression`.
///
/// Shapes      returns sizes[rows x expressions], those of one sample next to each other.
/// Expects     at least one expression.
/// Ensures     (1) sizes are in [0, longest_sample]
/// Errors      those of read_length_trace, of the first expression that has one.
/// Complexity  O(bytes x expressions).
[[nodiscard]] inline result<std::vector<tokens>> read_sample_sizes(
    std::string_view csv, std::span<std::string const> expressions)
{
  BALLAST_EXPECTS(!expressions.empty());
  std::vector<tokens> sizes;
  for (std::size_t module = 0; module < expressions.size(); ++module) {
    auto const column = read_length_trace(csv, expressions[module]);
    if (!column) { return tl::unexpected(column.error()); }
    sizes.resize(column->size() * expressions.size());
    for (std::size_t row = 0; row < column->size(); ++row) {
      sizes[row * expressions.size() + module] = (*column)[row];
    }
  }
  return sizes;
}

/// Some samples of all, in the order in which they are named.
///
/// Shapes      sizes[samples x modules]; returns [rows.size() x modules].
/// Expects     modules >= 1; rows are below the number of samples.
/// Complexity  O(rows x modules).
[[nodiscard]] inline std::vector<tokens> sizes_of_rows(std::span<tokens const> sizes,
                                                       std::size_t modules,
                                                       std::span<std::size_t const> rows)
{
  BALLAST_EXPECTS(modules >= 1, "samples have sizes in no module");
  std::vector<tokens> chosen;
  chosen.reserve(rows.size() * modules);
  for (std::size_t const row : rows) {
    BALLAST_EXPECTS(row < sizes.size() / modules, "sample ", row, " was asked for of ",
                    sizes.size() / modules);
    auto const own = sizes.subspan(row * modules, modules);
    chosen.insert(chosen.end(), own.begin(), own.end());
  }
  return chosen;
}

}  // namespace ballast::inline v0
