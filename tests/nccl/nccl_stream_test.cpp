// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/detail/nccl_stream.hpp>

#include <gmock/gmock.h>
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <cstddef>
#include <vector>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast::detail::nccl_member;
using ballast::detail::nccl_stream;
using ballast_test::nccl_ranks;
using ballast_test::time_bound;
using ballast_test::very_soon;
using testing::HasSubstr;

/// Two communicators of one rank each on one stream.
struct NcclStream : testing::Test {
  NcclStream()
  {
    for (nccl_stream* const each : {&stream, &patient}) {
      each->join(first);
      each->join(second);
    }
  }

  /// Ends.
  void broadcast(nccl_member& member)
  {
    EXPECT_EQ(ncclBroadcast(&byte, &byte, 1, ncclUint8, 0, *member.comm, stream.native()),
              ncclSuccess);
    member.pending = true;
  }

  /// Does not end, since no rank sends.
  void receive(nccl_member& member)
  {
    EXPECT_EQ(ncclRecv(&byte, 1, ncclUint8, 0, *member.comm, stream.native()), ncclSuccess);
    member.pending = true;
  }

  std::byte byte{};
  nccl_ranks ranks{1};
  nccl_ranks others{1};
  nccl_stream stream{ranks.stream(0), very_soon};
  nccl_stream patient{ranks.stream(0), time_bound};
  nccl_member first{.comm = &ranks.comm(0)};
  nccl_member second{.comm = &others.comm(0)};
};

void expect_timed_out(nccl_member const& member, std::vector<rank_id> const& missing)
{
  ASSERT_TRUE(member.failure);
  EXPECT_EQ(member.failure->code, error_code::timed_out);
  EXPECT_EQ(member.failure->ranks, missing);
  EXPECT_THAT(member.failure->message,
              HasSubstr(missing.empty() ? "wait: some ranks" : "wait: rank 3"));
  EXPECT_EQ(*member.comm, nullptr);
}

TEST_F(NcclStream, WaitsForAMemberOnlyWhereItHasSomethingPending)
{
  receive(first);
  EXPECT_TRUE(stream.drain(second, "wait"));
  EXPECT_TRUE(first.pending);
  EXPECT_FALSE(stream.drain(first, "wait"));
}

// To ask the stream would end the capture, and to give up the communicator would be for nothing.
TEST_F(NcclStream, RefusesToWaitWhileTheStreamIsCaptured)
{
  broadcast(first);
  ballast_test::capture(patient.native(), true);
  auto const done = patient.drain(first, "wait");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ballast::error_code::wrong_order) << done.error().message;
  EXPECT_TRUE(first.pending);
  EXPECT_NE(*first.comm, nullptr);
  ballast_test::capture(patient.native(), false);
  EXPECT_TRUE(patient.drain(first, "wait"));
}

TEST_F(NcclStream, SeesAnEmptyStreamForAll)
{
  broadcast(first);
  broadcast(second);
  EXPECT_TRUE(patient.drain(second, "wait"));
  EXPECT_FALSE(first.pending);
  EXPECT_FALSE(second.pending);
}

// The second's kernel holds up that of the first, and so the first's abort, until it ends too.
TEST_F(NcclStream, EndsAllThatHaveSomethingPendingTogether)  // Ensures (1)
{
  receive(second);
  receive(first);
  auto const done = stream.drain(second, "wait", [&] {
    EXPECT_EQ(*second.comm, nullptr) << "asked before the abort";
    return std::vector{rank_id{3}};
  });
  ASSERT_FALSE(done);
  expect_timed_out(second, {rank_id{3}});
  expect_timed_out(first, {});
  EXPECT_EQ(cudaStreamQuery(stream.native()), cudaSuccess);
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST_F(NcclStream, LeavesAloneThoseThatHaveNothingPending)  // Ensures (2)
{
  receive(first);
  ASSERT_FALSE(stream.drain(first, "wait"));
  expect_timed_out(first, {});
  EXPECT_FALSE(second.failure);
  EXPECT_NE(*second.comm, nullptr);
  broadcast(second);
  EXPECT_TRUE(patient.drain(second, "wait")) << "the stream is free again";
}

TEST_F(NcclStream, EndsAllWhereALibraryFails)  // Ensures (1)
{
  receive(first);
  receive(second);
  ballast_test::fail_asynchronously(*second.comm, ncclRemoteError);
  auto const done = patient.drain(second, "wait");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::transport);
  EXPECT_EQ(first.failure, second.failure);
  EXPECT_EQ(ballast_test::live_communicators(), 0U);
}

TEST_F(NcclStream, QuiescesEvenWithoutEnd)
{
  stream.quiesce();
  EXPECT_FALSE(first.failure || second.failure);
  receive(first);
  stream.quiesce();
  expect_timed_out(first, {});
  EXPECT_FALSE(second.failure);
  EXPECT_EQ(cudaStreamQuery(stream.native()), cudaSuccess);
}

TEST_F(NcclStream, LeavesNoErrorOfItsPollsBehind)  // Ensures (3)
{
  (void)cudaGetLastError();
  receive(first);
  ASSERT_FALSE(stream.drain(first, "wait"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(NcclStream, LeavesTheCallersOwnErrorAlone)
{
  ballast_test::refuse_pinned_memory(true);
  void* memory = nullptr;
  EXPECT_EQ(cudaMallocHost(&memory, 1), cudaErrorMemoryAllocation);
  ballast_test::refuse_pinned_memory(false);
  first.pending = true;
  ASSERT_TRUE(patient.drain(first, "wait"));
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST_F(NcclStream, KeepsTheFirstErrorOfEach)
{
  (void)stream.give_up(first, ballast::comm_failure::transport("first", 1, ""));
  (void)stream.give_up(first, ballast::comm_failure::transport("second", 2, ""));
  auto const again = stream.drain(first, "wait");
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("first failed"));
}

TEST_F(NcclStream, ReportsACommunicatorThatIsNone)
{
  ncclComm_t none = nullptr;
  nccl_member member{.comm = &none};
  stream.join(member);
  auto const done = stream.drain(member, "wait");
  stream.leave(member);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().position, static_cast<std::size_t>(ncclInvalidArgument));
}

}  // namespace
