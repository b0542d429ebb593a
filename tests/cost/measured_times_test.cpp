// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/measured_times.hpp>

#include <ballast/cost/flops.hpp>

#include "../support/test.hpp"

namespace {

using ballast::read_measured_times;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MeasuredTimes, AreOfCallsForFitLatency)
{
  auto const read =
      read_measured_times("seconds,run,length\n0.002,a,100\n\n0.006,b,200\n0.012,c,300\n").value();
  EXPECT_THAT(read.lines, ElementsAre(2, 4, 5));
  EXPECT_THAT(read.steps, IsEmpty());
  ASSERT_EQ(read.calls.size(), 3U);
  EXPECT_EQ(read.calls[1].length, 200);
  EXPECT_EQ(read.calls[1].seconds, 0.006);
  // 1e-7 (100 l + l^2) seconds, without a launch.
  auto const fit = ballast::fit_latency(read.calls, {100, 1}).value();
  EXPECT_NEAR(fit.gamma, 1, 1e-9);
  EXPECT_NEAR(fit.seconds_per_flop, 1e-7, 1e-15);
}

TEST(MeasuredTimes, AreOfStepsForFitSteps)
{
  auto const read =
      read_measured_times("length_sum,square_sum,sequences,gpus,seconds\n18000,81000000,4,2,0.93\n")
          .value();
  EXPECT_THAT(read.calls, IsEmpty());
  ASSERT_EQ(read.steps.size(), 1U);
  EXPECT_EQ(read.steps[0].length_sum, 18000);
  EXPECT_EQ(read.steps[0].square_sum, 81000000U);
  EXPECT_EQ(read.steps[0].sequences, 4U);
  EXPECT_EQ(read.steps[0].gpus, 2U);
}

TEST(MeasuredTimes, NameTheLineThatIsWrong)
{
  auto const why = [](std::string_view csv) { return read_measured_times(csv).error().message; };
  EXPECT_THAT(why(""), HasSubstr("line 1: there is no header; write length,seconds"));
  EXPECT_THAT(why("length\n"), HasSubstr("line 1: there is no column 'seconds'"));
  EXPECT_THAT(why("length,seconds\n5,0.1\nx,1\n"), HasSubstr("line 3: column 'length' holds 'x'"));
  EXPECT_THAT(why("length,seconds\n5,fast\n"), HasSubstr("expected a decimal number"));
  EXPECT_THAT(why("length_sum,square_sum,sequences,gpus,seconds\n1,1,4294967296,1,1\n"),
              HasSubstr("line 2: column 'sequences' holds '4294967296'"));
  EXPECT_EQ(read_measured_times("length,seconds\n5\n").error().position, 2U);
}

}  // namespace
