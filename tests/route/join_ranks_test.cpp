// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/topology/bag_layout.hpp>

namespace joined_ranks {

using ballast::bag_id;
using ballast::join_ranks_into;
using ballast::piece;
using ballast::placement;
using ballast::rank_id;
using ballast::sample_id;
using ballast::to_id;
using ballast::to_index;
using ballast::tokens;

TEST(JoinRanks, PutsTheRowsOfOneRankBehindThoseOfAnother)
{
  ballast::bag_layout const bags(
      std::vector<ballast::bag>{{rank_id{0}, 1}, {rank_id{1}, 2}, {rank_id{3}, 1}});
  std::vector<tokens> const lengths{5, 4, 3};
  std::vector<bag_id> const owner{bag_id{1}, bag_id{0}, bag_id{1}};
  placement joined;
  join_ranks_into(joined, ballast::place(lengths, owner, bags), 2);
  EXPECT_EQ(joined.ranks(), 2U);
  EXPECT_EQ(joined.rows(rank_id{0}), 4 + 3 + 2);
  EXPECT_EQ(joined.rows(rank_id{1}), 2 + 1);
  auto const first = joined[sample_id{0}];
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0], (piece{rank_id{0}, 0, 3, 4}));
  EXPECT_EQ(first[1], (piece{rank_id{1}, 3, 2, 0}));
  EXPECT_EQ(joined[sample_id{1}][0], (piece{rank_id{0}, 0, 4, 0}));
  EXPECT_EQ(joined[sample_id{2}][0], (piece{rank_id{0}, 0, 2, 7}));
}

TEST(JoinRanks, KeepsEveryTokenAndEveryRow)
{
  ballast::random_source random(17);
  placement joined;
  for (int trial = 0; trial < 50; ++trial) {
    auto const each = static_cast<std::size_t>(random.between(1, 4));
    std::size_t const ranks = each * static_cast<std::size_t>(random.between(1, 3));
    std::vector<tokens> lengths(static_cast<std::size_t>(random.between(0, 12)));
    std::vector<rank_id> owner;
    for (tokens& length : lengths) {
      length = random.between(0, 5);
      owner.push_back(to_id<rank_id>(random.below(ranks)));
    }
    auto const apart = ballast::place(lengths, owner, ranks);
    join_ranks_into(joined, apart, each);
    ASSERT_EQ(joined.size(), lengths.size());
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      auto const id = to_id<sample_id>(sample);
      ASSERT_EQ(joined[id].size(), apart[id].size());
      for (std::size_t at = 0; at < apart[id].size(); ++at) {
        piece expected = apart[id][at];
        std::size_t const process = to_index(expected.rank) / each;
        for (std::size_t before = process * each; before < to_index(expected.rank); ++before) {
          expected.row += apart.rows(to_id<rank_id>(before));
        }
        expected.rank = to_id<rank_id>(process);
        EXPECT_EQ(joined[id][at], expected);
      }
    }
    if (each == 1) { EXPECT_EQ(joined, apart); }
  }
}

TEST(JoinRanksDeathTest, RefusesRanksThatAreNoWholeProcesses)
{
  auto where = ballast::place(std::vector<tokens>{2}, std::vector<rank_id>{rank_id{1}}, 3);
  placement joined;
  EXPECT_DEATH(join_ranks_into(joined, where, 2), "over 3 ranks cannot be one over processes of 2");
  EXPECT_DEATH(join_ranks_into(joined, where, 0), "of 0");
  EXPECT_DEATH(join_ranks_into(where, where, 1), "in place");
}

}  // namespace joined_ranks
