// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "../support/hand_moved_clock.hpp"
#include "checks_on_threads.hpp"  // defines: ballast_test::run_on_threads, ...
#include "conformance.hpp"        // defines: ballast_test::conformance
#include "out_of_memory.hpp"      // defines: ballast_test::exchange_without_memory

#include <ballast/comm/concepts.hpp>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using ballast::error_code;
using ballast::rank_id;
using ballast::result;
using ballast::thread_communicator;
using testing::HasSubstr;
using thread_conformance = ballast_test::conformance<thread_communicator>;
using rank_list = std::vector<rank_id>;

static_assert(ballast::communicator<thread_communicator>);
static_assert(!std::is_copy_constructible_v<thread_communicator>, "a rank has one end");

// ---- What every communicator promises ----

class ThreadCommunicator
    : public testing::TestWithParam<ballast_test::check_on_threads<thread_conformance::check>> {};

TEST_P(ThreadCommunicator, Conforms)
{
  ballast_test::run_on_threads(GetParam());
}

auto const sizes = testing::Values<std::size_t>(1, 2, 3, 4, 5, 7, 8, 16);
INSTANTIATE_TEST_SUITE_P(Data, ThreadCommunicator,
                         testing::Combine(sizes,
                                          testing::ValuesIn(thread_conformance::data_checks())),
                         ballast_test::name_on_threads{});
INSTANTIATE_TEST_SUITE_P(Mismatch, ThreadCommunicator,
                         testing::Combine(sizes,
                                          testing::ValuesIn(thread_conformance::mismatch_checks())),
                         ballast_test::name_on_threads{});
INSTANTIATE_TEST_SUITE_P(
    SteadyState, ThreadCommunicator,
    testing::Combine(sizes, testing::ValuesIn(thread_conformance::steady_state_checks())),
    ballast_test::name_on_threads{});

// The rank that lacks memory leaves, or it stays and the others wait until the deadline.
TEST(ThreadCommunicatorMemory, AnswersWhereverItRunsOut)
{
  if (!ballast_test::allocations_can_fail()) { GTEST_SKIP() << "operator new is a sanitizer's"; }
  for (bool const stays : {false, true}) {
    ballast_test::expect_answers_wherever_memory_runs_out([&](std::size_t n) {
      auto comms = thread_communicator::make(3, ballast_test::memory_deadline);
      std::vector<ballast_test::memory_answer> answers(comms.size());
      std::vector<std::thread> ranks;
      for (std::size_t rank = 0; rank < comms.size(); ++rank) {
        ranks.emplace_back([&, rank] {
          {
            std::optional<thread_communicator> comm = std::move(comms[rank]);
            answers[rank] =
                ballast_test::exchange_without_memory<thread_communicator, std::vector<std::byte>>(
                    *comm, n);
            if (stays) { comms[rank] = *std::move(comm); }
          }
          ballast_test::hand_moved_clock::end_to_act();
        });
      }
      for (std::thread& each : ranks) { each.join(); }
      return answers;
    });
  }
}

TEST(ThreadCommunicatorGroup, OfManyRanks)
{
  ballast::run_ranks(256, [](thread_communicator& comm) {
    std::size_t const self = to_index(comm.rank());
    std::vector<std::size_t> const counts(comm.size(), 1);
    std::vector<std::byte> send(comm.size());
    std::vector<std::byte> receive(comm.size());
    for (std::size_t peer = 0; peer < comm.size(); ++peer) {
      send[peer] = static_cast<std::byte>(self ^ (3 * peer));
    }
    EXPECT_TRUE(comm.all_to_all_v(send, counts, receive, counts));
    for (std::size_t peer = 0; peer < comm.size(); ++peer) {
      EXPECT_EQ(receive[peer], static_cast<std::byte>(peer ^ (3 * self)));
    }
  });
}

TEST(ThreadCommunicatorGroup, CanWaitForAsLongAsTheClockCounts)
{
  ballast::run_ranks(
      2, [](thread_communicator& comm) { EXPECT_TRUE(comm.barrier()); },
      std::chrono::milliseconds::max());
}

// ---- Ranks that do not come, come late, or leave ----

constexpr auto time_to_come = 2s;

TEST(ThreadCommunicatorGroup, NamesWhoIsMissingAtTheDeadline)
{
  ballast_test::hand_moved_clock clock;
  struct scenario {
    std::vector<thread_communicator> comms;
    rank_list absent;
  };
  std::vector<scenario> scenarios;
  std::size_t ranks = 0;
  std::size_t missing_ranks = 0;
  for (std::size_t const size : {2U, 5U}) {
    for (rank_list const& absent : thread_conformance::absences(size)) {
      scenarios.push_back({thread_communicator::make(size, time_to_come), absent});
      ranks += size;
      missing_ranks += absent.size();
    }
  }
  {
    std::latch met(static_cast<std::ptrdiff_t>(ranks));
    std::vector<std::jthread> threads;
    for (auto& [comms, absent] : scenarios) {
      for (thread_communicator& comm : comms) {
        threads.emplace_back([&met, &comm, &missing = absent] {
          EXPECT_TRUE(comm.barrier());
          met.count_down();
          if (std::ranges::count(missing, comm.rank()) == 0) {
            thread_conformance::expect_broken(comm, error_code::timed_out, missing);
          }
        });
      }
    }
    met.wait();
    clock.pass_when(ranks - missing_ranks, time_to_come);
  }
  for (auto& [comms, absent] : scenarios) {
    for (rank_id const late : absent) {  // the same error, at once
      thread_conformance::expect_broken(comms[to_index(late)], error_code::timed_out, absent);
    }
  }
}

// One rank destroys its communicator before the others call.
TEST(ThreadCommunicatorGroup, NamesWhoLeftBefore)
{
  for (std::size_t const size : {2U, 3U, 8U}) {
    for (rank_list const& absent : thread_conformance::absences(size)) {
      auto comms = thread_communicator::make(size, 60s);
      for (rank_id const rank : absent) {
        thread_communicator const leaving = std::move(comms[to_index(rank)]);
      }
      std::erase_if(comms,
                    [&](auto const& comm) { return std::ranges::count(absent, comm.rank()) != 0; });
      std::vector<std::jthread> threads;
      for (thread_communicator& comm : comms) {
        threads.emplace_back(
            [&] { thread_conformance::expect_broken(comm, error_code::peer_lost, absent); });
      }
    }
  }
}

TEST(ThreadCommunicatorGroup, NamesWhoLeavesWhileOthersWait)
{
  for (std::size_t leaving = 0; leaving < 4; ++leaving) {
    auto comms = thread_communicator::make(4, 60s);
    rank_list const lost{ballast::to_id<rank_id>(leaving)};
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      threads.emplace_back([&lost, rank, leaving, comm = std::move(comms[rank])]() mutable {
        EXPECT_TRUE(comm.barrier());
        if (rank == leaving) { return std::this_thread::sleep_for(5ms); }
        thread_conformance::expect_broken(comm, error_code::peer_lost, lost);
      });
    }
  }
}

TEST(ThreadCommunicatorGroup, TellsWhatToDo)
{
  auto comms = thread_communicator::make(3, 20ms);
  auto const waited = comms[0].barrier();
  ASSERT_FALSE(waited);
  EXPECT_THAT(waited.error().message,
              HasSubstr("barrier: ranks 1 and 2 did not arrive within 20 ms"));
  EXPECT_TRUE(comms[1].wait()) << "it has called for nothing";
}

// Each rank frees its arrays as soon as its call has failed: a sanitizer sees later reads.
TEST(ThreadCommunicatorGroup, NeverReadsTheArraysOfWhoGaveUp)
{
  constexpr std::size_t size = 4;
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    auto const outcomes = ballast::run_ranks(
        size,
        [trial](thread_communicator& comm) {
          std::size_t const self = to_index(comm.rank());
          ballast::random_source random(size * trial + self);
          std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
          result<void> gathered;
          {
            std::vector<std::byte> const send(1000, static_cast<std::byte>(self));
            std::vector<std::byte> receive(size * send.size());
            gathered = comm.all_gather(send, receive);
            for (std::size_t place = 0; place < receive.size() && gathered; ++place) {
              EXPECT_EQ(receive[place], static_cast<std::byte>(place / send.size()));
            }
          }
          return gathered;
        },
        1ms);
    for (auto const& outcome : outcomes) {
      EXPECT_EQ(outcome.has_value(), outcomes[0].has_value());
      if (!outcome && !outcomes[0]) { EXPECT_TRUE(outcome.error() == outcomes[0].error()); }
    }
  }
}

TEST(ThreadCommunicatorGroup, PassesItsDeadlineToPartsThatBreakAlone)
{
  ballast_test::hand_moved_clock clock;
  auto comms = thread_communicator::make(4, time_to_come);
  std::vector<std::optional<thread_communicator>> parts(4);
  std::latch first_part(2);
  auto const on_ranks = [&](std::size_t count, auto call) {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < count; ++rank) { threads.emplace_back(call, rank); }
  };
  on_ranks(4, [&](std::size_t rank) {
    auto part = comms[rank].split(static_cast<std::uint32_t>(rank / 2));
    ASSERT_TRUE(part);
    parts[rank] = *std::move(part);
  });
  on_ranks(4, [&](std::size_t rank) {
    if (rank == 3) {
      first_part.wait();
      return clock.pass_when(1, time_to_come);
    }
    auto const met = parts[rank]->barrier();
    if (rank < 2) { first_part.count_down(); }
    EXPECT_EQ(met.has_value(), rank != 2);
    if (!met) {
      EXPECT_EQ(met.error().code, error_code::timed_out);
      EXPECT_EQ(met.error().ranks, rank_list{rank_id{1}});
      EXPECT_THAT(met.error().message, HasSubstr("2000 ms"));
    }
  });
  on_ranks(4, [&](std::size_t rank) { EXPECT_TRUE(comms[rank].barrier()); });
}

TEST(ThreadCommunicatorGroup, IsLeftByAssignment)
{
  auto first = thread_communicator::make(2, 60s);
  auto second = thread_communicator::make(1, 60s);
  first[1] = std::move(second[0]);
  EXPECT_EQ(first[1].size(), 1U);
  EXPECT_TRUE(first[1].barrier());
  thread_conformance::expect_broken(first[0], error_code::peer_lost, {rank_id{1}});
}

// ---- Expects ----

TEST(ThreadCommunicatorDeathTest, RefusesAGroupOfNobodyOrWithoutTime)
{
  EXPECT_DEATH((void)thread_communicator::make(0), "a group of 0 ranks");
  EXPECT_DEATH((void)thread_communicator::make(1, 0ms), "the deadline is 0 ms");
}

TEST(ThreadCommunicatorDeathTest, RefusesArraysOfOtherSizesThanCounts)
{
  auto comm = std::move(thread_communicator::make(1).front());
  std::vector<std::byte> four(4), five(5);
  std::vector<std::size_t> const count{4}, counts{2, 2};
  EXPECT_DEATH((void)comm.all_gather(four, five),
               "`receive` has 5 bytes, and each of 1 rank sends 4");
  EXPECT_DEATH((void)comm.all_to_all_v(five, count, four, count),
               "`send` has 5 bytes, and `send_bytes` add up to 4");
  EXPECT_DEATH((void)comm.all_to_all_v(four, count, five, count),
               "`receive` has 5 bytes, and `receive_bytes` add up to 4");
  EXPECT_DEATH((void)comm.all_to_all_v(four, counts, four, counts), "`send_bytes` has 2 entries");
  EXPECT_DEATH((void)comm.broadcast(four, rank_id{1}), "the root is rank 1 of 1 rank");
}

}  // namespace
