// SPDX-License-Identifier: Apache-2.0
#include "../../examples/ballast/shown_text.hpp"  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace {

using cli::shown_text;
using std::string_view_literals::operator""sv;

TEST(ShownText, StaysInItsLine)  // Ensures (1)
{
  EXPECT_EQ(shown_text("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(shown_text("\x1b[2J\x07\x7f\0"sv), "\\x1b[2J\\x07\\x7f\\x00");
  EXPECT_EQ(shown_text("\u0085\u009b"), "\\u0085\\u009b");
  EXPECT_EQ(shown_text("\u2028\u2029"), "\\u2028\\u2029");
  EXPECT_EQ(shown_text("\u061c\u200e\u200f\u202a\u202e\u2066\u2069"),
            "\\u061c\\u200e\\u200f\\u202a\\u202e\\u2066\\u2069");
}

TEST(ShownText, IsUtf8)  // Ensures (1)
{
  EXPECT_EQ(shown_text("\xff\x80\xc3"), "\\xff\\x80\\xc3");
  EXPECT_EQ(shown_text("\xc0\x8a\xe0\x80\x8a"), "\\xc0\\x8a\\xe0\\x80\\x8a");  // overlong
  EXPECT_EQ(shown_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");                    // half a pair
  EXPECT_EQ(shown_text("\xf4\x90\x80\x80\xf5"), "\\xf4\\x90\\x80\\x80\\xf5");  // past the last
}

TEST(ShownText, LeavesWhatIsHarmless)  // Ensures (2)
{
  for (std::string_view const text :
       {""sv, " ~!\\n\\x1b"sv, "größe 日本 🚂"sv, "\u00a0\u200d\u202f"sv,
        "\u07ff\u0800\uffff\U00010000\U0010ffff"sv}) {
    EXPECT_EQ(shown_text(text), text);
  }
}

}  // namespace
