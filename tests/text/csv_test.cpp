// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/csv.hpp>

#include "../support/test.hpp"

namespace {

using namespace ballast;
using testing::ElementsAre;
using testing::HasSubstr;

struct table_row {
  std::size_t line = 0;
  std::vector<std::string> fields;

  friend bool operator==(table_row const&, table_row const&) = default;
};

struct table {
  std::vector<table_row> rows;
  std::size_t error_line = 0;  // 0: no error

  friend bool operator==(table const&, table const&) = default;
};

table read_table(std::string_view text)
{
  table all;
  csv_reader reader(text);
  while (true) {
    auto const row = reader.next();
    if (!row) {
      EXPECT_EQ(row.error().code, error_code::bad_row);
      all.error_line = row.error().position;
      EXPECT_TRUE(reader.next().value().fields.empty());
      return all;
    }
    if (row->fields.empty()) { return all; }
    all.rows.push_back({row->line, {row->fields.begin(), row->fields.end()}});
  }
}

std::vector<std::vector<std::string>> fields(std::string_view text)
{
  table const all = read_table(text);
  EXPECT_EQ(all.error_line, 0U) << text;
  std::vector<std::vector<std::string>> rows;
  for (table_row const& row : all.rows) { rows.push_back(row.fields); }
  return rows;
}

// Oracle: a state machine that looks at one character at a time and copies every one.
table read_slowly(std::string_view text)
{
  // Line ends outside quotes become LF and the end becomes an LF that was forgotten, if it was.
  enum class state { start, plain, quoted, closed };
  table all;
  table_row row{1, {""}};
  std::size_t line = 1;
  std::size_t quote_line = 0;
  state now = state::start;
  bool anything = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char const c = text[i];
    if (now == state::quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        row.fields.back() += text[++i];
      } else if (c == '"') {
        now = state::closed;
      } else {
        row.fields.back() += c;
        line += c == '\n';
      }
      continue;
    }
    bool const cr_of_line_end = c == '\r' && (i + 1 == text.size() || text[i + 1] == '\n');
    if (cr_of_line_end && i + 1 < text.size()) { continue; }
    if (c == '\n' || cr_of_line_end) {
      if (anything) { all.rows.push_back(row); }
      row = {++line, {""}};
      now = state::start;
      anything = false;
    } else if (c == ',') {
      row.fields.emplace_back();
      now = state::start;
      anything = true;
    } else if (now == state::closed) {
      all.error_line = quote_line;
      return all;
    } else if (c == '"' && now == state::start) {
      now = state::quoted;
      quote_line = line;
      anything = true;
    } else {
      row.fields.back() += c;
      now = state::plain;
      anything = true;
    }
  }
  if (now == state::quoted) {
    all.error_line = quote_line;
    return all;
  }
  if (anything) { all.rows.push_back(row); }
  return all;
}

RC_GTEST_PROP(CsvReader, AgreesWithReadingCharacterByCharacter, ())  // Ensures (1) (2)
{
  auto const text =
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("aab,,\"\"\"\n\n\r")));
  RC_ASSERT(read_table(text) == read_slowly(text));
}

TEST(CsvReader, ReadsQuotedFields)
{
  EXPECT_THAT(fields("\"a,b\",\"say \"\"hi\"\"\",\"two\r\nlines\"\n"),
              ElementsAre(ElementsAre("a,b", "say \"hi\"", "two\r\nlines")));
  EXPECT_THAT(fields("\"\"\n"), ElementsAre(ElementsAre("")));
  EXPECT_THAT(fields("\"\"\"\",\"\"\"\"\"\""), ElementsAre(ElementsAre("\"", "\"\"")));
  EXPECT_THAT(fields("5\" disk,b\"\"\n"), ElementsAre(ElementsAre("5\" disk", "b\"\"")));
}

TEST(CsvReader, SkipsTheByteOrderMarkAndEmptyLines)
{
  EXPECT_THAT(fields("\xef\xbb\xbf\"a\"\n\n\r\nb\n\n"),
              ElementsAre(ElementsAre("a"), ElementsAre("b")));
  EXPECT_THAT(fields(""), ElementsAre());
  EXPECT_THAT(fields("\n\r\n\n"), ElementsAre());
}

TEST(CsvReader, EndsInALineThatTheTextHas)
{
  EXPECT_EQ(csv_reader("").next().value().line, 1U);
  EXPECT_EQ(csv_reader("\r").next().value().line, 1U);
  EXPECT_EQ(csv_reader("\n\r\n").next().value().line, 3U);
  csv_reader cut_off("a\r\nb\r");
  for (int row = 0; row < 2; ++row) { EXPECT_FALSE(cut_off.next().value().fields.empty()); }
  EXPECT_EQ(cut_off.next().value().line, 2U);
}

TEST(CsvReader, KeepsAllFieldsOfARowValidTogether)
{
  std::string text;
  std::vector<std::string> expected;
  for (int field = 0; field < 100; ++field) {
    std::string const body(static_cast<std::size_t>(field), 'x');
    text += (field == 0 ? "\"" : ",\"") + body + "\"\"\"";
    expected.push_back(body + "\"");
  }
  EXPECT_THAT(fields(text), ElementsAre(expected));
}

TEST(CsvReader, NamesTheLineOfBadQuoting)  // Errors
{
  EXPECT_EQ(read_table("a\n\nb,\"c\nd\n").error_line, 3U);
  EXPECT_EQ(read_table("a\n\"b\nc\",\"d\"e\n").error_line, 3U);
  EXPECT_EQ(read_table("\"a\"\rb").error_line, 1U);

  csv_reader never_closed("a,\"b");
  EXPECT_THAT(never_closed.next().error().message, HasSubstr("line 1: the quote"));
  csv_reader goes_on("\"a\" ,b");
  EXPECT_THAT(goes_on.next().error().message, HasSubstr("goes on after its closing quote"));
}

TEST(CsvField, IsInQuotesWhereItNeedsThem)
{
  EXPECT_EQ(csv_field("8 x H100"), "8 x H100");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("d=64,layers=2"), "\"d=64,layers=2\"");
  EXPECT_EQ(csv_field("the \"large\" one"), "\"the \"\"large\"\" one\"");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
}

RC_GTEST_PROP(CsvField, IsReadBack, (std::string const& text))
{
  std::string const row = "first," + csv_field(text) + ",last\n";
  ballast::csv_reader reader(row);
  auto const fields = reader.next().value().fields;
  RC_ASSERT(fields.size() == 3U);
  RC_ASSERT(fields[1] == text);
  RC_ASSERT(fields[2] == "last");
}

}  // namespace
