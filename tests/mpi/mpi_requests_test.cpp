// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/mpi/mpi_requests.hpp>

#include <gtest/gtest.h>
#include "../support/counted_allocations.hpp"
#include "mpi_world.hpp"  // defines: ballast_test::{world_rank, world_size, stop_in, ...}

#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace {

using ballast::error_code;
using ballast::rank_id;
using ballast::detail::mpi_requests;
using ballast_test::stop_in;
using ballast_test::world_barrier;
using ballast_test::world_processes;
using ballast_test::world_rank;
using ballast_test::world_size;
using namespace std::chrono_literals;

// Requests over communicators of their own; these stay, as those of a roll that was called must.
class MpiRequests : public testing::Test {
 protected:
  MpiRequests()
  {
    MPI_Comm_dup(MPI_COMM_WORLD, &data_);
    MPI_Comm_dup(MPI_COMM_WORLD, &control_);
    MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN);
  }

  mpi_requests listening(std::chrono::milliseconds deadline)
  {
    mpi_requests requests(deadline);
    listen(requests);
    return requests;
  }

  void listen(mpi_requests& requests)
  {
    EXPECT_TRUE(requests.listen(control_, /*tag=*/3, ballast_test::world_members(), self_));
  }

  void send(mpi_requests& requests, int const& number, std::size_t to)
  {
    requests.started("MPI_Isend", MPI_Isend(&number, 1, MPI_INT, static_cast<int>(to), 0, data_,
                                            requests.next()));
  }

  void receive(mpi_requests& requests, int& number, std::size_t from)
  {
    requests.started("MPI_Irecv", MPI_Irecv(&number, 1, MPI_INT, static_cast<int>(from), 0, data_,
                                            requests.next_receive()));
  }

  std::size_t const self_ = world_rank();
  std::size_t const size_ = world_size();
  std::size_t const next_ = (self_ + 1) % size_;
  std::size_t const previous_ = (self_ + size_ - 1) % size_;
  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Comm control_ = MPI_COMM_NULL;
};

TEST_F(MpiRequests, WaitUntilAllAreDone)
{
  auto requests = listening(20s);
  requests.expect(2);
  int const sent = static_cast<int>(self_);
  for (int round = 0; round < 3; ++round) {
    int received = -1;
    EXPECT_TRUE(requests.enter("round"));
    receive(requests, received, previous_);
    send(requests, sent, next_);
    EXPECT_TRUE(requests.wait("round"));
    EXPECT_EQ(received, static_cast<int>(previous_));
  }
  requests.stop_listening();
}

TEST_F(MpiRequests, WaitAsLongAsThereIsADeadlineFor)
{
  auto requests = listening(std::chrono::milliseconds::max());
  requests.expect(2);
  int const sent = 5;
  int received = -1;
  receive(requests, received, previous_);
  if (self_ == 0) { std::this_thread::sleep_for(20ms); }
  send(requests, sent, next_);
  EXPECT_TRUE(requests.wait("long"));
  EXPECT_EQ(received, 5);
  requests.stop_listening();
}

// Ensures (1): seven messages over longer than the deadline, but none that long after another.
TEST_F(MpiRequests, CountTheDeadlineFromTheLastMessage)
{
  auto requests = listening(1s);
  std::vector<int> numbers(7);
  requests.expect(numbers.size());
  for (int& number : numbers) {
    if (self_ == 1) { receive(requests, number, 0); }
  }
  for (int const& number : numbers) {
    if (self_ != 0 || size_ == 1) { continue; }
    std::this_thread::sleep_for(200ms);
    MPI_Send(&number, 1, MPI_INT, 1, 0, data_);
  }
  auto const done = requests.wait("slow");
  EXPECT_TRUE(done) << done.error().message;
  world_barrier();
  requests.stop_listening();
}

// An exception among them would leave MPI with arrays that their owner gives back.
TEST_F(MpiRequests, AreStartedWithoutAllocating)  // Ensures (3)
{
  auto requests = listening(20s);
  std::vector<int> const sent(500, 4);
  std::vector<int> received(500);
  requests.expect(sent.size() + received.size());
  std::size_t const before = ballast_test::allocations();
  for (int& number : received) { receive(requests, number, previous_); }
  for (int const& number : sent) { send(requests, number, next_); }
  auto const done = requests.wait("many");
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_TRUE(done);
  EXPECT_EQ(received, sent);
  requests.stop_listening();
}

// All are here, so no rank is missing, and what was never sent does not arrive later.
TEST_F(MpiRequests, GiveUpAndTakeReceivesBack)
{
  world_barrier();  // who comes long after another is named
  auto requests = listening(2s);
  int unsent = -1;
  receive(requests, unsent, previous_);
  auto const done = requests.wait("nothing");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::timed_out);
  EXPECT_EQ(done.error().ranks, std::vector<rank_id>{});

  world_barrier();
  int const sent = 9;
  int received = 0;
  MPI_Sendrecv(&sent, 1, MPI_INT, static_cast<int>(next_), 0, &received, 1, MPI_INT,
               static_cast<int>(previous_), 0, data_, MPI_STATUS_IGNORE);
  EXPECT_EQ(received, 9);
  EXPECT_EQ(unsent, -1);
}

// The others would wait until the test's time is over.
TEST_F(MpiRequests, GiveUpWithTheFirstThatDoes)
{
  world_barrier();
  auto requests = listening(self_ == 0 ? 2s : 1h);
  int unsent = -1;
  receive(requests, unsent, previous_);
  auto const done = requests.wait("nothing");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().ranks, std::vector<rank_id>{});
  world_barrier();
}

TEST_F(MpiRequests, BeginNothingOnceTheRollWasCalled)  // Ensures (2)
{
  if (size_ < 2) { return; }
  ballast_test::clock_of_processes clock(size_ - 1);
  auto requests = listening(2s);
  std::vector<rank_id> const late = {rank_id{1}};
  int unsent = -1;
  if (self_ != 1) {
    clock.waits_until(2s);
    receive(requests, unsent, 1);
    auto const done = requests.wait("first");
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().ranks, late);
  }
  world_barrier();
  if (self_ == 1) {
    auto const entered = requests.enter("first");
    ASSERT_FALSE(entered);
    EXPECT_EQ(entered.error().code, error_code::timed_out);
    EXPECT_EQ(entered.error().ranks, late);
  }
  world_barrier();
}

// All but rank 1 are past the operation that the roll is called for, and their next has a number
// that begins again.
TEST_F(MpiRequests, TellWhoIsPastTheOperationFromWhoIsLate)
{
  if (size_ < 3) { return; }
  ballast_test::clock_of_processes clock(1);
  mpi_requests requests(4s);
  for (int number = 1; number < 8191; ++number) { EXPECT_TRUE(requests.enter("earlier")); }
  std::vector<rank_id> const late = {rank_id{1}};
  int unsent = -1;
  if (self_ <= 1) { listen(requests); }
  if (self_ == 0) {
    clock.waits_until(4s);
    EXPECT_TRUE(requests.enter("last"));
    receive(requests, unsent, 1);
    auto const done = requests.wait("last");
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().ranks, late) << done.error().message;
  } else if (self_ != 1) {
    EXPECT_TRUE(requests.enter("last"));
    MPI_Probe(0, MPI_ANY_TAG, control_, MPI_STATUS_IGNORE);  // until the roll is called
    listen(requests);
    auto const entered = requests.enter("next");
    ASSERT_FALSE(entered);
    EXPECT_EQ(entered.error().ranks, late) << entered.error().message;
  }
  world_barrier();
  if (self_ == 1) {
    auto const entered = requests.enter("last");
    ASSERT_FALSE(entered);
    EXPECT_EQ(entered.error().ranks, late) << entered.error().message;
  }
  world_barrier();
}

// Rank 1 has come to the operation just before it hears the roll call, so it says that it is here.
// The others have waited for it all the same.
TEST_F(MpiRequests, NameTheRankThatCameJustBeforeTheRollCall)
{
  if (size_ < 2) { return; }
  auto requests = listening(2s);
  std::vector<rank_id> const last = {rank_id{1}};
  EXPECT_TRUE(requests.enter("first"));
  world_barrier();
  if (self_ == 1) {
    std::this_thread::sleep_for(1900ms);
    EXPECT_TRUE(requests.enter("second"));
    std::this_thread::sleep_for(300ms);
  } else {
    EXPECT_TRUE(requests.enter("second"));
  }
  int unsent = -1;
  receive(requests, unsent, previous_);
  auto const done = requests.wait("second");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::timed_out);
  EXPECT_EQ(done.error().ranks, last) << done.error().message;
  world_barrier();
}

// It was there in time, but was stopped for most of it.
TEST_F(MpiRequests, NameTheRankThatWasStoppedUntilJustBeforeTheRollCall)
{
  if (size_ < 3) { return; }
  ballast_test::clock_of_processes clock(size_ - 1);
  ballast_test::shared_flag was_stopped;
  auto requests = listening(2s);
  EXPECT_TRUE(requests.enter("stopped"));
  world_barrier();
  int unsent = -1;
  receive(requests, unsent, previous_);
  std::jthread stops;
  if (self_ == 1) {
    stops = std::jthread([&] {
      ballast_test::hand_moved_clock::pass_when(1, 1700ms);
      was_stopped.raise();
    });
  } else {
    EXPECT_TRUE(was_stopped.wait());
    clock.waits_until(2s);
  }
  auto const done = requests.wait("stopped");
  ASSERT_FALSE(done);
  EXPECT_EQ(std::ranges::count(done.error().ranks, rank_id{1}), 1) << done.error().message;
  world_barrier();
}

// The test of a transfer that finds it done is the first after the deadline.
TEST_F(MpiRequests, WaitForATransferThatIsDoneJustAfterTheDeadline)
{
  ballast_test::hand_moved_clock clock;
  auto requests = listening(1s);
  int tests = 0;
  auto const done = requests.wait_for("transfer", next_, [&]() -> ballast::result<bool> {
    clock.pass(150ms);
    return ++tests == 7;
  });
  EXPECT_TRUE(done) << done.error().message;
  world_barrier();
  requests.stop_listening();
}

TEST_F(MpiRequests, StopListeningIfTheyNeverBegan)
{
  mpi_requests requests(1s);
  requests.stop_listening();
  EXPECT_TRUE(requests.wait("nothing"));
}

TEST_F(MpiRequests, DoNotCountTheTimeInWhichTheProcessIsStopped)
{
  if (size_ < 2) { return; }
  auto const processes = world_processes();
  auto requests = listening(1s);
  int number = 3;
  if (self_ == 0) {
    std::this_thread::sleep_for(1500ms);
    kill(processes[1], SIGCONT);
    std::this_thread::sleep_for(300ms);
    MPI_Send(&number, 1, MPI_INT, 1, 0, data_);
  } else if (self_ == 1) {
    receive(requests, number, 0);
    stop_in(100ms);
    auto const done = requests.wait("interrupted");
    EXPECT_TRUE(done) << done.error().message;
  }
  world_barrier();
  requests.stop_listening();
}

// A process that is stopped now and then has its deadline all the same: its absence does not count,
// but what it waited before does. Another one stops it at most twenty times, for 14 s in all.
TEST_F(MpiRequests, ReachTheDeadlineOfAProcessThatIsStoppedNowAndThen)
{
  if (size_ < 2) { return; }
  auto const processes = world_processes();
  auto requests = listening(1s);
  ballast_test::shared_flag over;
  int unsent = -1;
  if (self_ == 0) {
    receive(requests, unsent, 1);
    EXPECT_FALSE(requests.wait("interrupted"));
    over.raise();
  } else if (self_ == 1) {
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

TEST_F(MpiRequests, ReportTheFirstThatMpiRefuses)
{
  auto requests = listening(20s);
  int const sent = 1;
  requests.expect(2);
  send(requests, sent, size_ + 4);
  requests.started("MPI_Ibcast", MPI_ERR_COUNT);
  auto const done = requests.wait("refused");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::transport);
  EXPECT_EQ(done.error().position, static_cast<std::size_t>(MPI_ERR_RANK));
  EXPECT_EQ(done.error().message.find("MPI_Isend failed with code "), 0U) << done.error().message;
  EXPECT_NE(done.error().message.find("MPI_ERR_RANK"), std::string::npos) << done.error().message;
  requests.stop_listening();
}

}  // namespace
