// SPDX-License-Identifier: Apache-2.0
#include "../../../examples/ballast/pages/escaped_text.hpp"  // first: proves it is self-contained

#include "markup.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace {

using pages::escaped_text;

TEST(EscapedText, IsReadBackByAParser)  // Ensures (1) (3)
{
  std::string const text =
      "<script>\"a\" & 'b'</script> tab\tline\nGr\u00FC\u00DFe \u4F60 \U0001F4CA \U0010FFFF";
  std::string const escaped = escaped_text(text);
  EXPECT_EQ(escaped.find_first_of("<>\"'"), std::string::npos);
  auto const read = markup::parse("<a b=\"" + escaped + "\">" + escaped + "</a>").front();
  EXPECT_EQ(read.text, text);
  EXPECT_EQ(read.attributes.at("b"), text);
}

TEST(EscapedText, ReplacesControlCharactersAndBrokenBytes)  // Ensures (2)
{
  EXPECT_EQ(escaped_text(std::string_view("a\0b", 3)), "a\uFFFDb");
  EXPECT_EQ(escaped_text("\x1B[31m\xC0\xAF"), "\uFFFD[31m\uFFFD\uFFFD");
  EXPECT_EQ(escaped_text("\xE4\xBD"), "\uFFFD\uFFFD") << "cut off";
}

}  // namespace
