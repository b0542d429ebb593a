// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/excerpt.hpp>

#include "../support/test.hpp"

#include <nlohmann/json.hpp>

namespace {

using namespace ballast;

TEST(Excerpt, ShowsShortTextInQuotes)
{
  EXPECT_EQ(excerpt(""), "''");
  EXPECT_EQ(excerpt("abc"), "'abc'");
  EXPECT_EQ(excerpt(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
}

TEST(Excerpt, CutsLongText)  // Ensures (1)
{
  EXPECT_EQ(excerpt(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
}

TEST(Excerpt, CutsBetweenCharacters)  // Ensures (2)
{
  std::string const four_bytes = "\xf0\x9f\x98\x80";
  for (std::size_t before = 56; before <= 60; ++before) {
    std::string const text = std::string(before, 'x') + four_bytes + "y";
    std::string const shown = before == 56 ? text.substr(0, 60) : std::string(before, 'x');
    EXPECT_EQ(excerpt(text), "'" + shown + "...'") << before;
  }
}

TEST(Excerpt, ShowsControlCharactersAsSpaces)  // Ensures (3)
{
  EXPECT_EQ(excerpt("a\nb\tc\x7f"), "'a b c '");
}

std::string json(std::string_view text)
{
  std::string out;
  ballast::detail::append_json_string(out, text);
  return out;
}

// Oracle: decodes to a number first and asks about the number afterwards.
bool is_utf8(std::string const& text)
{
  for (std::size_t at = 0; at < text.size();) {
    auto const byte = [&](std::size_t index) -> unsigned {
      return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
    };
    std::size_t const size = byte(at) < 0x80             ? 1
                             : (byte(at) & 0xE0) == 0xC0 ? 2
                             : (byte(at) & 0xF0) == 0xE0 ? 3
                             : (byte(at) & 0xF8) == 0xF0 ? 4
                                                         : 0;
    if (size == 0) { return false; }
    unsigned code = size == 1 ? byte(at) : byte(at) & (0x7FU >> size);
    for (std::size_t more = 1; more < size; ++more) {
      if ((byte(at + more) & 0xC0) != 0x80) { return false; }
      code = code << 6 | (byte(at + more) & 0x3F);
    }
    std::vector<unsigned> const least = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[size] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      return false;
    }
    at += size;
  }
  return true;
}

// Bytes that meet the rules at their edges far more often than uniform ones do.
rc::Gen<std::string> hostile_text()
{
  return rc::gen::container<std::string>(rc::gen::map(
      rc::gen::element(0x00, 0x01, 0x09, 0x0A, 0x1F, 0x20, '"', '&', '\'', '<', '>', '\\', 'a',
                       0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
                       0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF),
      [](int byte) { return static_cast<char>(byte); }));
}

RC_GTEST_PROP(JsonString, IsReadBackByAParser, ())  // Ensures (1) (2)
{
  std::string const text = *hostile_text();
  std::string const written = json(text);
  std::string const read = nlohmann::json::parse(written).get<std::string>();  // throws if not JSON
  RC_ASSERT((read == text) == is_utf8(text));
}

TEST(InOneLine, ShowsControlCharactersAndBytesThatAreNoUtf8)
{
  using ballast::detail::in_one_line;
  EXPECT_EQ(in_one_line(""), "");
  EXPECT_EQ(in_one_line("\u00e4 \u20ac \U0001f600 \\"), "\u00e4 \u20ac \U0001f600 \\");
  EXPECT_EQ(in_one_line(std::string("\n\t\r\0\x1b\x7f", 6)), R"(\n\t\r\x00\x1b\x7f)");
  EXPECT_EQ(in_one_line("\xc2\x80\xc2\x9f\xc2\xa0"), "\\u0080\\u009f\xc2\xa0");
  EXPECT_EQ(in_one_line("\xff\xc3"), R"(\xff\xc3)");
}

RC_GTEST_PROP(InOneLine, IsUtf8WithoutControlCharacters, ())
{
  std::string const line = ballast::detail::in_one_line(*hostile_text());
  RC_ASSERT(is_utf8(line));
  for (char const byte : line) {
    RC_ASSERT(static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f);
  }
}

TEST(JsonString, EscapesQuotesAndControlCharacters)
{
  EXPECT_EQ(json("a \"b\" \\ \n\x1F"), R"("a \"b\" \\ \u000a\u001f")");
  EXPECT_EQ(json(""), R"("")");
}

}  // namespace
