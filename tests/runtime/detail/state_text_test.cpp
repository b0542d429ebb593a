#include <ballast/runtime/detail/state_text.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace {

using ballast::detail::state_reader;
using ballast::detail::state_writer;
using testing::HasSubstr;

constexpr auto lowest_number = std::numeric_limits<std::int64_t>::min();
constexpr auto highest_number = std::numeric_limits<std::int64_t>::max();

TEST(StateText, IsReadAsItWasWritten)
{
  state_writer out("thing 1");
  out.line("numbers").number(lowest_number).number(0).number(highest_number);
  out.line("none");
  EXPECT_EQ(out.text(), "thing 1\nnumbers -9223372036854775808 0 9223372036854775807\nnone\n");
  std::string const text = out.text();
  state_reader in(text);
  in.expect("thing 1 numbers");
  EXPECT_EQ(in.number(lowest_number, highest_number), lowest_number);
  EXPECT_EQ(in.number(0, 9), 0);
  EXPECT_EQ(in.number(0, highest_number), highest_number);
  in.expect("none");
  EXPECT_FALSE(in.failed());
  EXPECT_TRUE(in.finish());
}

TEST(StateText, NamesTheFirstThingThatIsWrong)
{
  auto const message = [](std::string const& text) {
    state_reader in(text);
    in.expect("thing 1");
    static_cast<void>(in.number(3, 5));
    in.expect("end");
    auto const done = in.finish();
    return done ? "" : done.error().message;
  };
  EXPECT_EQ(message("thing 1 4 end"), "");
  EXPECT_THAT(message("thing 2 4 end"), HasSubstr("'2' at byte 6 and should have '1'"));
  EXPECT_THAT(message("thing 1 6 end"), HasSubstr("'6' at byte 8 and should have a number from 3"));
  EXPECT_THAT(message("thing 1 4x end"), HasSubstr("'4x' at byte 8"));
  EXPECT_THAT(message("thing 1 4"), HasSubstr("'' at byte 9 and should have 'end'"));
  EXPECT_THAT(message("thing 1 4 end 5"), HasSubstr("'5' at byte 14 and should have the end"));
  EXPECT_THAT(message(""), HasSubstr("'' at byte 0 and should have 'thing'"));
}

}  // namespace
