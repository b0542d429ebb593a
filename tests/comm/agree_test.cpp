// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/gather_samples.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>

namespace {

using ballast::rank_id;
using ballast::thread_communicator;
using ballast::to_index;
using testing::ElementsAre;
using testing::HasSubstr;

// The result of every rank if rank r has words[r].
std::vector<ballast::result<void>> told(std::vector<std::uint64_t> const& words)
{
  return ballast::run_ranks(words.size(), [&](thread_communicator& comm) {
    return ballast::agree(comm, words[to_index(comm.rank())], "the plan");
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

TEST(Agree, SaysOfTwoHalvesOnlyThatTheyDiffer)
{
  for (auto const& each : told({7, 7, 8, 8})) {
    ASSERT_FALSE(each.has_value());
    EXPECT_THAT(each.error().message, HasSubstr("(ranks 2 and 3 differ from the others)"));
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
      auto const& own = words[to_index(comm.rank())];
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
