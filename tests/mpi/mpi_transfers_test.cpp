// SPDX-License-Identifier: Apache-2.0
// Transfers between two processes.
#include <ballast/comm/communicator.hpp>

#include "../comm/transfer_checks.hpp"  // defines: ballast_test::transfer_checks
#include "../support/test.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{over_world, world_barrier, world_size, ...}

#include <ballast/comm/mpi_communicator.hpp>

namespace {

using ballast::error_code;
using ballast::mpi_communicator;
using ballast::rank_id;
using ballast_test::over_world;
using ballast_test::world_barrier;
using pair_suite = ballast_test::transfer_checks<mpi_communicator>;
using namespace std::chrono_literals;

static_assert(ballast::point_to_point<mpi_communicator>);

/// Rank 0 receives what rank 1 sends, which should be longer or shorter, in these parts.
void expect_difference(mpi_communicator& comm, std::vector<std::byte>& array)
{
  auto const received = comm.receive(array, rank_id{1}).value();
  auto const done = comm.wait_for(received);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::mismatch) << done.error().message;
  EXPECT_EQ(done.error().ranks, std::vector{rank_id{1}});
}

// Messages that differ by whole parts.
TEST(MpiTransfersThatDiffer, AreFoundWhereAllPartsAreFull)
{
  auto comm = over_world({.deadline = 20s, .largest_message = 1000});
  if (comm.size() < 2) { return; }
  struct sizes {
    std::size_t sent;
    std::size_t expected;
  };
  for (auto const [sent, expected] :
       {sizes{1000, 2000}, {0, 1000}, {2000, 1000}, {3000, 1000}, {1000, 0}}) {
    SCOPED_TRACE(testing::Message() << sent << " bytes, expected " << expected);
    std::vector<std::byte> array(comm.rank() == rank_id{1} ? sent : expected);
    if (comm.rank() == rank_id{1}) {
      auto const id = comm.send(array, rank_id{0});
      ASSERT_TRUE(id);
      EXPECT_TRUE(comm.wait_for(*id));
    } else if (comm.rank() == rank_id{0}) {
      expect_difference(comm, array);
    }
    EXPECT_TRUE(comm.barrier());
  }
  EXPECT_TRUE(comm.barrier());
}

// The last part tells that messages differ while the first, a large one, is still under way.
TEST(MpiTransfersThatDiffer, LeaveTheirBytesAloneAfterwards)
{
  constexpr std::size_t large = 3'000'000;
  auto comm = over_world({.deadline = 20s, .largest_message = large});
  if (comm.size() < 2) { return; }
  std::vector<std::byte> array(large + (comm.rank() == rank_id{1} ? 10 : 20), std::byte{1});
  ballast_test::shared_flag begun;
  if (comm.rank() == rank_id{1}) {
    auto const id = comm.send(array, rank_id{0});
    begun.raise();
    std::this_thread::sleep_for(300ms);
    ASSERT_TRUE(id);
    EXPECT_TRUE(comm.wait_for(*id));
  } else if (comm.rank() == rank_id{0}) {
    EXPECT_TRUE(begun.wait());
    expect_difference(comm, array);
    array.assign(array.size(), std::byte{2});
  }
  EXPECT_TRUE(comm.barrier());
  if (comm.rank() == rank_id{0}) {
    EXPECT_EQ(std::ranges::count(array, std::byte{2}), std::ssize(array));
  }
}

void expect_late(ballast::result<void> const& done, rank_id rank)
{
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::timed_out);
  EXPECT_EQ(done.error().ranks, std::vector{rank}) << done.error().message;
}

TEST(MpiTransfersThatFail, NameWhoDoesNotComeToAll)
{
  ballast_test::clock_of_processes clock(ballast_test::world_size() - 1);
  auto comm = over_world({.deadline = 2s});
  if (comm.size() < 2) { return; }
  rank_id const late{1};
  if (comm.rank() != late) { clock.waits_until(comm.deadline()); }
  if (comm.rank() != late) { expect_late(pair_suite::exchange_with_all(comm, 5000), late); }
  world_barrier();
  // It finds out when it comes.
  if (comm.rank() == late) { expect_late(pair_suite::exchange_with_all(comm, 5000), late); }
  EXPECT_FALSE(comm.barrier());
  world_barrier();
}

// The others wait for rank 0, rank 0 for the last; who has nothing to do with it waits in a
// barrier.
TEST(MpiTransfersThatFail, NameTheRankForWhichAllWait)
{
  ballast_test::clock_of_processes clock(ballast_test::world_size() - 1);
  auto comm = over_world({.deadline = 2s});
  std::size_t const size = comm.size();
  std::size_t const self = to_index(comm.rank());
  if (size < 3) { return; }
  auto const last = ballast::to_id<rank_id>(size - 1);
  static std::byte place{};  // stays as long as MPI
  if (self + 1 < size) {
    clock.waits_until(comm.deadline());
    ballast::result<void> done;
    if (self == 2 && size > 3) {
      done = comm.barrier();
    } else {
      auto const received = comm.receive({&place, 1}, self == 0 ? last : rank_id{0});
      ASSERT_TRUE(received);
      done = comm.wait_for(*received);
      EXPECT_TRUE(comm.cancel(*received));
    }
    expect_late(done, last);
  }
  world_barrier();
}

// A rank that computes is not named by others that wait for another one.
TEST(MpiTransfersThatFail, DoNotNameWhoComputes)
{
  ballast_test::clock_of_processes clock(1);
  auto comm = over_world({.deadline = 2s});
  if (comm.size() < 3) { return; }
  static std::byte place{};
  rank_id const silent{1};
  if (comm.rank() == rank_id{0}) {
    clock.waits_until(comm.deadline());
    auto const received = comm.receive({&place, 1}, silent);
    ASSERT_TRUE(received);
    expect_late(comm.wait_for(*received), silent);
    (void)comm.cancel(*received);
  }
  world_barrier();
  if (comm.rank() != rank_id{0} && comm.rank() != silent) { expect_late(comm.barrier(), silent); }
  world_barrier();
}

}  // namespace
