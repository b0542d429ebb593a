// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test.hpp"

namespace ballast_test {

/// That a call was refused, and with this code, position and part of a sentence.
template <class Result>
void expect_refused(Result const& made, ballast::error_code code, std::size_t position,
                    std::string const& sentence = "")
{
  SCOPED_TRACE(testing::Message() << "position " << position << ' ' << sentence);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, code);
  EXPECT_EQ(made.error().position, position);
  EXPECT_THAT(made.error().message, testing::HasSubstr(sentence));
}

}  // namespace ballast_test
