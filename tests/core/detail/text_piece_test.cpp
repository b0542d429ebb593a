// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/text_piece.hpp>

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace {

using ballast::detail::text_piece;

std::string written(text_piece piece)
{
  text_piece::digits room;
  auto const characters = piece.read(room);
  return {characters.first, characters.count};
}

TEST(TextPiece, IsATextOrAnIdentifier)
{
  std::string const name = "vision encoder";
  EXPECT_EQ(written("to"), "to");
  EXPECT_EQ(written(name), name);
  EXPECT_EQ(written(std::string_view(name).substr(0, 6)), "vision");
  EXPECT_EQ(written(ballast::bag_id{7}), "7");
}

TEST(TextPiece, RefersToItsText)
{
  std::string const name = "vision encoder";
  text_piece::digits room;
  EXPECT_EQ(text_piece(name).read(room).first, name.data());
}

TEST(TextPiece, IsTheLeastOrTheMostOfANumber)
{
  EXPECT_EQ(written(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(written(std::numeric_limits<std::int64_t>::max()), "9223372036854775807");
  EXPECT_EQ(written(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(written(short{-1}), "-1");
  EXPECT_EQ(written(std::uint8_t{255}), "255");
}

TEST(TextPiece, IsAFractionInAFewDigits)
{
  EXPECT_EQ(written(std::numeric_limits<double>::lowest()), "-1.79769e+308");
  EXPECT_EQ(written(0.5F), "0.5");
}

TEST(TextPiece, KeepsZeroBytesOfATextWithALength)
{
  std::string const text("a\0b", 3);
  EXPECT_EQ(written(text), text);
  EXPECT_EQ(written("a\0b"), "a");
}

}  // namespace
