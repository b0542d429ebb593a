// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/nccl_missing_ranks.hpp>

#include <gmock/gmock.h>
#include "../comm/traffic.hpp"
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <ballast/core/random.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

using ballast::collective;
using ballast::collective_call;
using ballast::error_code;
using ballast::rank_id;
using ballast::detail::nccl_queue;
using ballast::detail::nccl_stream;
using ballast_test::nccl_ranks;
using ballast_test::soon;
using ballast_test::time_bound;
using std::chrono::milliseconds;

using missing_ranks = ballast::detail::nccl_missing_ranks<std::allocator<std::byte>>;

/// Calls body(queue, roll call, rank) on a thread per rank.
template <class Body>
void on_ranks(std::size_t size, milliseconds deadline, Body body)
{
  nccl_ranks ranks(size);
  ranks.run([&](std::size_t rank) {
    nccl_queue queue(ranks.comm(rank), std::make_shared<nccl_stream>(ranks.stream(rank), deadline));
    missing_ranks roll(rank, size, {});
    body(queue, roll, rank);
  });
}

TEST(NcclRollCall, SucceedsOnAllRanksThatAgree)  // Ensures (1)
{
  for (std::size_t const size : {1U, 2U, 5U}) {
    on_ranks(size, time_bound, [size](nccl_queue& queue, missing_ranks& roll, std::size_t rank) {
      ballast::random_source random(20240607);
      for (int trial = 0; trial < 50; ++trial) {
        auto const bytes = ballast_test::random_traffic(random, size, 1000);
        EXPECT_TRUE(
            roll(queue, {collective::all_to_all_v}, bytes.sent_by(rank), bytes.received_by(rank)));
        EXPECT_TRUE(roll(queue, {collective::all_gather, random.below(9)}));
        EXPECT_TRUE(roll(queue, {collective::barrier}));
      }
    });
  }
}

// One count of one pair is wrong: the two name each other, the others get the error without ranks.
TEST(NcclRollCall, TellsEveryRankOfAnyTwoThatDisagree)  // Ensures (1) (2)
{
  constexpr std::size_t size = 4;
  on_ranks(size, time_bound, [](nccl_queue& queue, missing_ranks& roll, std::size_t rank) {
    ballast::random_source random(20240608);
    for (std::size_t trial = 0; trial < 100; ++trial) {
      auto const bytes = ballast_test::random_traffic(random, size, 1000);
      auto const from = static_cast<std::size_t>(random.below(size));
      auto const to = static_cast<std::size_t>(random.below(size));
      auto const sent = bytes.sent_by(rank);
      auto received = bytes.received_by(rank);
      if (rank == to) { received[from] += 1 + trial % 2 * 1000; }

      auto const done = roll(queue, {collective::all_to_all_v}, sent, received);
      ASSERT_FALSE(done) << "trial " << trial;
      EXPECT_EQ(done.error().code, error_code::mismatch);
      std::vector<rank_id> named;
      if (rank == from) { named.push_back(ballast::to_id<rank_id>(to)); }
      if (rank == to && from != to) { named.push_back(ballast::to_id<rank_id>(from)); }
      EXPECT_EQ(done.error().ranks, named) << "trial " << trial << ": " << done.error().message;
      EXPECT_TRUE(roll(queue, {collective::barrier})) << "it can still be used";
    }
  });
}

TEST(NcclRollCall, NamesThoseWhoCallForSomethingElse)
{
  on_ranks(5, time_bound, [](nccl_queue& queue, missing_ranks& roll, std::size_t rank) {
    collective_call const call = rank == 1 || rank == 4
                                     ? collective_call{collective::broadcast, 10, rank_id{2}}
                                     : collective_call{collective::broadcast, 10, rank_id{3}};
    auto const done = roll(queue, call);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().ranks, (std::vector{rank_id{1}, rank_id{4}}));
    EXPECT_THAT(done.error().message, testing::HasSubstr("broadcast: ranks disagree on"));
  });
}

TEST(NcclRollCall, NamesTheOneThatSplits)
{
  on_ranks(3, time_bound, [](nccl_queue& queue, missing_ranks& roll, std::size_t rank) {
    auto const done = rank == 2 ? roll(queue, {collective::split}, {}, {}, 7)
                                : roll(queue, {collective::barrier});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::mismatch);
    EXPECT_EQ(done.error().ranks, std::vector{rank_id{2}});
    EXPECT_THAT(done.error().message, testing::StartsWith(rank == 2 ? "split: ranks disagree"
                                                                    : "barrier: ranks disagree"));
  });
}

TEST(NcclRollCall, CollectsColours)
{
  constexpr std::uint32_t step = 0x3fff'ffff;  // up to the largest of 32 bits and beyond NCCL's
  on_ranks(5, time_bound, [](nccl_queue& queue, missing_ranks& roll, std::size_t rank) {
    ASSERT_TRUE(roll(queue, {collective::split}, {}, {}, static_cast<std::uint32_t>(rank) * step));
    for (std::size_t peer = 0; peer < 5; ++peer) {
      EXPECT_EQ(roll.colour_of(peer), static_cast<std::uint32_t>(peer) * step);
    }
  });
}

TEST(NcclRollCall, NamesThoseNotHeardFrom)  // Errors
{
  on_ranks(5, soon, [](nccl_queue& queue, missing_ranks& roll, std::size_t rank) {
    if (rank == 0 || rank == 3) { return; }
    auto const done = roll(queue, {collective::barrier});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::timed_out);
    EXPECT_EQ(done.error().ranks, (std::vector{rank_id{0}, rank_id{3}}));
  });
}

// The stream is busy with an exchange that never ends: the words are still behind it.
TEST(NcclRollCall, BlamesNobodyWhereItsOwnWordHasNotLeft)  // Errors
{
  on_ranks(2, soon, [](nccl_queue& queue, missing_ranks& roll, std::size_t rank) {
    std::byte byte{};
    std::vector<std::size_t> bytes(2);
    bytes[1 - rank] = 1;
    std::vector<std::size_t> const none(2);
    ASSERT_TRUE(queue.exchange("all_to_all_v", &byte, bytes, nullptr, none));
    auto const done = roll(queue, {collective::barrier});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, error_code::timed_out);
    EXPECT_EQ(done.error().ranks, std::vector<rank_id>());
  });
}

}  // namespace
