// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "../support/test.hpp"

namespace {

// A contract is an expression, so that constexpr functions can state theirs.
constexpr int half(int even)
{
  BALLAST_EXPECTS(even % 2 == 0);
  return even / 2;
}

static_assert(half(6) == 3);

enum class shelf : std::uint32_t {};

constexpr int third(int number, shelf where)
{
  BALLAST_EXPECTS(number % 3 == 0, "shelf ", where, " has ", number,
                  " books, which is no multiple of three");
  return number / 3;
}

static_assert(third(6, shelf{1}) == 2);

TEST(Expects, EvaluatesItsConditionOnceAndGoesOn)
{
  int evaluations = 0;
  BALLAST_EXPECTS(++evaluations == 1);
  EXPECT_EQ(evaluations, 1);
}

TEST(Expects, DoesNotEvaluateASentenceThatItDoesNotSay)
{
  int evaluations = 0;
  BALLAST_EXPECTS(evaluations == 0, "evaluated ", ++evaluations, " times");
  EXPECT_EQ(evaluations, 0);
}

TEST(ExpectsDeathTest, NamesTheConditionAndThePlace)
{
  EXPECT_DEATH((void)half(3),
               "contract_test.cpp:[0-9]+: ballast: the caller broke a precondition: even % 2 == 0");
}

TEST(ExpectsDeathTest, SaysTheSentenceInsteadOfTheCondition)
{
  EXPECT_DEATH((void)third(-7, shelf{4000000000}),
               "contract_test.cpp:[0-9]+: ballast: the caller broke a precondition: "
               "shelf 4000000000 has -7 books, which is no multiple of three\n");
  EXPECT_DEATH(BALLAST_EXPECTS(1 + 1 == 3, "one and one is two"), "precondition: one and one is");
}

TEST(ExpectsDeathTest, WritesIntegersOfAllSizes)
{
  EXPECT_DEATH(BALLAST_EXPECTS(false, "of ", std::numeric_limits<std::int64_t>::min(), " and ",
                               std::numeric_limits<std::uint64_t>::max(), " and ", short{-1}),
               "of -9223372036854775808 and 18446744073709551615 and -1\n");
}

TEST(ExpectsDeathTest, WritesFractionsInAFewDigits)
{
  EXPECT_DEATH(BALLAST_EXPECTS(false, "of ", -0.5, " and ", 2.5e9F, " and ",
                               std::numeric_limits<double>::infinity()),
               "of -0.5 and 2.5e.09 and inf\n");
}

TEST(ExpectsDeathTest, CutsOffWhatIsTooLong)
{
  std::string const name(400, 'a');
  EXPECT_DEATH(BALLAST_EXPECTS(false, "x", name.c_str(), name.c_str(), 7), "xa{510}\n");
}

// [handler]
void log_and_end(ballast::broken_precondition const& broken)
{
  std::fprintf(stderr, "my trainer: %s (%s:%d)\n", broken.sentence, broken.file, broken.line);
  std::_Exit(3);
}
// [handler]

TEST(ExpectsDeathTest, CallsTheHandlerThatATrainerSets)
{
  auto const break_under = [](ballast::precondition_handler handler) {
    ballast::set_precondition_handler(handler);
    (void)third(-7, shelf{1});
  };
  EXPECT_EXIT(break_under(log_and_end), testing::ExitedWithCode(3),
              "^my trainer: shelf 1 has -7 books, which is no multiple of three "
              "\\(.*contract_test.cpp:[0-9]+\\)\n$");
  // One that returns, throws, or breaks a precondition itself does not go on.
  using ballast::broken_precondition;
  EXPECT_EXIT(break_under([](broken_precondition const&) {}), testing::KilledBySignal(SIGABRT), "");
  EXPECT_DEATH(break_under([](broken_precondition const&) { throw 7; }), "terminate|abort");
  EXPECT_DEATH(break_under([](broken_precondition const&) { (void)half(3); }),
               "ballast: the caller broke a precondition: even % 2 == 0");
  EXPECT_EXIT(std::thread([&] { break_under(log_and_end); }).join(), testing::ExitedWithCode(3),
              "shelf 1 has -7");
}

TEST(Expects, ReturnsTheHandlerBefore)
{
  EXPECT_EQ(ballast::set_precondition_handler(log_and_end), nullptr);
  EXPECT_EQ(ballast::set_precondition_handler(nullptr), &log_and_end);
  EXPECT_DEATH((void)half(3), "the caller broke a precondition: even % 2 == 0");
}

#ifdef BALLAST_AUDIT_ENABLED

TEST(AuditDeathTest, ChecksInTheAuditBuild)
{
  EXPECT_DEATH(BALLAST_AUDIT(1 + 1 == 3), "the caller broke a precondition: 1 \\+ 1 == 3");
  EXPECT_DEATH(BALLAST_AUDIT(1 + 1 == 3, "one and ", 1), "precondition: one and 1\n");
}

#else

TEST(Audit, DoesNotEvaluateOutsideTheAuditBuild)
{
  int evaluations = 0;
  BALLAST_AUDIT(++evaluations == 0, "evaluated ", ++evaluations);
  EXPECT_EQ(evaluations, 0);
}

#endif

BALLAST_HOST_DEVICE constexpr int twice(int value)
{
  return 2 * value;
}

static_assert(twice(21) == 42, "the annotation must allow constexpr");

TEST(HostDevice, IsNothingForAHostCompiler)
{
#define TEXT_OF(...) #__VA_ARGS__
#define EXPANDED_TEXT_OF(...) TEXT_OF(__VA_ARGS__)
  EXPECT_STREQ(EXPANDED_TEXT_OF(BALLAST_HOST_DEVICE), "");
#undef EXPANDED_TEXT_OF
#undef TEXT_OF
}

}  // namespace
