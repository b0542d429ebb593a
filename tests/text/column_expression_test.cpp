// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/column_expression.hpp>

#include "../support/test.hpp"

namespace {

using namespace ballast;
using testing::HasSubstr;

constexpr std::array<std::string_view, 5> header = {"text", "visual", "image tokens", "_x1",
                                                    "label"};
constexpr std::array<std::string_view, 5> example_row = {"7", "100", "-3", "0", "cat"};
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

std::int64_t value(std::string_view text)
{
  return parse_column_expression(text, header).value().evaluate({17, example_row}).value();
}

error parse_error(std::string_view text)
{
  auto const parsed = parse_column_expression(text, header);
  EXPECT_FALSE(parsed) << text;
  return parsed ? error{} : parsed.error();
}

error row_error(std::string_view text)
{
  auto const evaluated = parse_column_expression(text, header).value().evaluate({17, example_row});
  EXPECT_FALSE(evaluated) << text;
  return evaluated ? error{} : evaluated.error();
}

// A random expression together with its value, none where 64 bits are too few.
struct expression {
  std::string text;
  std::optional<std::int64_t> value;
};

expression random_expression(int depth, int binding = 0)
{
  __extension__ typedef __int128 wide;
  int const kind = depth == 0 ? *rc::gen::inRange(0, 2) : *rc::gen::inRange(0, 6);
  if (kind == 0) {
    auto const number = *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 10),
                                        rc::gen::inRange<std::int64_t>(0, largest));
    return {std::to_string(number), number};
  }
  if (kind == 1) {
    return *rc::gen::elementOf(std::vector<expression>{
        {"text", 7}, {"`visual`", 100}, {" `image tokens` ", -3}, {"_x1", 0}});
  }
  if (kind == 2) {
    expression const inner = random_expression(depth - 1);
    return {"(" + inner.text + ")", inner.value};
  }
  char const operation = "+-*"[kind - 3];
  int const own = operation == '*' ? 1 : 0;
  expression const left = random_expression(depth - 1, own);
  expression const right = random_expression(depth - 1, own + 1);  // operators bind to the left
  expression all{left.text + operation + right.text, std::nullopt};
  if (own < binding) { all.text = "(" + all.text + ")"; }
  if (left.value && right.value) {
    wide const a = *left.value;
    wide const b = *right.value;
    wide const exact = operation == '+' ? a + b : operation == '-' ? a - b : a * b;
    if (exact == static_cast<std::int64_t>(exact)) { all.value = static_cast<std::int64_t>(exact); }
  }
  return all;
}

RC_GTEST_PROP(ColumnExpression, HasTheValueOfItsTree, ())  // Ensures (1)
{
  expression const random = random_expression(4);
  auto const evaluated =
      parse_column_expression(random.text, header).value().evaluate({17, example_row});
  RC_ASSERT(evaluated.has_value() == random.value.has_value());
  if (random.value) { RC_ASSERT(*evaluated == *random.value); }
}

TEST(ColumnExpression, AddsMultipliesAndGroupsLikeArithmetic)
{
  EXPECT_EQ(value("text"), 7);
  EXPECT_EQ(value("text+visual"), 107);
  EXPECT_EQ(value("4*visual+8"), 408);
  EXPECT_EQ(value("8+4*visual"), 408);
  EXPECT_EQ(value("2*(text+visual)*3"), 642);
  EXPECT_EQ(value("10-2-3"), 5);
  EXPECT_EQ(value(" text\t*`image tokens` "), -21);
  EXPECT_EQ(value("9223372036854775807"), largest);
}

TEST(ColumnExpression, LooksOnlyAtItsOwnColumns)  // Ensures (2)
{
  EXPECT_EQ(value("text+_x1"), 7);  // label is no number
}

TEST(ColumnExpression, NamesTheLineAndTheColumnOfABadField)
{
  error const bad = row_error("text+label");
  EXPECT_EQ(bad.code, error_code::bad_row);
  EXPECT_EQ(bad.position, 17U);
  EXPECT_EQ(
      bad.message,
      "line 17: column 'label' holds 'cat', expected a whole number that fits 64 bits; fix the "
      "row or choose another column");

  auto const number = parse_column_expression("text", header).value();
  for (std::string_view const field :
       {"", " 1", "1 ", "+1", "1.0", "1e3", "0x1", "9223372036854775808", "--1"}) {
    std::array<std::string_view, 5> const fields = {field, "", "", "", ""};
    EXPECT_FALSE(number.evaluate({1, fields})) << field;
  }
}

TEST(ColumnExpression, RefusesToWrap)
{
  for (std::string_view const text :
       {"9223372036854775807+1", "0-9223372036854775807-2", "9223372036854775807*2",
        "`image tokens`*9223372036854775807"}) {
    error const bad = row_error(text);
    EXPECT_EQ(bad.code, error_code::bad_row);
    EXPECT_EQ(bad.message, "line 17: '" + std::string(text) +
                               "' does not fit 64 bits; fix the row or choose other columns");
  }
}

TEST(ColumnExpression, PointsAtTheByteThatBreaksTheGrammar)
{
  struct example {
    std::string_view text;
    std::size_t position;
    std::string_view hint;
  };
  for (auto const& [text, position, hint] : std::initializer_list<example>{
           {"", 0, "expected a column, a whole number or '('"},
           {"text+", 5, "expected a column"},
           {"text visual", 5, "expected '+', '-', '*' or the end"},
           {"4patches", 1, "expected '+'"},
           {"(text", 5, "or ')'"},
           {"text)", 4, "or the end"},
           {"-text", 0, "expected a column"},
           {"text/2", 4, "expected '+'"},
           {"2*`text", 2, "never closed"},
       }) {
    error const bad = parse_error(text);
    EXPECT_EQ(bad.code, error_code::syntax) << text;
    EXPECT_EQ(bad.position, position) << text;
    EXPECT_THAT(bad.message, HasSubstr("at offset " + std::to_string(position) + " of '"));
    EXPECT_THAT(bad.message, HasSubstr(std::string(hint)));
  }
  error const bad = parse_error("1+9223372036854775808");
  EXPECT_EQ(bad.code, error_code::out_of_range);
  EXPECT_EQ(bad.position, 2U);
}

TEST(ColumnExpression, ListsTheColumnsThereAre)
{
  error const bad = parse_error("text+image_tokens");
  EXPECT_EQ(bad.code, error_code::unknown_name);
  EXPECT_EQ(bad.position, 5U);
  EXPECT_EQ(
      bad.message,
      "at offset 5 of 'text+image_tokens': there is no column 'image_tokens'; there are 'text', "
      "'visual', 'image tokens', '_x1', 'label'");

  std::vector<std::string_view> const many(100, "same");
  EXPECT_THAT(parse_column_expression("x", many).error().message, HasSubstr("and 60 more"));
}

TEST(ColumnExpression, RefusesAColumnThatTheHeaderHasTwice)
{
  std::array<std::string_view, 3> const twice = {"a", "b", "a"};
  EXPECT_TRUE(parse_column_expression("b", twice));
  EXPECT_EQ(parse_column_expression("b+a", twice).error().position, 2U);
  EXPECT_THAT(parse_column_expression("a", twice).error().message, HasSubstr("two columns 'a'"));
}

TEST(ColumnExpression, SaysWhereBackticksAreMissing)
{
  std::array<std::string_view, 4> const names = {"gr\xc3\xb6ss", "x-y", "a b", "x"};
  for (std::string_view const text : {"gr\xc3\xb6ss", "1+x-y", "a b", "\xc3\xa4", "1*\"x\""}) {
    bool const is_difference = text == "1+x-y";  // of the column x, and of y, which is none
    auto const parsed = parse_column_expression(text, names);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, is_difference ? error_code::unknown_name : error_code::syntax);
    EXPECT_THAT(parsed.error().message,
                HasSubstr(is_difference ? "there is no column 'y'" : "between backticks"));
  }
  EXPECT_TRUE(parse_column_expression("`gr\xc3\xb6ss`+`x-y`-x", names));
}

TEST(ColumnExpression, TakesAPathAsAPlainName)
{
  std::array<std::string_view, 3> const names = {"meta.tokens", "meta", "_.x1"};
  std::array<std::string_view, 3> const row = {"1", "20", "300"};
  EXPECT_EQ(parse_column_expression("meta.tokens+2*meta+_.x1", names).value().evaluate({2, row}),
            341);
}

TEST(ColumnExpression, WritesABacktickInANameTwice)
{
  std::array<std::string_view, 4> const names = {"a`b", "`", "", "a"};
  std::array<std::string_view, 4> const row = {"1", "20", "300", "4000"};
  auto const sum = parse_column_expression("`a``b`+````+``", names);
  ASSERT_TRUE(sum) << sum.error().message;
  EXPECT_EQ(sum->evaluate({2, row}), 321);
  EXPECT_THAT(parse_column_expression("`a`b`", names).error().message,
              HasSubstr("written twice, as in `a``b`"));
  EXPECT_EQ(parse_column_expression("1+`a``b", names).error().position, 2U);
}

TEST(ColumnExpression, NestsThirtyTwoDeepAndNoDeeper)
{
  auto const nested = [](std::size_t depth) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) { text += "1+2*("; }
    return text + "1+2*3" + std::string(depth, ')');
  };
  std::int64_t expected = 7;
  for (int i = 0; i < 32; ++i) { expected = 1 + 2 * expected; }
  EXPECT_EQ(value(nested(32)), expected);
  EXPECT_EQ(parse_error(nested(33)).position, nested(33).find("1+2*3") - 1);
  EXPECT_EQ(parse_error(std::string(1'000'000, '(')).position, 32U);
}

TEST(ColumnExpressionDeathTest, RejectsARowWithoutItsColumn)
{
  auto const label = parse_column_expression("label", header).value();
  EXPECT_DEATH((void)label.evaluate({1, std::span(example_row).first(4)}),
               "reads column 4 of a row of 4 fields");
}

}  // namespace
