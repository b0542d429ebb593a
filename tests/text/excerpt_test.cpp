// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/excerpt.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <string>

namespace {

using ballast::excerpt;

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

}  // namespace
