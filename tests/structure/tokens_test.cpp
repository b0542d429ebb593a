// SPDX-License-Identifier: Apache-2.0
#include "tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace {

using structure::tokens_of;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string_view> texts_of(std::string_view code)
{
  std::vector<std::string_view> texts;
  for (structure::token const& each : tokens_of(code).all) { texts.push_back(each.text); }
  return texts;
}

TEST(Tokens, AreWordsNumbersQuotesAndSigns)
{
  EXPECT_THAT(texts_of("a->b::c<int>>=2'000.5e3;"),
              ElementsAre("a", "->", "b", "::", "c", "<", "int", ">", ">", "=", "2'000.5e3", ";"));
  EXPECT_THAT(
      texts_of("f(\"a \\\" b\", '\\'', R\"x(\")\")x\", 1_s)"),
      ElementsAre("f", "(", "\"a \\\" b\"", ",", "'\\''", ",", "R\"x(\")\")x\"", ",", "1_s", ")"));
}

TEST(Tokens, LeaveCommentsAndDirectivesOut)
{
  EXPECT_THAT(texts_of("// a\n/* b\n c */ d /* e */ f\n#define g \\\n  h\n  # if i\nj"),
              ElementsAre("d", "f", "j"));
  EXPECT_THAT(texts_of(""), IsEmpty());
}

TEST(Tokens, KnowTheirBracketsAndTheBlanksBeforeThem)
{
  auto const tokens = tokens_of("f(a, [b] {c});");
  EXPECT_EQ(tokens.partner[1], 10U);
  EXPECT_EQ(tokens.partner[10], 1U);
  EXPECT_EQ(tokens.behind(4), 7U);
  EXPECT_EQ(tokens.enclosing[8], 7U);
  EXPECT_EQ(tokens.enclosing[2], 1U);
  EXPECT_EQ(tokens.enclosing[0], tokens.none);
  EXPECT_FALSE(tokens.all[1].spaced);
  EXPECT_TRUE(tokens.all[7].spaced);
}

TEST(Tokens, EndTemplateArgumentsWhereTheyEnd)
{
  auto const tokens = tokens_of("a<b<(c > d)>, e> f");
  EXPECT_EQ(tokens.at(tokens.behind_angle(1)), "f");
}

}  // namespace
