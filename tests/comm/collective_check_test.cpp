// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/collective_check.hpp>

#include "../support/test.hpp"
#include "traffic.hpp"  // defines: ballast_test::{traffic, random_traffic}

namespace {

using namespace ballast;

// What all ranks call for, and the sum that each of them would see.
struct calls {
  std::vector<collective_call> common;
  std::vector<std::vector<std::size_t>> sent;      // none, or by rank
  std::vector<std::vector<std::size_t>> received;  // as sent

  [[nodiscard]] std::uint64_t sum() const
  {
    std::uint64_t words = 0;
    for (std::size_t rank = 0; rank < common.size(); ++rank) {
      words += sent.empty() ? common[rank].check_word(to_id<rank_id>(rank), common.size())
                            : common[rank].check_word(to_id<rank_id>(rank), common.size(),
                                                      sent[rank], received[rank]);
    }
    return words;
  }
};

calls random_calls(ballast::random_source& random)
{
  std::size_t const ranks = 1 + random.below(9);
  auto const operation = static_cast<collective>(random.below(5));
  calls made;
  made.common.assign(ranks, {operation, random.below(3) * random.below(1000),
                             to_id<rank_id>(random.below(ranks))});
  if (operation == collective::all_to_all_v) {
    ballast_test::traffic const bytes = ballast_test::random_traffic(random, ranks, 100);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      made.sent.push_back(bytes.sent_by(rank));
      made.received.push_back(bytes.received_by(rank));
    }
  }
  return made;
}

RC_GTEST_PROP(CheckWord, SumsToZeroWhereAllAgree, (std::uint64_t seed))  // Ensures (1)
{
  ballast::random_source random(seed);
  RC_ASSERT(random_calls(random).sum() == 0U);
}

RC_GTEST_PROP(CheckWord, BetraysEverySingleDifference, (std::uint64_t seed))  // Ensures (2)
{
  ballast::random_source random(seed);
  calls const agreed = random_calls(random);
  std::size_t const ranks = agreed.common.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (ranks > 1) {
      calls other = agreed;
      collective_call& call = other.common[rank];
      call.operation =
          static_cast<collective>((static_cast<std::uint32_t>(call.operation) + 1) % 5);
      RC_ASSERT(other.sum() != 0U);
      other = agreed;
      other.common[rank].bytes += 1 + random.below(100);
      RC_ASSERT(other.sum() != 0U);
      other = agreed;
      other.common[rank].root = to_id<rank_id>((to_index(call.root) + 1) % ranks);
      RC_ASSERT(other.sum() != 0U);
      other = agreed;
      other.common[rank].content += 1 + random.below(100);
      RC_ASSERT(other.sum() != 0U);
    }
    for (std::size_t peer = 0; peer < ranks && !agreed.sent.empty(); ++peer) {
      calls other = agreed;
      other.sent[rank][peer] += 1 + random.below(100);
      RC_ASSERT(other.sum() != 0U);
      other = agreed;
      other.received[rank][peer] = other.received[rank][peer] == 0 ? 1 : 0;
      RC_ASSERT(other.sum() != 0U);
    }
  }
}

// Sums of counts would be the same in all of these.
TEST(CheckWord, BetraysDifferencesThatCancelInTotals)
{
  calls const agreed{std::vector<collective_call>(3, {collective::all_to_all_v}),
                     {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}},
                     {{1, 4, 7}, {2, 5, 8}, {3, 6, 9}}};
  ASSERT_EQ(agreed.sum(), 0U);
  calls swapped = agreed;
  std::swap(swapped.received[0][1], swapped.received[0][2]);
  EXPECT_NE(swapped.sum(), 0U);
  calls shifted = agreed;
  ++shifted.sent[0][1];
  --shifted.sent[1][0];
  EXPECT_NE(shifted.sum(), 0U);
  calls exchanged = agreed;
  std::swap(exchanged.sent[0], exchanged.sent[1]);
  EXPECT_NE(exchanged.sum(), 0U);
}

// Ranks may run different builds, so the word is part of the protocol.
TEST(CheckWord, IsTheSameInEveryBuild)
{
  static_assert(collective_call{collective::broadcast, 5, rank_id{1}}.word() ==
                0xf55141544a65eeb5U);
  std::vector<std::size_t> const sent{3, 0};
  std::vector<std::size_t> const received{3, 7};
  EXPECT_EQ(collective_call{collective::all_to_all_v}.check_word(rank_id{1}, 2, sent, received),
            0x9ab97994d99a1e08U);
}

TEST(CheckWordDeathTest, RefusesARankBeyondTheGroup)
{
  EXPECT_DEATH((void)collective_call{}.check_word(rank_id{2}, 2), "rank");
}

TEST(Collective, HasTheNameOfTheCall)
{
  EXPECT_STREQ(collective_call{collective::all_gather}.name(), "all_gather");
  EXPECT_STREQ(collective_call{collective::all_to_all_v}.name(), "all_to_all_v");
  EXPECT_STREQ(collective_call{collective::broadcast}.name(), "broadcast");
  EXPECT_STREQ(collective_call{collective::barrier}.name(), "barrier");
  EXPECT_STREQ(collective_call{collective::split}.name(), "split");
}

}  // namespace
