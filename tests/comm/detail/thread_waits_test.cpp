// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/thread_waits.hpp>

#include <gtest/gtest.h>

#include <ballast/comm/comm_failure.hpp>

#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using ballast::rank_id;
using ballast::detail::thread_waits;

TEST(ThreadStanding, KeepsTheFirstFailureAndWhoLeft)
{
  thread_waits group(4);
  EXPECT_FALSE(group.someone_left);
  group.leave(2);
  group.leave(0);
  EXPECT_EQ(group.ranks_that_left(), (std::vector{rank_id{0}, rank_id{2}}));
  auto const first = ballast::comm_failure::peer_lost("one", {rank_id{0}});
  EXPECT_EQ(group.fail(first).value(), first.value());
  EXPECT_EQ(group.fail(ballast::comm_failure::peer_lost("two", {})).value(), first.value());
}

TEST(ThreadStanding, FindsWhoHoldsUpTheOthers)
{
  thread_waits group(6);
  group.waits_for = {thread_waits::everybody, 0, 3, thread_waits::nobody, 2, 1};
  // All but rank 3 wait, for it or in a circle with rank 0.
  for (std::size_t const rank : {0U, 1U, 2U, 4U, 5U}) {
    EXPECT_EQ(group.ranks_that_hold_up(rank), std::vector{rank_id{3}}) << rank;
  }
  group.waits_for = {1, 0, thread_waits::nobody, 1, 5, 4};
  EXPECT_EQ(group.ranks_that_hold_up(3), std::vector<rank_id>{});
  EXPECT_EQ(group.ranks_that_hold_up(4), std::vector<rank_id>{});
}

TEST(ThreadStanding, WakesAllThatWait)
{
  thread_waits group(2);
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
