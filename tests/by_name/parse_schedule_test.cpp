#include <ballast/by_name/parse_schedule.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace {

using ballast::any_schedule;
using ballast::error_code;
using ballast::parse_schedule;
using interleaved = ballast::interleaved_one_forward_one_backward;
using testing::HasSubstr;

void expect_parsed(std::string_view text, any_schedule const& schedule)
{
  auto const parsed = parse_schedule(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, schedule) << text;
}

TEST(ParseSchedule, KnowsEveryScheduleByItsName)
{
  expect_parsed("gpipe", {ballast::gpipe{}});
  expect_parsed("1f1b", {ballast::one_forward_one_backward{}});
  expect_parsed("interleaved:v=2", {interleaved{}, 2});
  expect_parsed("interleaved:v=1", {interleaved{}, 1});
  expect_parsed("interleaved(v=65536)", {interleaved{}, 65'536});
}

void expect_refused(std::string_view text, error_code code, std::size_t position, char const* why)
{
  auto const schedule = parse_schedule(text);
  ASSERT_FALSE(schedule) << text;
  EXPECT_EQ(schedule.error().code, code) << schedule.error().message;
  EXPECT_EQ(schedule.error().position, position) << schedule.error().message;
  EXPECT_THAT(schedule.error().message, HasSubstr(why));
  EXPECT_EQ(schedule.error().message.find('\n'), std::string::npos);
}

TEST(ParseSchedule, SaysWhatIsWrongAndWhere)
{
  expect_refused(
      "zigzag", error_code::unknown_name, 0,
      "at offset 0 of 'zigzag': there is no schedule 'zigzag'; choose one of gpipe, 1f1b, "
      "interleaved:v=N");
  expect_refused("", error_code::unknown_name, 0, "there is no schedule ''");
  expect_refused("1F1B", error_code::unknown_name, 0, "there is no schedule '1F1B'");
  expect_refused("gpipe 2", error_code::unknown_name, 0, "there is no schedule 'gpipe 2'");
  expect_refused("interleaved:v=2)", error_code::syntax, 15, "never opened");
  expect_refused("gpipe:v=2", error_code::unknown_name, 6,
                 "'v' is no parameter of gpipe, which takes nothing");
  expect_refused(
      "interleaved", error_code::syntax, 11,
      "at offset 11 of 'interleaved': interleaved takes the number of stages per rank, as in "
      "interleaved:v=2");
  expect_refused("interleaved:", error_code::syntax, 12, "expected the name");
  expect_refused("interleaved:w=2", error_code::unknown_name, 12,
                 "'w' is no parameter of interleaved, which takes v=N");
  expect_refused("interleaved:v=0", error_code::out_of_range, 12,
                 "v is '0'; give a whole number from 1 to 65536");
  expect_refused("interleaved:v=65537", error_code::out_of_range, 12, "v is '65537'");
  expect_refused("interleaved:v=two", error_code::out_of_range, 12, "v is 'two'");
  expect_refused("interleaved:v=2,v=3", error_code::syntax, 16, "'v' is given twice");
  expect_refused("interleaved:gpipe", error_code::unknown_name, 12,
                 "'gpipe' has no place in interleaved");
}

TEST(ParseSchedule, ListsNamesThatItKnows)
{
  std::string const names = ballast::schedule_names();
  for (auto const& each : ballast::detail::named_schedules) {
    EXPECT_THAT(names, HasSubstr(std::string(each.name)));
    std::string const usual = std::string(each.name).append(each.arguments.empty() ? "" : ":v=2");
    EXPECT_TRUE(parse_schedule(usual)) << usual;
  }
}

}  // namespace
