// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/detail/text_error.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <string>

namespace {

using ballast::error_code;
using ballast::detail::text_error;

TEST(TextError, SaysWhereInOneLine)
{
  ballast::error const wrong = text_error(error_code::syntax, "a +\n", 5, "expected a column");
  EXPECT_EQ(wrong.code, error_code::syntax);
  EXPECT_EQ(wrong.position, 5U);
  EXPECT_EQ(wrong.message, "at offset 5 of 'a + ': expected a column");
  std::string const shown = text_error(error_code::syntax, std::string(1000, 'a'), 999, "").message;
  EXPECT_LT(shown.size(), 100U);
}

}  // namespace
