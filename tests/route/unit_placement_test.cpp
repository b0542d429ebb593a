// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/unit_plan.hpp>

#include "../support/test.hpp"

namespace {

using ballast::placement;
using ballast::rank_id;
using ballast::tokens;
using ballast::unit_pair;

std::vector<rank_id> unit_of(std::uint32_t first, std::uint32_t size)
{
  std::vector<rank_id> ranks;
  for (std::uint32_t rank = first; rank < first + size; ++rank) { ranks.push_back(rank_id{rank}); }
  return ranks;
}

TEST(UnitPlacement, CutsUnitsIntoTheGroupsThatBothHave)
{
  auto const four = unit_of(0, 4);
  auto const six = unit_of(4, 6);
  EXPECT_EQ((unit_pair{four, six}.groups()), 2U);
  EXPECT_EQ((unit_pair{six, six}.groups()), 6U);
  EXPECT_EQ((unit_pair{unit_of(0, 1), six}.groups()), 1U);
}

// Five samples on 2 groups: 3 and 2. Then 2 + 1 and 1 + 1 on senders, one each on receivers.
TEST(UnitPlacement, GivesGroupsOfBothUnitsTheSameSamples)
{
  std::vector<tokens> const lengths{1, 2, 3, 4, 5};
  ballast::workspace memory;
  placement from;
  placement to;
  assign_unit(from, memory, lengths, unit_of(0, 4), 2, 10);
  assign_unit(to, memory, lengths, unit_of(4, 6), 2, 10);
  auto const rows = [](placement const& where) {
    std::vector<tokens> all;
    for (std::uint32_t rank = 0; rank < 10; ++rank) { all.push_back(where.rows(rank_id{rank})); }
    return all;
  };
  EXPECT_THAT(rows(from), testing::ElementsAre(3, 3, 4, 5, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows(to), testing::ElementsAre(0, 0, 0, 0, 1, 2, 3, 4, 5, 0));
}

TEST(UnitPlacement, KeepsSamplesInOrderAndGroupsTogether)
{
  ballast::workspace memory;
  for (std::uint32_t a = 1; a <= 8; ++a) {
    for (std::uint32_t b = 1; b <= 8; ++b) {
      auto const one = unit_of(0, a);
      auto const other = unit_of(a, b);
      auto const groups = unit_pair{one, other}.groups();
      for (std::size_t const samples : {0U, 1U, 5U, 24U}) {
        std::vector<tokens> const lengths(samples, 1);
        placement from;
        placement to;
        assign_unit(from, memory, lengths, one, groups, a + b);
        assign_unit(to, memory, lengths, other, groups, a + b);
        std::size_t last_sender = 0;
        std::size_t last_receiver = a;
        for (std::size_t sample = 0; sample < samples; ++sample) {
          auto const id = ballast::to_id<ballast::sample_id>(sample);
          auto const sender = to_index(from[id].front().rank);
          auto const receiver = to_index(to[id].front().rank);
          EXPECT_LE(last_sender, sender);
          EXPECT_LE(last_receiver, receiver);
          EXPECT_EQ(sender / (a / groups), (receiver - a) / (b / groups)) << "the same group";
          last_sender = sender;
          last_receiver = receiver;
        }
      }
    }
  }
}

TEST(UnitPlacementDeathTest, RefusesUnequalGroups)
{
  ballast::workspace memory;
  placement where;
  EXPECT_DEATH(assign_unit(where, memory, {}, unit_of(0, 4), 3, 4),
               "a unit of 4 ranks does not consist of 3 equal groups");
}

}  // namespace
