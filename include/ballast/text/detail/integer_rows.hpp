// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_DETAIL_INTEGER_ROWS_HPP
#define BALLAST_TEXT_DETAIL_INTEGER_ROWS_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/excerpt.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

namespace ballast::inline v0::detail {

/// A column of whole numbers from 0 to `most`; or of one of two names, read as 0 and 1.
struct integer_column {
  std::string_view name;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::array<std::string_view, 2> names = {};
};

/// Reads rows of a CSV text with these columns among others, in any order.
///
/// Errors      bad_row with the line: no header, a column that is missing or there twice, a number
///             of fields other than the header's, a field that is no such number or name, bad
///             quoting.
/// Complexity  O(bytes).
template <std::size_t N>
class integer_rows {
 public:
  using row = std::array<std::int64_t, N>;

  integer_rows(std::string_view csv, std::array<integer_column, N> const& columns)
      : rows_(csv), columns_(columns)
  {}

  [[nodiscard]] result<void> read_header()
  {
    auto const header = rows_.next();
    if (!header) { return tl::unexpected(header.error()); }
    line_ = header->line;
    fields_ = header->fields.size();
    std::string expected;
    for (integer_column const& column : columns_) {
      expected += concat(expected.empty() ? "" : ",", column.name);
    }
    if (fields_ == 0) { return refuse("there is no header; write " + expected); }
    for (std::size_t column = 0; column < N; ++column) {
      std::string_view const name = columns_[column].name;
      auto const first = std::find(header->fields.begin(), header->fields.end(), name);
      bool const is_there = first != header->fields.end();
      if (!is_there || std::find(first + 1, header->fields.end(), name) != header->fields.end()) {
        return refuse(concat(is_there ? "there are two columns '" : "there is no column '", name,
                             "'; write the header ", expected));
      }
      at_[column] = static_cast<std::size_t>(first - header->fields.begin());
    }
    return {};
  }

  /// Whether there is another row, which is then read.
  [[nodiscard]] result<bool> next_into(row& numbers)
  {
    auto const read = rows_.next();
    if (!read) { return tl::unexpected(read.error()); }
    line_ = read->line;
    if (read->fields.empty()) { return false; }
    if (read->fields.size() != fields_) {
      return refuse(concat("the number of fields is ", read->fields.size(), ", but the header has ",
                           fields_, "; correct the row"));
    }
    for (std::size_t column = 0; column < N; ++column) {
      std::string_view const field = read->fields[at_[column]];
      if (!read_into(numbers[column], field, columns_[column])) {
        return refuse(concat("column '", columns_[column].name, "' holds ", excerpt(field),
                             ", expected ", expected_of(columns_[column]), "; correct the row"));
      }
    }
    return true;
  }

  /// Of the row that was read last.
  [[nodiscard]] std::size_t line() const noexcept { return line_; }

  [[nodiscard]] tl::unexpected<error> refuse(std::string const& why) const
  {
    return fail(error_code::bad_row, line_, "line ", line_, ": ", why);
  }

 private:
  [[nodiscard]] static bool read_into(std::int64_t& number, std::string_view field,
                                      integer_column const& column)
  {
    if (!column.names[0].empty()) {
      number = field == column.names[1] ? 1 : 0;
      return field == column.names[0] || field == column.names[1];
    }
    auto const [past, problem] = std::from_chars(field.data(), field.data() + field.size(), number);
    bool const is_number = problem == std::errc{} && past == field.data() + field.size();
    return is_number && number >= 0 && number <= column.most;
  }

  [[nodiscard]] static std::string expected_of(integer_column const& column)
  {
    if (column.names[0].empty()) { return concat("a whole number from 0 to ", column.most); }
    return concat(column.names[0], " or ", column.names[1]);
  }

  csv_reader rows_;
  std::array<integer_column, N> columns_;
  std::array<std::size_t, N> at_{};  // the field of each column
  std::size_t fields_ = 0;
  std::size_t line_ = 1;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_TEXT_DETAIL_INTEGER_ROWS_HPP
