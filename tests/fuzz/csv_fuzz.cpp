// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/csv.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using table = std::vector<std::vector<std::string>>;

void expect(bool holds)
{
  if (!holds) { std::abort(); }
}

table read(std::string_view text, bool& complete)
{
  auto const lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  table rows;
  ballast::csv_reader reader(text);
  std::size_t line = 0;
  while (true) {
    auto const row = reader.next();
    complete = row.has_value();
    if (!complete) {
      expect(row.error().position > line && row.error().position <= lines);
      return rows;
    }
    if (row->fields.empty()) { return rows; }
    expect(row->line > line && row->line <= lines);
    line = row->line;
    rows.emplace_back(row->fields.begin(), row->fields.end());
  }
}

std::string write(table const& rows)
{
  std::string text;
  for (auto const& row : rows) {
    for (std::size_t field = 0; field < row.size(); ++field) {
      text += field == 0 ? "\"" : ",\"";
      for (char const c : row[field]) { text.append(c == '"' ? 2 : 1, c); }
      text += '"';
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace

// Whatever rows a text holds, they are read back from what they are written as.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  bool complete = false;
  table const rows = read({reinterpret_cast<char const*>(data), size}, complete);
  expect(read(write(rows), complete) == rows);
  expect(complete);
  return 0;
}
