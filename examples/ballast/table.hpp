// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <ballast/core.hpp>

#include <nlohmann/json.hpp>

namespace cli {

/// A file of rows with named columns: CSV with a header, or JSON lines, an object on each, whose
/// nested values are columns named by their path, `meta.tokens`.
struct table {
  std::string path;
  std::string csv;       ///< a header, and the rows; of JSON lines each text in its quotes
  bool is_json = false;  ///< then a field that begins with '(' says why there is no value
};

/// Reads JSON lines where the name ends in .jsonl, or the first character is a brace.
[[nodiscard]] outcome<table> read_table(std::string const& path);

/// An error with the name of the file, and with its line where the error has one of `csv`.
[[nodiscard]] std::string told(table const& read, ballast::error const& why);

/// A number for every row, by an expression over columns. A wrong expression is the fault of the
/// option that gave it.
[[nodiscard]] outcome<std::vector<ballast::tokens>> read_lengths(table const& read,
                                                                 std::string const& expression,
                                                                 std::string_view option);

/// The same for numbers that may be above the longest sample: loads and bytes.
[[nodiscard]] outcome<std::vector<std::int64_t>> read_column(table const& read,
                                                             std::string const& expression,
                                                             std::string_view option);

/// Whether rows without a value are equal to each other.
enum class empty_fields : std::uint8_t { equal, differ };

/// A number for every row, equal where the column that an option names is, or where all columns are
/// that it names with commas in between. No numbers where nothing is named.
///
/// Expects     a table whose lengths have been read, so that every row has its fields.
[[nodiscard]] outcome<std::vector<std::int64_t>> numbers_of_column(
    table const& read, std::string_view option, std::string const& named,
    empty_fields empty = empty_fields::equal);

/// What rows are called in the files that are written: nothing, unless --id names a column.
struct row_ids {
  std::vector<std::string> of_row;
  bool are_numbers = true;

  /// What stands behind the other columns and fields of a CSV text.
  [[nodiscard]] std::string_view column() const { return of_row.empty() ? "" : ",id"; }
  [[nodiscard]] std::string field(std::size_t row) const;
  [[nodiscard]] nlohmann::ordered_json json(std::size_t row) const;
};

/// Expects     as numbers_of_column.
[[nodiscard]] outcome<row_ids> read_ids(table const& read, std::string const& column);

}  // namespace cli
