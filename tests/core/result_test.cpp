// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

namespace {

using namespace ballast;

result<int> whole_number(std::string const& text)
{
  std::size_t const stop = text.find_first_not_of("0123456789");
  if (stop != std::string::npos) {
    return fail(error_code::syntax, stop, "not a digit; remove it");
  }
  return std::stoi(text);
}

TEST(Result, OrSaysWhatWasWrongWhereAndWhatToDo)
{
  EXPECT_EQ(whole_number("42"), 42);
  EXPECT_FALSE(result<void>(fail(error_code::unreadable, 0, "no such file")).has_value());
  auto const parsed = whole_number("4x");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error(), (error{error_code::syntax, 1, "not a digit; remove it"}));
}

TEST(Result, ThrowsTheSentenceWhereThereIsNoValue)
{
  auto const run = [] {
    // [value]
    try {
      result<int> const gpus =
          fail(error_code::out_of_range, 0, "a job of ", 0, " GPUs; give 1 or more");
      return std::to_string(gpus.value()) + " GPUs";
    } catch (std::exception const& wrong) {
      return std::string(wrong.what());
    }
    // [value]
  };
  EXPECT_EQ(run(), "a job of 0 GPUs; give 1 or more");
  try {
    ballast::or_throw(fail(error_code::infeasible, 3, "there are no bags; lay out some"));
    ADD_FAILURE() << "nothing was thrown";
  } catch (tl::bad_expected_access<error> const& thrown) {
    EXPECT_EQ(thrown.error(),
              (error{error_code::infeasible, 3, "there are no bags; lay out some"}));
    EXPECT_STREQ(thrown.what(), "there are no bags; lay out some");
  }
  EXPECT_NO_THROW(ballast::or_throw({}));
  EXPECT_EQ(*result<std::unique_ptr<int>>(std::make_unique<int>(4)).value(), 4);
}

TEST(ErrorCode, HasAName)
{
  static_assert(std::string_view(name_of(error_code::syntax)) == "syntax");
  static_assert(std::string_view(name_of(error_code::timed_out)) == "timed_out");
  static_assert(std::string_view(name_of(error_code::out_of_memory)) == "out_of_memory");
  static_assert(std::string_view(name_of(error_code::wrong_order)) == "wrong_order");
  static_assert(std::string_view(name_of(error_code::failed)) == "failed");
  static_assert(std::string_view(name_of(error_code{99})) == "unknown");
}

}  // namespace
