// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include "out_of_memory.hpp"

#include <ballast/core.hpp>
#include <ballast/text/column_expression.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/workload/length_trace.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

namespace cli {
namespace {

using nlohmann::ordered_json;

/// JSON lines as a CSV text, line by line. Columns are those of all objects, in the order in which
/// they come, so that where later ones have more, the lines are read once more.
class json_lines {
 public:
  explicit json_lines(std::string_view text) : text_(text) {}

  /// Nothing, or what is wrong.
  [[nodiscard]] std::string read()
  {
    for (std::size_t known = 0; known == 0 || known != names_.size();) {
      known = names_.size();
      rows_.clear();
      std::size_t line = 0;
      for (std::size_t at = text_.starts_with("\xef\xbb\xbf") ? 3 : 0; at < text_.size();) {
        std::size_t const end = std::min(text_.find('\n', at), text_.size());
        if (auto const why = read_line(text_.substr(at, end - at)); !why.empty()) {
          return fmt::format("line {}: {}", line + 1, why);
        }
        if (known == 0) { known = names_.size(); }
        ++line;
        at = end + 1;
      }
      if (names_.empty()) { return "there is no object; write one on each line"; }
    }
    return {};
  }

  [[nodiscard]] std::string csv() const
  {
    std::string header;
    for (std::string const& name : names_) {
      (header += header.empty() ? "" : ",") += ballast::csv_field(name);
    }
    return header + "\n" + rows_;
  }

 private:
  [[nodiscard]] std::string read_line(std::string_view line)
  {
    if (line.find_first_not_of(" \t\r") == line.npos) {
      rows_ += '\n';
      return {};
    }
    auto const object = ordered_json::parse(line, nullptr, false);
    if (!object.is_object()) { return "this is no JSON object; write one on each line"; }
    fields_.assign(names_.size(), std::string(absent));
    if (auto const twice = add(object, ""); !twice.empty()) {
      return fmt::format("two values are named {}; rename one", ballast::excerpt(twice));
    }
    for (std::size_t at = 0; at < fields_.size(); ++at) {
      (rows_ += at == 0 ? "" : ",") += ballast::csv_field(fields_[at]);
    }
    rows_ += '\n';
    return {};
  }

  /// Nothing, or a name that two values have.
  [[nodiscard]] std::string add(ordered_json const& object, std::string const& before)
  {
    for (auto const& [key, value] : object.items()) {
      std::string const name = before + key;
      if (value.is_object()) {
        if (auto twice = add(value, name + "."); !twice.empty()) { return twice; }
        continue;
      }
      auto const [known, is_new] = column_of_.emplace(name, names_.size());
      if (is_new) {
        names_.push_back(name);
        fields_.emplace_back(absent);
      }
      std::string& field = fields_[known->second];
      if (field != absent) { return name; }
      field = value.is_array()                           ? "(an array)"
              : value.is_string() && is_long_text(value) ? "(a long text)"
                                                         : value.dump();
    }
    return {};
  }

  /// What a document says: no length and no name, and much to keep.
  [[nodiscard]] static bool is_long_text(ordered_json const& value)
  {
    return value.get_ref<std::string const&>().size() > 1000;
  }

  static constexpr std::string_view absent = "(no such key)";

  std::string_view text_;
  std::string rows_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t> column_of_;
  std::vector<std::string> fields_;
};

/// The column that --together, --kind or another option names.
outcome<std::size_t> column_named(table const& read, std::string_view option,
                                  std::string const& column,
                                  std::span<std::string_view const> columns)
{
  std::string const name = ballast::excerpt(column);
  auto const found = std::ranges::count(columns, column);
  if (found > 1) {
    return bad_data(fmt::format("{}: {} has {} columns {}; rename all but one of them", option,
                                read.path, found, name));
  }
  if (found == 0) {
    constexpr std::size_t most_listed = 40;
    auto const listed = columns.first(std::min(columns.size(), most_listed));
    return usage(fmt::format("{}: {} has no column {}; name one of {}{}", option, read.path, name,
                             fmt::join(listed, ", "), columns.size() > most_listed ? ", ..." : ""));
  }
  return static_cast<std::size_t>(std::ranges::find(columns, column) - columns.begin());
}

/// The columns that an option names: one, or several with commas in between.
std::vector<std::string> names_in(std::string const& named,
                                  std::span<std::string_view const> columns)
{
  if (std::ranges::find(columns, named) != columns.end()) { return {named}; }
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= named.size();) {
    std::size_t const comma = std::min(named.find(',', at), named.size());
    names.push_back(named.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

/// Visits the fields of some columns, row by row.
template <class Visit>
outcome<void> for_each_row(table const& read, std::string_view option,
                           std::vector<std::string> const& names, Visit const& visit)
{
  ballast::csv_reader rows(read.csv);
  auto const header = rows.next();
  std::vector<std::size_t> columns;
  for (std::string const& name : names) {
    auto const column = column_named(read, option, name, header->fields);
    if (!column) { return tl::unexpected(column.error()); }
    columns.push_back(*column);
  }
  std::vector<std::string_view> fields(columns.size());
  while (true) {
    auto const row = rows.next();
    if (!row || row->fields.empty()) { return {}; }
    for (std::size_t at = 0; at < columns.size(); ++at) {
      fields[at] = row->fields[columns[at]];
      if (read.is_json && fields[at].starts_with('(')) {
        return bad_data(fmt::format("{}: line {}: {} is {}, and {} needs a number or a text",
                                    read.path, row->line - 1, ballast::excerpt(names[at]),
                                    fields[at], option));
      }
    }
    visit(fields);
  }
}

}  // namespace

outcome<table> read_table(std::string const& path)
{
  auto text = read_text(path);
  if (!text) { return tl::unexpected(text.error()); }
  return read_in_memory(path, [&]() -> outcome<table> {
    std::size_t const first = text->find_first_not_of(" \t\r\n");
    bool const is_json = path.ends_with(".jsonl") || (first != text->npos && (*text)[first] == '{');
    if (!is_json) { return table{path, std::move(*text), false}; }
    json_lines lines(*text);
    if (auto const why = lines.read(); !why.empty()) {
      return bad_data(fmt::format("{}: {}", path, why));
    }
    return table{path, lines.csv(), true};
  });
}

std::string told(table const& read, ballast::error const& why)
{
  std::string const line = fmt::format("line {}: ", why.position);
  if (!read.is_json || why.code != ballast::error_code::bad_row || !why.message.starts_with(line)) {
    return fmt::format("{}: {}", read.path, why.message);
  }
  // The header is a line more.
  return fmt::format("{}: line {}: {}", read.path, why.position - 1,
                     why.message.substr(line.size()));
}

outcome<std::vector<ballast::tokens>> read_lengths(table const& read, std::string const& expression,
                                                   std::string_view option)
{
  return read_in_memory(read.path, [&]() -> outcome<std::vector<ballast::tokens>> {
    auto lengths = ballast::read_length_trace(read.csv, expression);
    if (lengths) { return std::move(*lengths); }
    using ballast::error_code;
    ballast::error& why = lengths.error();
    why.message = told(read, why);
    bool const wrong_expression =
        why.code == error_code::syntax || why.code == error_code::out_of_range;
    return wrong_expression ? usage(option, why) : bad_data(why.message);
  });
}

outcome<std::vector<std::int64_t>> read_column(table const& read, std::string const& expression,
                                               std::string_view option)
{
  return read_in_memory(read.path, [&]() -> outcome<std::vector<std::int64_t>> {
    ballast::csv_reader rows(read.csv);
    auto const header = rows.next();
    if (!header) { return bad_data(told(read, header.error())); }
    std::size_t const columns = header->fields.size();
    auto const value_of = ballast::parse_column_expression(expression, header->fields);
    if (!value_of) { return usage(option, value_of.error()); }
    std::vector<std::int64_t> numbers;
    while (true) {
      auto const row = rows.next();
      if (!row) { return bad_data(told(read, row.error())); }
      if (row->fields.empty()) { break; }
      if (row->fields.size() != columns) {
        return bad_data(
            fmt::format("{}: line {}: the number of fields is {}, but the header has {}", read.path,
                        row->line, row->fields.size(), columns));
      }
      auto const value = value_of->evaluate(*row);
      if (!value) { return bad_data(told(read, value.error())); }
      numbers.push_back(*value);
    }
    if (numbers.empty()) { return bad_data(read.path + ": there are no rows; add some"); }
    return numbers;
  });
}

outcome<std::vector<std::int64_t>> numbers_of_column(table const& read, std::string_view option,
                                                     std::string const& named, empty_fields empty)
{
  return read_in_memory(read.path, [&]() -> outcome<std::vector<std::int64_t>> {
    std::vector<std::int64_t> numbers;
    if (named.empty()) { return numbers; }
    ballast::csv_reader rows(read.csv);
    auto const header = rows.next();
    std::map<std::string, std::int64_t, std::less<>> number_of;
    auto const done = for_each_row(
        read, option, names_in(named, header->fields), [&](std::span<std::string_view const> row) {
          auto const next = static_cast<std::int64_t>(numbers.size());
          std::string key;
          bool is_empty = true;
          for (std::string_view const field : row) {
            key += ballast::csv_field(field) + ',';
            is_empty = is_empty && (field.empty() || field == "null");
          }
          numbers.push_back(is_empty && empty == empty_fields::differ
                                ? next
                                : number_of.emplace(std::move(key), next).first->second);
        });
    if (!done) { return tl::unexpected(done.error()); }
    return numbers;
  });
}

std::string row_ids::field(std::size_t row) const
{
  return of_row.empty() ? "" : "," + ballast::csv_field(of_row[row]);
}

ordered_json row_ids::json(std::size_t row) const
{
  return are_numbers ? ordered_json::parse(of_row[row]) : ordered_json(of_row[row]);
}

outcome<row_ids> read_ids(table const& read, std::string const& column)
{
  return read_in_memory(read.path, [&]() -> outcome<row_ids> {
    row_ids ids;
    if (column.empty()) { return ids; }
    auto const done =
        for_each_row(read, "--id", {column}, [&](std::span<std::string_view const> row) {
          bool const is_text = read.is_json && row[0].starts_with('"');
          ids.of_row.push_back(is_text ? ordered_json::parse(row[0]).get<std::string>()
                                       : std::string(row[0]));
          ids.are_numbers = ids.are_numbers && !is_text &&
                            ordered_json::parse(row[0], nullptr, false).is_number();
        });
    if (!done) { return tl::unexpected(done.error()); }
    return ids;
  });
}

}  // namespace cli
