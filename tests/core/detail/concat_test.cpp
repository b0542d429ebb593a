// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/concat.hpp>

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace {

using ballast::detail::concat;

TEST(Concat, JoinsTextsNumbersAndIdentifiers)
{
  std::string const name = "vision encoder";
  std::string_view const part = std::string_view(name).substr(0, 6);
  EXPECT_EQ(concat("bag ", ballast::bag_id{7}, " of ", std::size_t{64}, " lies in ", name, ", ",
                   part, ", from ", -3),
            "bag 7 of 64 lies in vision encoder, vision, from -3");
}

TEST(Concat, IsEmptyWithoutTexts)
{
  EXPECT_EQ(concat(), "");
  EXPECT_EQ(concat("", std::string(), std::string_view()), "");
}

TEST(Concat, JoinsTextsOfAnyLength)
{
  std::string const text(100'000, 'x');
  EXPECT_EQ(concat(text, 1, text), text + "1" + text);
}

}  // namespace
