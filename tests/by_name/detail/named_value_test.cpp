// SPDX-License-Identifier: Apache-2.0
#include <ballast/by_name/detail/named_value.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/text/detail/settings_reader.hpp>

#include <array>

namespace {

using ballast::error_code;
using ballast::detail::find_named;
using ballast::detail::list_names;
using ballast::detail::parse_policy_expression;
using ballast::detail::read_named;
using ballast::detail::settings_reader;

using named_number = ballast::detail::named_value<int, settings_reader>;

constexpr std::array numbers = {
    named_number{"one", "", "", [](settings_reader&) { return 1; }},
    named_number{"fortytwo", "ft", "", [](settings_reader&) { return 42; }},
    named_number{"any", "", "n=N",
                 [](settings_reader& read) {
                   int number = 7;
                   read.number("n", number);
                   return number;
                 }},
};

auto read(char const* text)
{
  return read_named(numbers, parse_policy_expression(text).value(), "number");
}

TEST(NamedValue, IsFoundByItsNames)
{
  EXPECT_EQ(find_named(numbers, "one"), &numbers[0]);
  EXPECT_EQ(find_named(numbers, "ft"), find_named(numbers, "fortytwo"));
  EXPECT_EQ(find_named(numbers, ""), nullptr);
  EXPECT_EQ(find_named(numbers, "On"), nullptr);
  EXPECT_EQ(list_names(numbers), "one, fortytwo (ft), any:n=N");
}

TEST(NamedValue, IsReadWithItsSettings)
{
  EXPECT_EQ(read("ft"), 42);
  EXPECT_EQ(read("any"), 7);
  EXPECT_EQ(read("any:n=9"), 9);
}

TEST(NamedValue, IsRefusedWhereTheTableDoesNotHaveIt)
{
  auto const unknown = read("(two)");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, error_code::unknown_name);
  EXPECT_EQ(unknown.error().position, 1U);
  EXPECT_EQ(unknown.error().message,
            "at offset 1 of '(two)': there is no number 'two'; choose one of one, fortytwo (ft), "
            "any:n=N");
  EXPECT_EQ(read("ft:n=9").error().message,
            "at offset 3 of 'ft:n=9': 'n' is no parameter of ft, which takes nothing");
}

}  // namespace
