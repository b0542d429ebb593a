// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/concat.hpp>

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
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

TEST(Concat, JoinsTextsOfAnyLength)
{
  EXPECT_EQ(concat(), "");
  EXPECT_EQ(concat("", std::string(), std::string_view()), "");
  std::string const text(100'000, 'x');
  EXPECT_EQ(concat(text, 1, text), text + "1" + text);
  std::string const zero("a\0b", 3);
  EXPECT_EQ(concat(zero, "a\0b"), zero + "a");  // a literal ends at its first zero byte
}

TEST(Concat, WritesTheLeastAndTheMostOfANumber)
{
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(concat(short{-1}, " ", std::uint8_t{255}), "-1 255");
  EXPECT_EQ(concat(std::numeric_limits<double>::lowest(), " ", 0.5F), "-1.79769e+308 0.5");
}

}  // namespace
