// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/thread_transfers.hpp>

#include <gtest/gtest.h>
#include "../../support/time_limits.hpp"

#include <ballast/comm/detail/thread_waits.hpp>
#include <ballast/core/random.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast::result;
using ballast::detail::thread_transfers;
using ballast::detail::thread_waits;
using ballast_test::time_bound;
using std::chrono::milliseconds;
using byte_list = std::vector<std::byte>;

struct transfer_group {
  explicit transfer_group(std::size_t ranks, milliseconds deadline = time_bound)
      : standing(ranks), transfers(standing, ranks, deadline)
  {}

  void leave(std::size_t rank)
  {
    transfers.leave(rank);
    std::lock_guard const lock(standing.mutex);
    standing.leave(rank);
  }

  thread_waits standing;
  thread_transfers transfers;
};

// One thread may be all ranks, as long as it waits for nothing that it has not begun.
TEST(ThreadTransfers, MeetInTheOrderOfEachPair)
{
  transfer_group group(3);
  auto& all = group.transfers;
  byte_list const one{std::byte{1}}, two{std::byte{2}}, three{std::byte{3}};
  byte_list first(1), second(1), other(1);
  auto const a = all.send(0, one, 2).value();
  auto const b = all.send(1, three, 2).value();
  auto const c = all.send(0, two, 2).value();
  EXPECT_FALSE(all.is_done(0, a).value());
  auto const from_1 = all.receive(2, other, 1).value();
  auto const from_0 = all.receive(2, first, 0).value();
  EXPECT_TRUE(all.is_done(0, a).value());
  EXPECT_FALSE(all.is_done(0, c).value());
  auto const again = all.receive(2, second, 0).value();
  EXPECT_TRUE(all.wait_for(2, again));
  EXPECT_TRUE(all.wait_for(2, from_0));
  EXPECT_TRUE(all.wait_for(2, from_1));
  EXPECT_EQ(first, one);
  EXPECT_EQ(second, two);
  EXPECT_EQ(other, three);
  EXPECT_TRUE(all.wait_for(0, c));
  EXPECT_TRUE(all.wait_for(0, a));
  EXPECT_TRUE(all.wait_for(1, b));
}

TEST(ThreadTransfers, TellBothRanksOfDifferentSizes)
{
  transfer_group group(2);
  byte_list const out(5);
  byte_list in(6);
  auto const sent = group.transfers.send(0, out, 1).value();
  auto const received = group.transfers.receive(1, in, 0).value();
  for (std::size_t const rank : {0U, 1U}) {
    auto const done = group.transfers.wait_for(rank, rank == 0 ? sent : received);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::mismatch);
    EXPECT_EQ(done.error().ranks, std::vector{ballast::to_id<rank_id>(1 - rank)});
  }
}

// Rank 0 waits for rank 1, rank 1 for rank 2, which does not come.
TEST(ThreadTransfers, NameTheRankForWhichAllWait)
{
  transfer_group group(3, milliseconds(300));
  byte_list first(1), second(1);
  std::vector<result<void>> ends(2);
  {
    auto const a = group.transfers.receive(0, first, 1).value();
    auto const b = group.transfers.receive(1, second, 2).value();
    std::jthread const waits([&] { ends[0] = group.transfers.wait_for(0, a); });
    ends[1] = group.transfers.wait_for(1, b);
  }
  for (auto const& end : ends) {
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, error_code::timed_out);
    EXPECT_EQ(end.error().ranks, std::vector{rank_id{2}}) << end.error().message;
  }
  auto const late = group.transfers.send(2, first, 1);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), ends[0].error());
}

TEST(ThreadTransfers, NameNobodyInACircle)
{
  transfer_group group(2, milliseconds(100));
  byte_list first(1), second(1);
  auto const a = group.transfers.receive(0, first, 1).value();
  auto const b = group.transfers.receive(1, second, 0).value();
  std::jthread const waits([&] {
    auto const end = group.transfers.wait_for(0, a);
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, error_code::timed_out);
  });
  EXPECT_FALSE(group.transfers.wait_for(1, b));
}

TEST(ThreadTransfers, MindOnlyPeersThatLeft)
{
  transfer_group group(3);
  byte_list const out(1);
  byte_list in(1);
  group.leave(2);
  auto const sent = group.transfers.send(0, out, 1).value();
  EXPECT_TRUE(group.transfers.wait_for(1, group.transfers.receive(1, in, 0).value()));
  EXPECT_TRUE(group.transfers.wait_for(0, sent));
  auto const lost = group.transfers.receive(0, in, 2);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, error_code::peer_lost);
  EXPECT_EQ(lost.error().ranks, std::vector{rank_id{2}});
}

// A rank that gives up frees its array at once: a sanitizer sees who still reads or writes it.
TEST(ThreadTransfers, NeverTouchTheArraysOfWhoGaveUp)  // Ensures (1)
{
  for (std::uint64_t trial = 0; trial < 100; ++trial) {
    transfer_group group(2, milliseconds(1));
    auto const run = [&](std::size_t self) {
      ballast::random_source random(2 * trial + self);
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
      byte_list bytes(20'000, std::byte{7});
      auto const id =
          self == 0 ? group.transfers.send(0, bytes, 1) : group.transfers.receive(1, bytes, 0);
      if (id) { (void)group.transfers.wait_for(self, *id); }
    };
    std::jthread const sender(run, 0);
    std::jthread const receiver(run, 1);
  }
}

TEST(ThreadTransfersDeathTest, RefuseATransferThatHasEnded)
{
  transfer_group group(1);
  byte_list const out(1);
  byte_list in(1);
  auto const sent = group.transfers.send(0, out, 0).value();
  auto const received = group.transfers.receive(0, in, 0).value();
  EXPECT_TRUE(group.transfers.wait_for(0, sent));
  EXPECT_TRUE(group.transfers.wait_for(0, received));
  EXPECT_DEATH((void)group.transfers.wait_for(0, sent), "transfer 0 of rank 0 is not under way");
}

}  // namespace
