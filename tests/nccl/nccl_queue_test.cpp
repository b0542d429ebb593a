// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/nccl_queue.hpp>

#include <gmock/gmock.h>
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast::detail::nccl_queue;
using ballast::detail::nccl_stream;
using ballast_test::nccl_ranks;
using ballast_test::time_bound;
using ballast_test::very_soon;
using std::chrono::milliseconds;
using testing::HasSubstr;

static_assert(!std::is_move_constructible_v<nccl_queue>, "what is queued refers to its place");

/// Rank 0's queue of a clique whose other ranks never do anything.
struct NcclQueue : testing::Test {
  nccl_queue borrowed(milliseconds deadline)
  {
    return nccl_queue(ranks.comm(0), std::make_shared<nccl_stream>(ranks.stream(0), deadline));
  }

  /// A message to itself.
  ballast::result<void> send_to_self(nccl_queue& queue)
  {
    return queue.exchange("exchange", sent.data(), own, received.data(), own);
  }

  /// A message that no rank receives.
  ballast::result<void> send_to_nobody(nccl_queue& queue)
  {
    return queue.exchange("exchange", sent.data(), other, received.data(), none);
  }

  nccl_ranks ranks{2};
  std::array<std::size_t, 2> const own = {4, 0};
  std::array<std::size_t, 2> const other = {0, 4};
  std::array<std::size_t, 2> const none = {0, 0};
  std::vector<std::byte> const sent = std::vector<std::byte>(4, std::byte{9});
  std::vector<std::byte> received = std::vector<std::byte>(4);
};

TEST_F(NcclQueue, MovesAMessageBehindItsCall)
{
  auto queue = borrowed(time_bound);
  ASSERT_TRUE(send_to_self(queue));
  ASSERT_TRUE(queue.drain("wait"));
  EXPECT_EQ(received, sent);
  EXPECT_EQ(queue.native(), ranks.comm(0));
  EXPECT_EQ(queue.stream(), ranks.stream(0));
}

TEST_F(NcclQueue, TakesAGroupOfNothing)
{
  auto queue = borrowed(time_bound);
  EXPECT_TRUE(queue.exchange("exchange", nullptr, none, nullptr, none));
  EXPECT_TRUE(queue.drain("wait"));
}

TEST_F(NcclQueue, LeavesItsWorkInTheStreamOfACommunicatorThatIsNotBlocking)  // Ensures (1)
{
  ranks.make_non_blocking(5);
  auto queue = borrowed(time_bound);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(send_to_self(queue));
    ncclResult_t state = ncclInProgress;
    EXPECT_EQ(ncclCommGetAsyncError(queue.native(), &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
  }
  ASSERT_TRUE(queue.drain("wait"));
  EXPECT_EQ(received, sent);
}

TEST_F(NcclQueue, GivesTheSameErrorAfterAFailure)  // Ensures (2)
{
  auto queue = borrowed(very_soon);
  ASSERT_TRUE(send_to_nobody(queue));
  auto const late = queue.drain("all_to_all_v");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, error_code::timed_out);
  EXPECT_THAT(late.error().message, HasSubstr("all_to_all_v: some ranks did not arrive"));
  EXPECT_EQ(queue.native(), nullptr);
  EXPECT_EQ(ranks.comm(0), nullptr) << "its owner would destroy what is gone";
  auto const submitted = queue.submit("broadcast", "ncclBroadcast", [](ncclComm_t, cudaStream_t) {
    ADD_FAILURE() << "called for a communicator that is gone";
    return ncclSuccess;
  });
  for (auto const& again : {submitted, send_to_self(queue), queue.drain("wait")}) {
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error(), late.error());
  }
}

TEST_F(NcclQueue, AsksWhoIsMissingOnlyAfterTheAbort)  // Ensures (2)
{
  auto queue = borrowed(very_soon);
  ASSERT_TRUE(send_to_nobody(queue));
  auto const late = queue.drain("barrier", [&] {
    EXPECT_EQ(queue.native(), nullptr);
    return std::vector{rank_id{1}};
  });
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().ranks, std::vector{rank_id{1}});
}

TEST_F(NcclQueue, SettlesOnlyUntilTheDeadline)
{
  ranks.make_non_blocking(ballast_test::never);
  auto queue = borrowed(very_soon);
  auto const late = send_to_self(queue);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, error_code::timed_out);
}

TEST_F(NcclQueue, TellsAnAsynchronousErrorWhileItSettles)
{
  ranks.make_non_blocking(ballast_test::never);
  ballast_test::fail_asynchronously(ranks.comm(0), ncclRemoteError);
  auto queue = borrowed(time_bound);
  auto const failed = send_to_self(queue);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, error_code::transport);
  EXPECT_THAT(failed.error().message, HasSubstr("ncclGroupEnd failed with code 6"));
}

TEST_F(NcclQueue, TellsTheOwnerWhatItsDestructorAborted)  // Ensures (2) (4)
{
  {
    auto queue = borrowed(very_soon);
    ASSERT_TRUE(send_to_nobody(queue));
  }
  EXPECT_EQ(ranks.comm(0), nullptr);
  EXPECT_EQ(cudaStreamQuery(ranks.stream(0)), cudaSuccess);
}

TEST_F(NcclQueue, LeavesToTheOwnerWhatIsWhole)
{
  ncclComm_t const comm = ranks.comm(0);
  {
    auto queue = borrowed(time_bound);
    ASSERT_TRUE(send_to_self(queue));
  }
  EXPECT_EQ(ranks.comm(0), comm);
  EXPECT_EQ(received, sent) << "it was gone before its work was done";
}

// ---- Parts ----

/// Rank 0's queue of a clique of one, and of a part of it.
struct NcclQueueSplit : testing::Test {
  std::unique_ptr<nccl_queue> split(milliseconds deadline)
  {
    queue = std::make_unique<nccl_queue>(ranks.comm(0),
                                         std::make_shared<nccl_stream>(ranks.stream(0), deadline));
    auto part = queue->part();
    EXPECT_TRUE(queue->split(*part, 0, 0));
    return part;
  }

  static ballast::result<void> receive(nccl_queue& from)
  {
    static std::byte byte{};
    static std::array<std::size_t, 1> const none = {0};
    static std::array<std::size_t, 1> const one = {1};
    return from.exchange("exchange", nullptr, none, &byte, one);
  }

  nccl_ranks ranks{1};
  std::unique_ptr<nccl_queue> queue;
};

TEST(NcclQueueSplits, GivesAQueueThatOwnsItsCommunicator)
{
  nccl_ranks ranks(3);
  ranks.run([&](std::size_t rank) {
    nccl_queue queue(ranks.comm(rank),
                     std::make_shared<nccl_stream>(ranks.stream(rank), time_bound));
    auto const part = queue.part();
    EXPECT_EQ(part->native(), nullptr);
    auto const split = queue.split(*part, rank == 1 ? 5 : 4, -static_cast<int>(rank));
    ASSERT_TRUE(split);
    EXPECT_NE(part->native(), queue.native());
    EXPECT_EQ(part->stream(), queue.stream());
    int position = -1;
    EXPECT_EQ(ncclCommUserRank(part->native(), &position), ncclSuccess);
    EXPECT_EQ(position, rank == 0 ? 1 : 0) << "by falling rank";
  });
  EXPECT_EQ(ballast_test::live_communicators(), 3U);
}

TEST_F(NcclQueueSplit, LosesNoCommunicatorWhereItDoesNotSettle)
{
  ranks.make_non_blocking(ballast_test::never);
  nccl_queue parent(ranks.comm(0), std::make_shared<nccl_stream>(ranks.stream(0), very_soon));
  auto const part = parent.part();
  auto const split = parent.split(*part, 0, 0);
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code, error_code::timed_out);
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST_F(NcclQueueSplit, BreaksWithAPartThatDoesNotComeUp)
{
  ballast_test::make_parts_non_blocking(ranks.comm(0), ballast_test::never);
  nccl_queue parent(ranks.comm(0), std::make_shared<nccl_stream>(ranks.stream(0), very_soon));
  auto const part = parent.part();
  auto const split = parent.split(*part, 0, 0);
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code, error_code::timed_out);
  auto const again = parent.drain("wait");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error(), split.error());
  EXPECT_EQ(ranks.comm(0), nullptr);
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST_F(NcclQueueSplit, DestroysItsOwnWhereNcclIsNotBlocking)
{
  ballast_test::make_parts_non_blocking(ranks.comm(0), 3);
  std::size_t const before = ballast_test::aborts();
  split(time_bound).reset();
  EXPECT_EQ(ballast_test::live_communicators(), 1U);
  EXPECT_EQ(ballast_test::aborts(), before);
}

TEST_F(NcclQueueSplit, AbortsItsOwnWhereItCannotBeFinalizedInTime)
{
  auto part = split(very_soon);
  ballast_test::make_non_blocking(part->native(), ballast_test::never);
  std::size_t const before = ballast_test::aborts();
  part.reset();
  EXPECT_EQ(ballast_test::live_communicators(), 1U);
  EXPECT_EQ(ballast_test::aborts(), before + 1);
  EXPECT_TRUE(queue->drain("wait"));
}

TEST_F(NcclQueueSplit, AbortsItsOwnWhereItsWorkDoesNotEnd)
{
  auto part = split(very_soon);
  ASSERT_TRUE(receive(*part));
  part.reset();
  EXPECT_EQ(ballast_test::live_communicators(), 1U);
  EXPECT_TRUE(queue->drain("wait"));
  EXPECT_EQ(cudaStreamQuery(ranks.stream(0)), cudaSuccess);
}

TEST_F(NcclQueueSplit, OutlivesItsParent)
{
  auto part = split(time_bound);
  queue.reset();
  EXPECT_TRUE(part->drain("wait"));
}

}  // namespace
