// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/excerpt.hpp>

#include <system_error>

namespace ballast::inline v0::detail {

/// Reads rows of a CSV text with these columns among others, in any order. Of the names those from
/// `needed` on may be missing; their fields are then empty.
///
/// Errors      bad_row with the line: no header, a column that is missing or there twice, a number
///             of fields other than the header's, bad quoting.
/// Complexity  O(bytes).
template <std::size_t N>
class column_rows {
 public:
  /// The fields of the columns, in the order of the names; valid until the next row is read.
  using row = std::array<std::string_view, N>;

  column_rows(std::string_view csv, std::array<std::string_view, N> const& names,
              std::size_t needed = N)
      : rows_(csv), names_(names), needed_(needed)
  {}

  [[nodiscard]] result<void> read_header()
  {
    auto const header = rows_.next();
    if (!header) { return tl::unexpected(header.error()); }
    fields_ = header->fields.size();
    std::string expected;
    for (std::size_t column = 0; column < needed_; ++column) {
      expected += concat(column == 0 ? "" : ",", names_[column]);
    }
    if (fields_ == 0) { return refuse("there is no header; write " + expected); }
    line_ = header->line;
    for (std::size_t column = 0; column < N; ++column) {
      auto const first = std::find(header->fields.begin(), header->fields.end(), names_[column]);
      bool const is_there = first != header->fields.end();
      at_[column] = static_cast<std::size_t>(first - header->fields.begin());
      if (!is_there && column >= needed_) { continue; }
      if (!is_there ||
          std::find(first + 1, header->fields.end(), names_[column]) != header->fields.end()) {
        return refuse(concat(is_there ? "there are two columns '" : "there is no column '",
                             names_[column], "'; write the header ", expected));
      }
    }
    return {};
  }

  /// Whether there is another row, which is then read.
  [[nodiscard]] result<bool> next_into(row& fields)
  {
    auto const read = rows_.next();
    if (!read) { return tl::unexpected(read.error()); }
    if (read->fields.empty()) { return false; }
    line_ = read->line;
    if (read->fields.size() != fields_) {
      return refuse(concat("the number of fields is ", read->fields.size(), ", but the header has ",
                           fields_, "; correct the row"));
    }
    for (std::size_t column = 0; column < N; ++column) {
      fields[column] = has(column) ? read->fields[at_[column]] : std::string_view();
    }
    return true;
  }

  /// A field of the row that was read last as a whole number from 0 to `most`.
  [[nodiscard]] result<std::int64_t> number(row const& fields, std::size_t column,
                                            std::int64_t most) const
  {
    std::string_view const field = fields[column];
    std::int64_t number = 0;
    auto const [past, problem] = std::from_chars(field.data(), field.data() + field.size(), number);
    bool const is_number = problem == std::errc{} && past == field.data() + field.size();
    if (is_number && number >= 0 && number <= most) { return number; }
    return refuse_field(fields, column, concat("a whole number from 0 to ", most));
  }

  [[nodiscard]] tl::unexpected<error> refuse_field(row const& fields, std::size_t column,
                                                   std::string const& expected) const
  {
    return refuse(concat("column '", names_[column], "' holds ", excerpt(fields[column]),
                         ", expected ", expected, "; correct the row"));
  }

  /// Says where the reading is: in the row that was read last.
  [[nodiscard]] tl::unexpected<error> refuse(std::string const& why) const
  {
    return fail(error_code::bad_row, line_, "line ", line_, ": ", why);
  }
  [[nodiscard]] std::size_t line() const noexcept { return line_; }
  /// Whether the header has a column.
  [[nodiscard]] bool has(std::size_t column) const noexcept { return at_[column] < fields_; }

 private:
  csv_reader rows_;
  std::array<std::string_view, N> names_;
  std::size_t needed_;
  std::array<std::size_t, N> at_{};  // the field of each column; past the last where it is missing
  std::size_t fields_ = 0;
  std::size_t line_ = 1;
};

/// A column of whole numbers from 0 to `most`; or of one of three names, read as 0, 1 and 2.
struct integer_column {
  std::string_view name;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::array<std::string_view, 3> names = {};
};

/// The same of columns that hold whole numbers.
///
/// Errors      also bad_row: a field is no such number or name.
template <std::size_t N>
class integer_rows {
 public:
  using row = std::array<std::int64_t, N>;

  integer_rows(std::string_view csv, std::array<integer_column, N> const& columns)
      : rows_(csv, names_of(columns)), columns_(columns)
  {}

  [[nodiscard]] result<void> read_header() { return rows_.read_header(); }

  /// Whether there is another row, which is then read.
  [[nodiscard]] result<bool> next_into(row& numbers)
  {
    typename column_rows<N>::row fields;
    auto more = rows_.next_into(fields);
    if (!more || !*more) { return more; }
    for (std::size_t column = 0; column < N; ++column) {
      auto const& [name, most, names] = columns_[column];
      if (names[0].empty()) {
        auto const read = rows_.number(fields, column, most);
        if (!read) { return tl::unexpected(read.error()); }
        numbers[column] = *read;
        continue;
      }
      auto const found = std::find(names.begin(), names.end(), fields[column]);
      if (found == names.end()) {
        return rows_.refuse_field(fields, column,
                                  concat(names[0], ", ", names[1], " or ", names[2]));
      }
      numbers[column] = found - names.begin();
    }
    return true;
  }

  /// Of the row that was read last.
  [[nodiscard]] std::size_t line() const noexcept { return rows_.line(); }
  [[nodiscard]] tl::unexpected<error> refuse(std::string const& why) const
  {
    return rows_.refuse(why);
  }

 private:
  [[nodiscard]] static std::array<std::string_view, N> names_of(
      std::array<integer_column, N> const& columns)
  {
    std::array<std::string_view, N> names;
    for (std::size_t column = 0; column < N; ++column) { names[column] = columns[column].name; }
    return names;
  }

  column_rows<N> rows_;
  std::array<integer_column, N> columns_;
};

}  // namespace ballast::inline v0::detail
