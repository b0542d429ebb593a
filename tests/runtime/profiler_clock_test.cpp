// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/model_profiler.hpp>

#include "../support/test.hpp"
#include "fake_clock.hpp"

namespace {

using ballast::host_clock;

static_assert(ballast::profiler_clock<host_clock>);
static_assert(ballast::profiler_clock<ballast_test::fake_clock>);
static_assert(!ballast::profiler_clock<std::chrono::steady_clock>);

TEST(HostClock, TimesACall)
{
  host_clock const clock;
  int calls = 0;
  auto const before = clock.now().value();
  auto const time = clock.time([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_GE(time.value(), 2'000'000);
  EXPECT_GE(clock.now().value() - before, time.value());
}

}  // namespace
