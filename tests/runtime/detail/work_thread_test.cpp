// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/detail/work_thread.hpp>

#include "../../support/counted_allocations.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <thread>

namespace {

using ballast::detail::work_thread;

TEST(WorkThread, CallsTheFunctionOnceForEachStart)  // Ensures (1)
{
  int calls = 0;
  std::thread::id where;
  auto const work = [&] {
    ++calls;
    where = std::this_thread::get_id();
  };
  work_thread thread(work);
  for (int call = 1; call <= 100; ++call) {
    thread.start();
    thread.wait();
    EXPECT_EQ(calls, call);
  }
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_TRUE(thread.ready());
}

TEST(WorkThread, SaysWhetherItHadToWait)
{
  std::atomic<bool> may_go_on = false;
  auto const work = [&] {
    while (!may_go_on) { std::this_thread::yield(); }
  };
  work_thread thread(work);
  thread.start();
  EXPECT_FALSE(thread.ready());
  may_go_on = true;
  while (!thread.ready()) { std::this_thread::yield(); }
  EXPECT_FALSE(thread.wait());

  may_go_on = false;
  thread.start();
  std::thread other([&] { may_go_on = true; });
  thread.wait();
  other.join();
}

TEST(WorkThread, KeepsWhatTheFunctionThrows)  // Ensures (2)
{
  bool throws = true;
  auto const work = [&throws] {
    if (throws) { throw std::runtime_error("no"); }
  };
  work_thread thread(work);
  thread.start();
  thread.wait();
  EXPECT_THROW(std::rethrow_exception(thread.thrown()), std::runtime_error);
  EXPECT_EQ(thread.thrown(), nullptr);
  throws = false;
  thread.start();
  thread.wait();
  EXPECT_EQ(thread.thrown(), nullptr);
}

TEST(WorkThread, EndsAfterTheCallThatItIsAt)  // Ensures (3)
{
  std::atomic<bool> begun = false;
  bool done = false;
  {
    auto const work = [&] {
      begun = true;
      for (int turn = 0; turn < 1000; ++turn) { std::this_thread::yield(); }
      done = true;
    };
    work_thread thread(work);
    thread.start();
    while (!begun) { std::this_thread::yield(); }
  }
  EXPECT_TRUE(done);
}

TEST(WorkThread, MakesACallThatHadNotBegunWhenItEnds)  // Ensures (3)
{
  int calls = 0;
  for (int trial = 1; trial <= 100; ++trial) {
    {
      auto const work = [&calls] { ++calls; };
      work_thread thread(work);
      thread.start();
    }
    EXPECT_EQ(calls, trial);
  }
}

TEST(WorkThread, AllocatesNothing)  // Ensures (4)
{
  auto const work = [] {};
  work_thread thread(work);
  thread.start();
  thread.wait();
  std::size_t const before = ballast_test::allocations();
  for (int call = 0; call < 10; ++call) {
    thread.start();
    thread.wait();
  }
  EXPECT_EQ(ballast_test::allocations(), before);
}

TEST(WorkThreadDeathTest, StartsAndWaitsInTurn)
{
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const work = [] {};
  work_thread thread(work);
  EXPECT_DEATH(thread.wait(), "no call was started");
  thread.start();
  EXPECT_DEATH(thread.start(), "before the last one was waited for");
  thread.wait();
}

}  // namespace
