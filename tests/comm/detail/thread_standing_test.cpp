// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/thread_standing.hpp>

#include <gtest/gtest.h>

#include <ballast/comm/comm_failure.hpp>

#include <mutex>
#include <thread>
#include <vector>

namespace {

using ballast::rank_id;
using ballast::detail::thread_standing;

TEST(ThreadStanding, KeepsTheFirstFailureAndWhoLeft)
{
  thread_standing group(4);
  EXPECT_FALSE(group.someone_left);
  group.leave(2);
  group.leave(0);
  EXPECT_EQ(group.ranks_that_left(), (std::vector{rank_id{0}, rank_id{2}}));
  auto const first = ballast::comm_failure::peer_lost("one", {rank_id{0}});
  EXPECT_EQ(group.fail(first).value(), first.value());
  EXPECT_EQ(group.fail(ballast::comm_failure::peer_lost("two", {})).value(), first.value());
}

TEST(ThreadStanding, WakesAllThatWait)
{
  thread_standing group(2);
  std::jthread const meets([&] {
    std::unique_lock lock(group.mutex);
    group.met.wait(lock, [&] { return group.someone_left; });
  });
  std::jthread const transfers([&] {
    std::unique_lock lock(group.mutex);
    group.woken[1].wait(lock, [&] { return group.someone_left; });
  });
  std::lock_guard const lock(group.mutex);
  group.leave(0);
}

}  // namespace
