// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

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

}  // namespace ballast::inline v0
