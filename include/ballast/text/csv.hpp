// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <system_error>

namespace ballast::inline v0 {

/// One record of a CSV text. A record has at least one field, so no fields means the end.
struct csv_row {
  std::size_t line = 0;  ///< where the record starts, counted from 1; at the end where one would
  std::span<std::string_view const> fields;
};

/// Reads comma-separated values record by record from a text in memory.
///
/// In, out     the text must outlive the reader; a row's fields are valid until the next call.
/// Ensures     (1) rows and fields are those of RFC 4180: a field in quotes may hold commas, line
///                 ends and quotes written twice; every other field is taken byte for byte
///             (2) beyond the RFC: lines end in LF or CRLF, the last one needs neither; a UTF-8
///                 byte order mark in front is skipped; empty lines are not rows; a
///                 quote inside a field that does not start with one is an ordinary character
///             (3) once a row has been read, rows with no more fields and no more bytes in quotes
///                 allocate nothing
/// Errors      bad_row with the line of the opening quote: it is never closed, or anything but a
///             comma or a line end follows the closing one. The reader is then at its end.
/// Complexity  O(bytes), each looked at once, bytes of fields with doubled quotes twice.
/// Source      Y. Shafranovich, "Common Format and MIME Type for CSV Files", RFC 4180, 2005.
class csv_reader {
 public:
  explicit csv_reader(std::string_view text) noexcept : text_(text)
  {
    if (text_.starts_with("\xef\xbb\xbf")) { at_ = 3; }
  }

  /// The next row, without fields when there is none left.
  [[nodiscard]] result<csv_row> next()
  {
    fields_.clear();
    with_doubled_quotes_.clear();
    while (skip_line_end()) {}
    std::size_t const line = line_;
    if (at_ == text_.size()) { return csv_row{line, {}}; }

    while (true) {
      if (at_ < text_.size() && text_[at_] == '"') {
        std::size_t const quote_line = line_;
        if (char const* const trouble = take_quoted_field()) {
          at_ = text_.size();
          return fail(error_code::bad_row, quote_line, "line ", quote_line, ": ", trouble);
        }
      } else {
        take_plain_field();
      }
      if (at_ == text_.size() || text_[at_] != ',') { break; }
      ++at_;
    }
    skip_line_end();
    undouble_quotes();
    return csv_row{line, detail::span_of(fields_)};
  }

 private:
  /// The bytes of the line end at `at`: 0 where there is none. A CR ends a line before LF only, or
  /// as the last byte, where the LF was cut off.
  [[nodiscard]] std::size_t line_end_bytes(std::size_t at) const noexcept
  {
    std::size_t const left = text_.size() - at;
    if (left >= 1 && text_[at] == '\n') { return 1; }
    if (left == 1 && text_[at] == '\r') { return 1; }
    return left >= 2 && text_[at] == '\r' && text_[at + 1] == '\n' ? 2 : 0;
  }

  bool skip_line_end() noexcept
  {
    std::size_t const bytes = line_end_bytes(at_);
    at_ += bytes;
    if (bytes == 0) { return false; }
    line_ += text_[at_ - 1] == '\n';  // a CR whose LF was cut off starts no line
    return true;
  }

  void take_plain_field()
  {
    std::size_t const first = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') { ++at_; }
    bool const ends_line = at_ == text_.size() || text_[at_] == '\n';
    if (ends_line && at_ > first && text_[at_ - 1] == '\r') { --at_; }
    fields_.push_back(text_.substr(first, at_ - first));
  }

  /// Null, or what is wrong with the field.
  [[nodiscard]] char const* take_quoted_field()
  {
    std::size_t const first = ++at_;
    bool doubled = false;
    while (true) {
      std::size_t const quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        return "the quote that opens this field is never closed; close it or remove it";
      }
      line_ += static_cast<std::size_t>(std::count(text_.data() + at_, text_.data() + quote, '\n'));
      at_ = quote + 1;
      if (at_ == text_.size() || text_[at_] != '"') { break; }
      ++at_;
      doubled = true;
    }
    if (at_ != text_.size() && text_[at_] != ',' && line_end_bytes(at_) == 0) {
      return "a quoted field goes on after its closing quote; write a quote inside it twice";
    }
    if (doubled) { with_doubled_quotes_.push_back(fields_.size()); }
    fields_.push_back(text_.substr(first, at_ - 1 - first));
    return nullptr;
  }

  // Only at the end of a row is it known how much room its fields need, and they must not move.
  void undouble_quotes()
  {
    if (with_doubled_quotes_.empty()) { return; }
    std::size_t bytes = 0;
    for (std::size_t const field : with_doubled_quotes_) { bytes += fields_[field].size(); }
    if (undoubled_.size() < bytes) { undoubled_.resize(bytes); }

    char* to = undoubled_.data();
    for (std::size_t const field : with_doubled_quotes_) {
      char const* const first = to;
      std::string_view const from = fields_[field];
      for (std::size_t i = 0; i < from.size(); ++i) {
        *to++ = from[i];
        if (from[i] == '"') { ++i; }
      }
      fields_[field] = {first, static_cast<std::size_t>(to - first)};
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::vector<std::string_view> fields_;
  std::vector<std::size_t> with_doubled_quotes_;
  std::string undoubled_;
};

/// Text as a field of a CSV file, in quotes where it needs them: `csv_reader` reads the same back.
///
/// Complexity  O(bytes).
[[nodiscard]] inline std::string csv_field(std::string_view text)
{
  if (text.find_first_of("\",\n\r") == std::string_view::npos) { return std::string(text); }
  std::string field = "\"";
  for (char const byte : text) { field.append(byte == '"' ? 2 : 1, byte); }
  return field += '"';
}

namespace detail {

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

}  // namespace detail

}  // namespace ballast::inline v0
