// SPDX-License-Identifier: Apache-2.0
// Which ranks are named where a wait has reached its deadline, and what counts as waiting.
#include <ballast/comm/mpi_communicator.hpp>

#include "../support/test.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{over_world, world_barrier, stop_in, ...}

#include <signal.h>

namespace {

using ballast::mpi_communicator;
using ballast::rank_id;
using ballast::result;
using ballast_test::over_world;
using ballast_test::stop_in;
using ballast_test::world_barrier;
using ballast_test::world_processes;
using namespace std::chrono_literals;

using ranks = std::vector<rank_id>;
std::byte place{};  // stays as long as MPI

/// The rank's part in a call in which it expects a byte from another one that nobody sends.
result<void> expect_a_byte(mpi_communicator& comm, std::size_t from, bool expects = true)
{
  std::vector<std::size_t> const none(comm.size(), 0);
  std::vector<std::size_t> received(none);
  received[from] = expects ? 1 : 0;
  return comm.all_to_all_v({}, none, std::span(&place, received[from]), received);
}

std::size_t rank_before(mpi_communicator const& comm)
{
  return (to_index(comm.rank()) + comm.size() - 1) % comm.size();
}

result<void> receive_a_byte(mpi_communicator& comm, std::size_t from)
{
  auto const received = comm.receive({&place, 1}, ballast::to_id<rank_id>(from));
  if (!received) { return tl::unexpected(received.error()); }
  auto done = comm.wait_for(*received);
  if (!done) { (void)comm.cancel(*received); }
  return done;
}

void expect_timed_out(result<void> const& done, ranks const& named)
{
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ballast::error_code::timed_out);
  EXPECT_EQ(done.error().ranks, named) << done.error().message;
}

// Rank 0 waits for longer than the deadline, but never that long for the next message.
TEST(MpiWaits, CountTheDeadlineFromTheLastMessage)  // Ensures (2)
{
  auto comm = over_world({.deadline = 2s, .verify = false});
  if (comm.size() < 4) { return; }
  std::size_t const self = to_index(comm.rank());
  std::vector<std::size_t> sent(comm.size(), 0), received(comm.size(), self == 0 ? 1 : 0);
  sent[0] = 1;
  std::this_thread::sleep_for(std::min<std::size_t>(self, 3) * 900ms);
  std::vector<std::byte> const out(1);
  std::vector<std::byte> in(self == 0 ? comm.size() : 0);
  auto const done = comm.all_to_all_v(out, sent, in, received);
  EXPECT_TRUE(done) << done.error().message;
  world_barrier();
}

// All are here, in a call or in a circle of transfers: nobody holds up the others. Those that began
// to wait late give up with the first, or it would miss them.
TEST(MpiWaits, NameNobodyWhereAllWaitForWhatNobodySends)
{
  for (bool const in_transfers : {false, true}) {
    auto comm = over_world({.deadline = 2s, .verify = false});
    if (comm.size() < 2) { return; }
    EXPECT_TRUE(comm.barrier());
    bool const begins_late = in_transfers && comm.rank() != rank_id{0};
    if (begins_late) { std::this_thread::sleep_for(1s); }
    expect_timed_out(in_transfers ? receive_a_byte(comm, rank_before(comm))
                                  : expect_a_byte(comm, rank_before(comm)),
                     {});
    world_barrier();
  }
}

// Rank 1 has finished the call in which the others wait, and has not waited long in its next.
TEST(MpiWaits, DoNotNameWhoHasNotWaitedLongFurtherOn)
{
  auto comm = over_world({.deadline = 2s, .verify = false});
  if (comm.size() < 3) { return; }
  EXPECT_TRUE(comm.barrier());
  bool const is_past = comm.rank() == rank_id{1};
  auto done = expect_a_byte(comm, rank_before(comm), !is_past);
  if (is_past) {
    EXPECT_TRUE(done);
    std::this_thread::sleep_for(1600ms);
    done = expect_a_byte(comm, 0);
  }
  expect_timed_out(done, {});
  world_barrier();
}

// It has come when the roll is called, and says so. The others have waited for it all the same.
TEST(MpiWaits, NameWhoCameJustBeforeTheDeadline)
{
  auto comm = over_world({.deadline = 2s, .verify = false});
  if (comm.size() < 2) { return; }
  EXPECT_TRUE(comm.barrier());
  if (comm.rank() == rank_id{1}) { std::this_thread::sleep_for(1800ms); }
  expect_timed_out(expect_a_byte(comm, rank_before(comm)), {rank_id{1}});
  world_barrier();
}

// It came in time, but was stopped for most of it. Rank 0, which lets it go, comes late as well.
TEST(MpiWaits, NameWhoWasStoppedUntilJustBeforeTheDeadline)
{
  auto const processes = world_processes();
  auto comm = over_world({.deadline = 2s, .verify = false});
  if (comm.size() < 3) { return; }
  EXPECT_TRUE(comm.barrier());
  if (comm.rank() == rank_id{1}) { stop_in(100ms); }
  if (comm.rank() == rank_id{0}) {
    std::this_thread::sleep_for(1900ms);
    kill(processes[1], SIGCONT);
  }
  auto const done = expect_a_byte(comm, rank_before(comm));
  ASSERT_FALSE(done);
  EXPECT_EQ(std::ranges::count(done.error().ranks, rank_id{1}), 1) << done.error().message;
  world_barrier();
}

TEST(MpiWaits, DoNotCountTheTimeInWhichTheProcessIsStopped)
{
  auto const processes = world_processes();
  auto comm = over_world({.deadline = 1s});
  if (comm.size() < 2) { return; }
  EXPECT_TRUE(comm.barrier());
  if (comm.rank() == rank_id{0}) {
    std::this_thread::sleep_for(1500ms);
    kill(processes[1], SIGCONT);
    std::this_thread::sleep_for(300ms);
    auto const sent = comm.send({&place, 1}, rank_id{1}).value();
    EXPECT_TRUE(comm.wait_for(sent));
  } else if (comm.rank() == rank_id{1}) {
    stop_in(100ms);
    auto const done = receive_a_byte(comm, 0);
    EXPECT_TRUE(done) << done.error().message;
  }
  world_barrier();
}

// A process that is stopped now and then has its deadline all the same: its absence does not count,
// but what it waited before does. Another one stops it at most twenty times, for 14 s in all.
TEST(MpiWaits, ReachTheDeadlineOfAProcessThatIsStoppedNowAndThen)
{
  auto const processes = world_processes();
  auto comm = over_world({.deadline = 1s});
  if (comm.size() < 2) { return; }
  ballast_test::shared_flag over;
  if (comm.rank() == rank_id{0}) {
    expect_timed_out(receive_a_byte(comm, 1), {rank_id{1}});
    over.raise();
  } else if (comm.rank() == rank_id{1}) {
    int stops = 0;
    while (stops < 20 && !over.wait(400ms)) {
      ++stops;
      kill(processes[0], SIGSTOP);
      std::this_thread::sleep_for(300ms);
      kill(processes[0], SIGCONT);
    }
    EXPECT_LT(stops, 20);
  }
  world_barrier();
}

}  // namespace
