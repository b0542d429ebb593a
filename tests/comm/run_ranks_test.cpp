// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>

#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"
#include "pipe_communicator.hpp"
#include "transfer_checks.hpp"  // defines: ballast_test::transfer_checks

#include <ballast/comm/communicator.hpp>

#include <atomic>
#include <latch>
#include <stdexcept>

namespace {

using namespace ballast;
using namespace std::chrono_literals;
using thread_checks = ballast_test::transfer_checks<thread_communicator>;

TEST(RunRanks, CallsEachRankOnce)
{
  std::vector<std::atomic<int>> calls(5);
  run_ranks(5, [&](thread_communicator& comm) {
    EXPECT_EQ(comm.size(), 5U);
    ++calls[to_index(comm.rank())];
  });
  for (auto const& count : calls) { EXPECT_EQ(count, 1); }
}

TEST(RunRanks, GivesValuesBackByRank)  // Ensures (1)
{
  auto const squares = run_ranks(
      4, [](thread_communicator& comm) { return to_index(comm.rank()) * to_index(comm.rank()); });
  EXPECT_EQ(squares, (std::vector<std::size_t>{0, 1, 4, 9}));
}

// Flags are packed in a vector<bool>; ranks must not write into the same word.
TEST(RunRanks, GivesFlagsAndWhatCannotBeCopiedBack)
{
  auto const odd =
      run_ranks(16, [](thread_communicator& comm) { return to_index(comm.rank()) % 2 == 1; });
  for (std::size_t rank = 0; rank < 16; ++rank) { EXPECT_EQ(odd[rank], rank % 2 == 1); }

  auto const owned = run_ranks(
      2, [](thread_communicator& comm) { return std::make_unique<std::size_t>(comm.size()); });
  EXPECT_EQ(*owned.at(1), 2U);
}

static_assert(std::is_void_v<decltype(run_ranks(1, [](thread_communicator&) {}))>);
static_assert(
    std::is_same_v<decltype(run_ranks(1, [](ballast::communicator auto&) { return 'c'; })),
                   std::vector<char>>);

TEST(RunRanks, RethrowsTheCauseAndNotItsConsequences)  // Ensures (2) (3)
{
  for (int trial = 0; trial < 50; ++trial) {
    std::atomic<int> told = 0;
    try {
      run_ranks(
          4,
          [&](thread_communicator& comm) {
            if (to_index(comm.rank()) == 3) { throw std::runtime_error("the cause"); }
            auto const met = comm.barrier();
            ASSERT_FALSE(met);
            EXPECT_EQ(met.error().code, error_code::peer_lost);
            ++told;
            throw std::logic_error("a consequence");
          },
          60s);
      ADD_FAILURE() << "threw nothing";
    } catch (std::runtime_error const& cause) {
      EXPECT_STREQ(cause.what(), "the cause");
    }
    EXPECT_EQ(told, 3) << "all have ended";
  }
}

TEST(RunRanks, PassesTheDeadlineOn)
{
  std::latch given_up(1);
  auto const outcomes = run_ranks(
      2,
      [&](thread_communicator& comm) {
        if (to_index(comm.rank()) == 1) { given_up.wait(); }
        auto met = comm.barrier();
        if (to_index(comm.rank()) == 0) { given_up.count_down(); }
        return met;
      },
      20ms);
  for (auto const& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, error_code::timed_out);
    EXPECT_EQ(outcome.error().ranks, std::vector{ballast::rank_id{1}});
  }
}

// The least that exchanges bytes in pairs.
struct pairs_archetype {
  explicit pairs_archetype(int) {}
  pairs_archetype(pairs_archetype&&) = delete;
  rank_id rank() const { return {}; }
  std::size_t size() const { return 1; }
  result<transfer_id> send(std::span<std::byte const>, rank_id) { return {}; }
  result<transfer_id> receive(std::span<std::byte>, rank_id) { return {}; }
  result<void> start() { return {}; }
  result<bool> is_done(transfer_id) { return true; }
  result<void> wait_for(transfer_id) { return {}; }
  bool cancel(transfer_id) { return true; }
};
static_assert(ballast::point_to_point<pairs_archetype>);
static_assert(!ballast::communicator<pairs_archetype>);

struct sends_writable_bytes_only : pairs_archetype {
  result<transfer_id> send(std::span<std::byte>, rank_id);
};
static_assert(!ballast::point_to_point<sends_writable_bytes_only>);

struct cannot_cancel : pairs_archetype {
  void cancel(transfer_id);
};
static_assert(!ballast::point_to_point<cannot_cancel>);

static_assert(ballast::point_to_point<thread_communicator>);
static_assert(!ballast::point_to_point<ballast_test::pipe_communicator>);

// As docs/comm.md shows it.
TEST(ThreadPointToPoint, MovesBytesWhileRanksCompute)
{
  ballast::run_ranks(3, [](thread_communicator& comm) {
    auto const self = to_index(comm.rank());
    auto const next = ballast::to_id<rank_id>((self + 1) % 3);
    auto const before = ballast::to_id<rank_id>((self + 2) % 3);
    std::vector<std::byte> const own(100, static_cast<std::byte>(self));
    std::vector<std::byte> theirs(100);
    auto const compute = [] { std::this_thread::yield(); };
    auto const pass_on = [&]() -> result<void> {
      // [transfers]
      auto const received = comm.receive(theirs, before);
      if (!received) { return tl::unexpected(received.error()); }
      auto const sent = comm.send(own, next);
      if (!sent) { return tl::unexpected(sent.error()); }
      if (auto started = comm.start(); !started) { return started; }
      compute();  // with neither array
      if (auto here = comm.wait_for(*received); !here) { return here; }
      compute();  // with what has come; `own` may still be on its way
      return comm.wait_for(*sent);
      // [transfers]
    };
    EXPECT_TRUE(pass_on());
    EXPECT_EQ(theirs, std::vector<std::byte>(100, static_cast<std::byte>(to_index(before))));
  });
}

TEST(ThreadPointToPoint, NamesWhoLeftToAll)  // Ensures (2) of run_ranks
{
  auto const ends = ballast::run_ranks(5, [](thread_communicator& comm) {
    if (comm.rank() == rank_id{3}) { return result<void>(); }
    return thread_checks::exchange_with_all(comm, 10'000);
  });
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (rank == 3) { continue; }
    ASSERT_FALSE(ends[rank]);
    EXPECT_EQ(ends[rank].error().code, error_code::peer_lost);
    EXPECT_EQ(ends[rank].error().ranks, std::vector{rank_id{3}}) << ends[rank].error().message;
  }
}

// The failure of a transfer is that of all that follows, of collective operations too.
TEST(ThreadPointToPoint, NamesWhoDoesNotComeToAll)
{
  ballast_test::hand_moved_clock clock;
  auto const ends = ballast::run_ranks(
      4,
      [&](thread_communicator& comm) {
        if (comm.rank() == rank_id{1}) { clock.pass_when(3, comm.deadline()); }
        auto done = thread_checks::exchange_with_all(comm, 100);
        auto const met = comm.barrier();
        EXPECT_FALSE(met);
        if (!met && !done) { EXPECT_EQ(met.error(), done.error()); }
        return done;
      },
      500ms);
  for (auto const& end : ends) {
    ASSERT_FALSE(end);
    EXPECT_EQ(end.error().code, error_code::timed_out);
    EXPECT_EQ(end.error().ranks, std::vector{rank_id{1}}) << end.error().message;
  }
}

// A transfer of the rank ends while it waits in a barrier: it waits there all the same.
TEST(ThreadPointToPoint, NamesWhoSendsAndDoesNotComeToTheBarrier)
{
  ballast_test::hand_moved_clock clock;
  std::latch over(2);
  auto const ends = ballast::run_ranks(
      2,
      [&](thread_communicator& comm) {
        std::vector<std::byte> bytes(10);
        result<void> done;
        if (comm.rank() == rank_id{1}) {
          EXPECT_TRUE(comm.receive(bytes, rank_id{0}));
          done = comm.barrier();
        } else {
          clock.pass_when(1, 0ms);
          EXPECT_TRUE(comm.send(bytes, rank_id{1}));
          clock.pass_when(1, comm.deadline());
        }
        over.arrive_and_wait();
        return done;
      },
      500ms);
  ASSERT_FALSE(ends[1]);
  EXPECT_EQ(ends[1].error().code, error_code::timed_out);
  EXPECT_EQ(ends[1].error().ranks, std::vector{rank_id{0}}) << ends[1].error().message;
}

// A rank that gives up frees its array at once: a sanitizer sees who still reads or writes it.
TEST(ThreadPointToPoint, NeverTouchesTheArraysOfWhoGaveUp)
{
  for (std::uint64_t trial = 0; trial < 100; ++trial) {
    ballast::run_ranks(
        2,
        [&](thread_communicator& comm) {
          ballast::random_source random(2 * trial + to_index(comm.rank()));
          std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
          std::vector<std::byte> bytes(20'000, std::byte{7});
          auto const id = comm.rank() == rank_id{0} ? comm.send(bytes, rank_id{1})
                                                    : comm.receive(bytes, rank_id{0});
          if (id) { (void)comm.wait_for(*id); }
        },
        1ms);
  }
}

TEST(ThreadPointToPointDeathTest, RefusesATransferThatHasEnded)
{
  auto comm = std::move(thread_communicator::make(1).front());
  auto const sent = comm.send({}, rank_id{0}).value();
  EXPECT_TRUE(comm.receive({}, rank_id{0}));
  EXPECT_TRUE(comm.wait_for(sent));
  EXPECT_DEATH((void)comm.wait_for(sent), "transfer 0 of rank 0 is not under way");
}

}  // namespace
