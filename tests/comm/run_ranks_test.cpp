// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>

#include "../support/test.hpp"

#include <ballast/comm/communicator.hpp>

#include <atomic>
#include <latch>
#include <stdexcept>

namespace {

using namespace std::chrono_literals;
using ballast::error_code;
using ballast::run_ranks;
using ballast::thread_communicator;

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

TEST(RunRanks, LetsOthersGoWhenOneReturnsEarly)  // Ensures (2)
{
  auto const outcomes = run_ranks(
      4,
      [](thread_communicator& comm) -> ballast::result<void> {
        if (to_index(comm.rank()) == 2) { return {}; }
        return comm.barrier();
      },
      60s);
  for (std::size_t const rank : {0U, 1U, 3U}) {
    ASSERT_FALSE(outcomes[rank]);
    EXPECT_EQ(outcomes[rank].error().code, error_code::peer_lost);
    EXPECT_EQ(outcomes[rank].error().ranks, std::vector{ballast::rank_id{2}});
  }
  EXPECT_TRUE(outcomes[2]);
}

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

TEST(RunRanksDeathTest, RefusesAGroupOfNobody)
{
  EXPECT_DEATH(run_ranks(0, [](thread_communicator&) {}), "a group of 0 ranks");
}

}  // namespace
