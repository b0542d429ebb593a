// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_WORKLOAD_LENGTH_TRACE_HPP
#define BALLAST_WORKLOAD_LENGTH_TRACE_HPP

#include <ballast/core/result.hpp>
#include <ballast/core/units.hpp>
#include <ballast/workload/column_expression.hpp>
#include <ballast/workload/csv.hpp>
#include <ballast/workload/excerpt.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// All bytes of a file, or the reason as a part of a sentence.
[[nodiscard]] inline tl::expected<std::string, std::string> file_bytes(std::string const& path)
{
  struct closer {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
  };
  errno = 0;
  std::unique_ptr<std::FILE, closer> const file(std::fopen(path.c_str(), "rb"));
  if (!file) { return tl::unexpected(std::generic_category().message(errno)); }

  std::string bytes;
  std::array<char, 1 << 16> chunk;  // filled by fread before it is read
  while (std::size_t const read = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    bytes.append(chunk.data(), read);
  }
  // A directory opens as if it were a file and fails here.
  if (std::ferror(file.get()) != 0) {
    return tl::unexpected(std::generic_category().message(errno));
  }
  return bytes;
}

}  // namespace detail

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
    return fail(error_code::bad_row, line, "line " + std::to_string(line) + ": " + reason);
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

  std::vector<tokens> lengths;
  while (true) {
    auto const row = rows.next();
    if (!row) { return tl::unexpected(row.error()); }
    if (row->fields.empty()) { break; }
    if (row->fields.size() != columns) {
      return bad_row(row->line, "there are " + std::to_string(row->fields.size()) +
                                    " fields below a header of " + std::to_string(columns) +
                                    "; quote fields that hold commas, or remove the row");
    }
    auto const length = length_of->evaluate(*row);
    if (!length) { return tl::unexpected(length.error()); }
    if (*length < 0 || *length > longest_sample) {
      return bad_row(row->line, detail::excerpt(expression) + " is " + std::to_string(*length) +
                                    ", expected 0 to " + std::to_string(longest_sample) +
                                    " tokens; fix the row or choose other columns");
    }
    lengths.push_back(*length);
  }
  if (lengths.empty()) { return bad_row(header->line, "no row follows the header; add samples"); }
  return lengths;
}

/// Reads the file at `path`; as `read_length_trace`, with the path in front of every message.
///
/// Errors      also unreadable: the file cannot be opened or read, or it is a directory.
[[nodiscard]] inline result<std::vector<tokens>> load_length_trace(std::string const& path,
                                                                   std::string_view expression)
{
  auto const csv = detail::file_bytes(path);
  if (!csv) {
    return fail(error_code::unreadable, 0,
                path + ": " + csv.error() + "; name a CSV file that can be read");
  }
  auto lengths = read_length_trace(*csv, expression);
  if (!lengths) { lengths.error().message.insert(0, path + ": "); }
  return lengths;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_WORKLOAD_LENGTH_TRACE_HPP
