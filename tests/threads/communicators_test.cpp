// SPDX-License-Identifier: Apache-2.0
// Which threads may call a communicator. What all communicators promise is in comm/conformance.hpp.

#include <ballast/comm/gather_samples.hpp>

#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>

namespace {

using ballast::error_code;
using ballast::thread_communicator;
using testing::Each;

// What every rank of the group holds after `calls` all-gathers: the sum of what all have sent.
std::uint64_t gather_often(thread_communicator& comm, std::uint64_t first, int calls)
{
  std::uint64_t sum = 0;
  std::vector<std::uint64_t> all(comm.size());
  for (int call = 0; call < calls; ++call) {
    std::uint64_t const own = first + to_index(comm.rank());
    or_throw(
        comm.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))));
    for (std::uint64_t const each : all) { sum += each; }
  }
  return sum;
}

TEST(CommunicatorsOfARank, MayBeUsedFromAThreadEach)
{
  auto const sums = ballast::run_ranks(3, [](thread_communicator& comm) {
    auto other = comm.split(0).value();
    std::uint64_t of_other = 0;
    {
      std::jthread const second([&] { of_other = gather_often(other, 1000, 50); });
      EXPECT_EQ(gather_often(comm, 0, 50), 50U * (0 + 1 + 2));
    }
    return of_other;
  });
  EXPECT_THAT(sums, Each(50U * (1000 + 1001 + 1002)));
}

TEST(CommunicatorsOfARank, MayMoveFromThreadToThreadBetweenCalls)
{
  auto const sums = ballast::run_ranks(2, [](thread_communicator& comm) {
    std::uint64_t sum = gather_often(comm, 1, 1);
    std::jthread([&] { sum += gather_often(comm, 1, 1); }).join();
    std::jthread([&, moved = std::move(comm)]() mutable {
      sum += gather_often(moved, 1, 1);
    }).join();
    return sum;
  });
  EXPECT_THAT(sums, Each(3U * (1 + 2)));
}

TEST(CommunicatorsOfARank, AreCalledInOneOrderByAllRanks)
{
  auto const codes = ballast::run_ranks(2, [](thread_communicator& comm) {
    std::uint64_t const word = 7;
    auto const done = comm.rank() == ballast::rank_id{0} ? comm.barrier()
                                                         : ballast::agree(comm, word, "the plan");
    return done ? error_code::infeasible : done.error().code;
  });
  EXPECT_THAT(codes, Each(error_code::mismatch));
}

}  // namespace
