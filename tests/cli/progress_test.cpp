// SPDX-License-Identifier: Apache-2.0
// On a log; what a terminal shows needs one.
#include "../../examples/ballast/progress.hpp"  // first: proves it is self-contained

#include "../../examples/ballast/cleanup.cpp"  // which the program is linked with

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace {

TEST(Progress, IsALineNowAndThenWhereNobodyLooks)
{
  using namespace std::chrono_literals;
  testing::internal::CaptureStderr();
  {
    cli::progress shown(20ms);
    ASSERT_FALSE(shown.is_seen());
    auto const begun = cli::progress::clock::now();
    int told = 0;
    while (told < 3 && cli::progress::clock::now() - begun < 5s) {
      shown.update([&told] { return "searching, part " + std::to_string(++told); });
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(told, 3);
    EXPECT_GE(cli::progress::clock::now() - begun, 60ms);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "ballast: searching, part 1, 0 s so far\nballast: searching, part 2, 0 s so far\n"
            "ballast: searching, part 3, 0 s so far\n");
  testing::internal::CaptureStderr();
  {
    cli::progress shown;
    shown.update([] { return std::string("searching"); });
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "only what takes ten seconds is told";
}

}  // namespace
