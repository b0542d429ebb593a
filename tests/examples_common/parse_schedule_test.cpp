// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/by_name/parse_schedule.hpp"  // first: proves it is self-contained

#include "../../examples/common/by_name/any_schedule.hpp"
#include "../support/parse_checks.hpp"
#include "../support/test.hpp"

namespace {

using ballast::chain_of_stages;
using ballast::error_code;
using ballast_test::expect_parsed;
using by_name::any_schedule;
using by_name::parse_schedule;
using interleaved = ballast::interleaved_one_forward_one_backward;
using testing::HasSubstr;

void expect_no_schedule(std::string_view text, error_code code, std::size_t position,
                        char const* why)
{
  ballast_test::expect_refused(parse_schedule, text, code, position, why);
}

TEST(ParseSchedule, KnowsEveryScheduleByItsName)
{
  expect_parsed(parse_schedule, "gpipe", any_schedule{ballast::gpipe{}});
  expect_parsed(parse_schedule, "1f1b", any_schedule{ballast::one_forward_one_backward{}});
  expect_parsed(parse_schedule, "interleaved:v=2", any_schedule{interleaved{}, 2});
  expect_parsed(parse_schedule, "interleaved:v=1", any_schedule{interleaved{}, 1});
  expect_parsed(parse_schedule, "interleaved(v=65536)", any_schedule{interleaved{}, 65'536});
}

TEST(ParseSchedule, SaysWhatIsWrongAndWhere)
{
  expect_no_schedule(
      "zigzag", error_code::unknown_name, 0,
      "at offset 0 of 'zigzag': there is no schedule 'zigzag'; choose one of gpipe, 1f1b, "
      "interleaved:v=N");
  expect_no_schedule("dualpipe", error_code::unknown_name, 0,
                     "the two-way DualPipe has each stage on two ranks, and schedules have it on "
                     "one; write its V by dual_pipe_v");
  expect_no_schedule("", error_code::unknown_name, 0, "there is no schedule ''");
  expect_no_schedule("gpipe:v=2", error_code::unknown_name, 6,
                     "'v' is no parameter of gpipe, which takes nothing");
  expect_no_schedule(
      "interleaved", error_code::syntax, 11,
      "at offset 11 of 'interleaved': interleaved takes the number of stages per rank, as in "
      "interleaved:v=2");
  expect_no_schedule("interleaved:", error_code::syntax, 12,
                     "expected a name, as in interleaved:v=2");
  expect_no_schedule("interleaved:w=2", error_code::unknown_name, 12,
                     "'w' is no parameter of interleaved, which takes v=N");
  expect_no_schedule("interleaved:v=0", error_code::out_of_range, 12,
                     "v is '0'; give a whole number from 1 to 65536");
  expect_no_schedule("interleaved:v=65537", error_code::out_of_range, 12, "v is '65537'");
  expect_no_schedule("interleaved:gpipe", error_code::unknown_name, 12,
                     "'gpipe' has no place in interleaved");
}

TEST(ParseSchedule, ListsNamesThatItKnows)
{
  std::string const names = by_name::schedule_names();
  for (auto const& each : by_name::named_schedules) {
    EXPECT_THAT(names, HasSubstr(std::string(each.name)));
    std::string const usual = std::string(each.name).append(each.arguments.empty() ? "" : ":v=2");
    EXPECT_TRUE(parse_schedule(usual)) << usual;
  }
}

static_assert(ballast::schedule_policy<any_schedule>);

TEST(AnySchedule, WritesTheScheduleOfThePolicyThatItHolds)  // Ensures (1)
{
  for (std::size_t microbatches = 0; microbatches < 9; ++microbatches) {
    auto const one = chain_of_stages(4, 4);
    auto const two = chain_of_stages(8, 4);
    EXPECT_EQ(any_schedule{ballast::gpipe{}}(two, microbatches),
              ballast::gpipe{}(two, microbatches));
    EXPECT_EQ(any_schedule{ballast::one_forward_one_backward{}}(one, microbatches),
              ballast::one_forward_one_backward{}(one, microbatches));
    EXPECT_EQ((any_schedule{interleaved{}, 2}(two, microbatches)),
              interleaved{}(two, microbatches));
  }
}

TEST(AnySchedule, PassesRefusalsOn)
{
  auto const two = chain_of_stages(8, 4);
  EXPECT_EQ(any_schedule{ballast::one_forward_one_backward{}}(two, 4),
            ballast::one_forward_one_backward{}(two, 4));
  EXPECT_FALSE(any_schedule{ballast::one_forward_one_backward{}}(two, 4));
}

TEST(AnySchedule, DiffersByPolicyAndByVirtualStages)
{
  EXPECT_EQ(any_schedule{}, any_schedule{ballast::gpipe{}});
  EXPECT_NE(any_schedule{ballast::gpipe{}}, any_schedule{interleaved{}});
  EXPECT_NE((any_schedule{interleaved{}, 2}), (any_schedule{interleaved{}, 3}));
}

}  // namespace
