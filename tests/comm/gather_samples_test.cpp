// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/gather_samples.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>

namespace {

using namespace ballast;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GatherSamples, PutsTheSamplesOfAllRanksInRankOrder)
{
  std::vector<std::vector<tokens>> const read{{5, 6}, {}, {7, 8, 9}};
  ballast::run_ranks(read.size(), [&](thread_communicator& comm) {
    // [gather_samples]
    gathered_samples<tokens> all;  // kept from step to step
    auto const gathered = ballast::gather_samples(all, comm, read[comm.rank()]);
    // [gather_samples]
    ASSERT_TRUE(gathered.has_value());
    EXPECT_THAT(all.samples, ElementsAre(5, 6, 7, 8, 9));
    EXPECT_THAT(all.source,
                ElementsAre(rank_id{0}, rank_id{0}, rank_id{2}, rank_id{2}, rank_id{2}));
  });
}

TEST(GatherSamples, TakesSamplesOfSeveralNumbers)
{
  struct sample {
    std::int32_t text;
    std::int32_t visual;
    bool operator==(sample const&) const = default;
  };
  ballast::run_ranks(2, [](thread_communicator& comm) {
    auto const rank = static_cast<std::int32_t>(to_index(comm.rank()));
    std::vector<sample> const mine{{rank, -10 - rank}};
    gathered_samples<sample> all;
    ASSERT_TRUE(ballast::gather_samples(all, comm, mine));
    EXPECT_THAT(all.samples, ElementsAre(sample{0, -10}, sample{1, -11}));
  });
}

TEST(GatherSamples, OfNobodyIsEmptyAndForgetsWhatWasThere)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    gathered_samples<tokens> all{{1, 2}, {rank_id{0}, rank_id{1}}, 2};
    ASSERT_TRUE(ballast::gather_samples(all, comm, {}));
    EXPECT_THAT(all.samples, IsEmpty());
    EXPECT_THAT(all.source, IsEmpty());
  });
}

// Ranks count the collectives that all of them made.
TEST(GatherSamples, TakesAsManyAsARankHasAndASecondCollectiveOnlyWhereOneHasMore)
{
  struct counting : thread_communicator {
    std::size_t gathers = 0;
    ballast::result<void> all_gather(std::span<std::byte const> sent, std::span<std::byte> received)
    {
      ++gathers;
      return thread_communicator::all_gather(sent, received);
    }
  };
  ballast::run_ranks(3, [](thread_communicator& group) {
    counting comm{std::move(group)};
    gathered_samples<tokens> all;
    for (auto const& [count, collectives] : std::initializer_list<std::pair<std::size_t, int>>{
             {0, 1}, {1, 2}, {16, 1}, {17, 2}, {3, 1}, {32, 1}, {5000, 2}, {8192, 1}}) {
      std::size_t const before = comm.gathers;
      std::vector<tokens> const mine(comm.rank() == rank_id{1} ? count : count / 2,
                                     static_cast<tokens>(to_index(comm.rank())));
      ASSERT_TRUE(ballast::gather_samples(all, comm, mine));
      EXPECT_EQ(comm.gathers - before, collectives) << count;
      ASSERT_EQ(all.samples.size(), count + 2 * (count / 2));
      for (std::size_t at = 0; at < all.samples.size(); ++at) {
        EXPECT_EQ(all.samples[at], static_cast<tokens>(to_index(all.source[at])));
      }
      EXPECT_EQ(std::ranges::count(all.source, rank_id{1}), count);
    }
  });
}

// Messages have the same size all the same.
TEST(GatherSamples, OfDifferentTypesIsAMismatch)
{
  ballast::run_ranks(3, [](thread_communicator& comm) {
    gathered_samples<std::int32_t> small;
    gathered_samples<std::int64_t> large;
    auto const done = comm.rank() == rank_id{1}
                          ? ballast::gather_samples(small, comm, std::array{1, 2})
                          : ballast::gather_samples(large, comm, {});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ballast::error_code::mismatch);
    EXPECT_EQ(done.error().ranks, std::vector{rank_id{1}}) << done.error().message;
  });
}

TEST(GatherSamples, AllocatesNothingInTheSteadyState)
{
  auto comms = thread_communicator::make(1);
  std::vector<tokens> const mine(16, 3);
  gathered_samples<tokens> all;
  ASSERT_TRUE(ballast::gather_samples(all, comms[0], mine));
  auto const before = ballast_test::allocations();
  ASSERT_TRUE(ballast::gather_samples(all, comms[0], std::span(mine).first(9)));
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_EQ(all.samples.size(), 9U);
}

TEST(GatherSamples, ReturnsNewSamples)  // Ensures (1) (2)
{
  std::vector<std::vector<tokens>> const read{{5, 6}, {}, {7, 8, 9}};
  ballast::run_ranks(read.size(), [&](thread_communicator& comm) {
    auto const all = ballast::gather_samples(comm, read[comm.rank()]);
    gathered_samples<tokens> expected;
    ASSERT_TRUE(ballast::gather_samples(expected, comm, read[comm.rank()]));
    ASSERT_TRUE(all);
    EXPECT_EQ(*all, expected);

    auto const none = ballast::gather_samples(comm, std::vector<tokens>());
    ASSERT_TRUE(none);
    EXPECT_THAT(none->samples, IsEmpty());
    EXPECT_EQ(none->ranks, 3U);
  });
}

TEST(GatherSamples, TellsEveryRankThatOneIsLost)  // Errors, in either of the two collectives
{
  for (bool const knows_counts : {false, true}) {
    std::vector<ballast::error_code> const told =
        ballast::run_ranks(3, [&](thread_communicator& comm) {
          if (comm.rank() == rank_id{1}) {
            if (knows_counts) {
              std::uint64_t const none = std::uint64_t{sizeof(tokens)} << 48U;
              std::array<std::byte, 3 * sizeof(none)> all{};
              EXPECT_TRUE(comm.all_gather(std::as_bytes(std::span(&none, 1)), all));
              EXPECT_TRUE(comm.wait());
            }
            return ballast::error_code::peer_lost;  // it leaves
          }
          auto const all = ballast::gather_samples(comm, std::vector<tokens>{4});
          return all ? ballast::error_code::mismatch : all.error().code;
        });
    EXPECT_THAT(told, testing::Each(ballast::error_code::peer_lost));
  }
}

// The result of every rank if rank r has words[r].
std::vector<ballast::result<void>> told(std::vector<std::uint64_t> const& words)
{
  return ballast::run_ranks(words.size(), [&](thread_communicator& comm) {
    return ballast::agree(comm, words[comm.rank()], "the plan");
  });
}

TEST(Agree, IsSilentWhereAllWordsAreEqual)
{
  for (std::size_t const ranks : {1U, 2U, 7U}) {
    for (auto const& each : told(std::vector<std::uint64_t>(ranks, 0xfeedU))) {
      EXPECT_TRUE(each.has_value());
    }
  }
}

TEST(Agree, NamesTheDissenterToEveryRank)
{
  for (auto const& each : told({7, 7, 8, 7})) {
    ASSERT_FALSE(each.has_value());
    EXPECT_EQ(each.error().code, ballast::error_code::mismatch);
    EXPECT_THAT(each.error().ranks, ElementsAre(rank_id{2}));
    EXPECT_THAT(each.error().message,
                HasSubstr("disagree on the plan (rank 2 differs from the others)"));
  }
}

TEST(Agree, TakesTheSideOfTheMostAndOfTheLowestRankInATie)
{
  EXPECT_THAT(told({1, 2, 2})[1].error().ranks, ElementsAre(rank_id{0}));
  EXPECT_THAT(told({1, 2})[0].error().ranks, ElementsAre(rank_id{1}));
  EXPECT_THAT(told({3, 1, 2, 1, 3})[4].error().ranks,
              ElementsAre(rank_id{1}, rank_id{2}, rank_id{3}));
}

TEST(Agree, ComparesSeveralWordsAndNamesTheFirstThatDiffers)
{
  using ballast::agreed_word;
  auto const told_of = [](std::vector<std::array<std::uint64_t, 3>> const& words) {
    return ballast::run_ranks(words.size(), [&](thread_communicator& comm) {
      auto const& own = words[comm.rank()];
      std::array const plans{agreed_word{own[0], "the plan of the encoder"},
                             agreed_word{own[1], "the plan of the language model"},
                             agreed_word{own[2], "the order"}};
      auto const same = ballast::agree(comm, plans);
      return same ? std::string() : same.error().message;
    });
  };
  for (auto const& each : told_of({{1, 2, 3}, {1, 2, 3}, {1, 2, 3}})) { EXPECT_EQ(each, ""); }
  for (auto const& each : told_of({{1, 2, 3}, {1, 9, 3}, {1, 2, 4}})) {
    EXPECT_THAT(each, HasSubstr("disagree on the plan of the language model (rank 1 differs"));
  }
  // Words that would cancel out in a sum, or are exchanged.
  for (auto const& each : told_of({{1, 2, 3}, {2, 1, 3}, {1, 2, 3}})) {
    EXPECT_THAT(each, HasSubstr("the plan of the encoder (rank 1 differs"));
  }
  auto comms = thread_communicator::make(1);
  EXPECT_TRUE(ballast::agree(comms[0], std::span<agreed_word const>()));
}

TEST(Agree, SaysWhereRanksCompareDifferentNumbersOfWords)
{
  ballast::run_ranks(3, [](thread_communicator& comm) {
    std::vector<ballast::agreed_word> const words(comm.rank() == rank_id{1} ? 2 : 1);
    auto const same = ballast::agree(comm, words);
    ASSERT_FALSE(same);
    EXPECT_EQ(same.error().code, ballast::error_code::mismatch);
  });
}

TEST(Agree, LeavesTheCommunicatorUsable)
{
  ballast::run_ranks(3, [](thread_communicator& comm) {
    EXPECT_FALSE(ballast::agree(comm, to_index(comm.rank()), "the plan"));
    EXPECT_TRUE(ballast::agree(comm, 5, "the plan"));
  });
}

TEST(Agree, AllocatesNothingInTheSteadyState)
{
  auto comms = thread_communicator::make(1);
  ASSERT_TRUE(ballast::agree(comms[0], 1, "the plan"));
  auto const before = ballast_test::allocations();
  ASSERT_TRUE(ballast::agree(comms[0], 2, "the plan"));
  EXPECT_EQ(ballast_test::allocations(), before);
}

}  // namespace
