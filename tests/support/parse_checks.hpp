// SPDX-License-Identifier: Apache-2.0
#include "test.hpp"
#pragma once

namespace ballast_test {

/// The text is read as what was expected.
template <class Parse, class Value>
void expect_parsed(Parse const& parse, std::string_view text, Value const& expected)
{
  ballast::result<Value> const parsed = parse(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, expected) << text;
}

/// The text is refused with one line that says what is wrong and where.
template <class Parse>
void expect_refused(Parse const& parse, std::string_view text, ballast::error_code code,
                    std::size_t position, char const* why)
{
  auto const parsed = parse(text);
  ASSERT_FALSE(parsed) << text;
  EXPECT_EQ(parsed.error().code, code) << parsed.error().message;
  EXPECT_EQ(parsed.error().position, position) << parsed.error().message;
  EXPECT_THAT(parsed.error().message, testing::HasSubstr(why));
  EXPECT_EQ(parsed.error().message.find('\n'), std::string_view::npos);
}

}  // namespace ballast_test
