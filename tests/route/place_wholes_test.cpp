// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "../support/token_ranks.hpp"

#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::bag_id;
using ballast::placed_parts;
using ballast::sample_id;
using ballast::sample_part;
using ballast::to_id;
using ballast::tokens;

TEST(PlaceWholes, PutsEveryTokenWhereItsPartHasIt)  // Ensures (1)
{
  std::vector<ballast::bag> const some{{ballast::rank_id{0}, 1}, {ballast::rank_id{1}, 2}};
  ballast::bag_layout const bags(some);
  ballast::random_source random(3);
  ballast::workspace memory;
  ballast::placement wholes;
  for (int trial = 0; trial < 50; ++trial) {
    std::size_t const samples = random.below(6);
    std::array<std::vector<sample_part>, 2> parts;
    std::array<std::vector<tokens>, 2> lengths;
    std::array<std::vector<bag_id>, 2> owner;
    for (std::size_t sample = 0; sample < samples; ++sample) {
      tokens first = 0;
      for (std::uint64_t left = random.below(5); left > 0; --left) {
        std::size_t const kind = random.below(2);
        lengths[kind].push_back(random.below(3) == 0 ? 0 : random.between(2, 5));
        owner[kind].push_back(to_id<bag_id>(random.below(2)));
        parts[kind].push_back({to_id<sample_id>(sample), first, lengths[kind].back()});
        first += lengths[kind].back();
      }
    }
    std::array const where{ballast::place(lengths[0], owner[0], bags),
                           ballast::place(lengths[1], owner[1], bags)};
    std::array const kinds{placed_parts{where[0], parts[0]}, placed_parts{where[1], parts[1]}};
    place_wholes_into(wholes, memory, samples, kinds);
    std::size_t const before = ballast_test::allocations();
    place_wholes_into(wholes, memory, samples, kinds);
    EXPECT_EQ(ballast_test::allocations(), before);

    ASSERT_EQ(wholes.size(), samples);
    std::array<tokens, 3> rows{};
    for (std::size_t sample = 0; sample < samples; ++sample) {
      std::vector<std::size_t> expected;
      for (std::size_t kind = 0; kind < 2; ++kind) {
        for (std::size_t each = 0; each < parts[kind].size(); ++each) {
          auto const& part = parts[kind][each];
          if (to_index(part.sample) != sample) { continue; }
          auto const own = ballast_test::ranks_of_tokens(where[kind], to_id<sample_id>(each));
          auto const end = static_cast<std::size_t>(part.first + part.count);
          expected.resize(std::max(expected.size(), end));
          std::ranges::copy(own, expected.begin() + part.first);
        }
      }
      EXPECT_EQ(ballast_test::ranks_of_tokens(wholes, to_id<sample_id>(sample)), expected);
      for (std::size_t const rank : expected) { ++rows.at(rank); }
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(wholes.rows(to_id<ballast::rank_id>(rank)), rows.at(rank));
    }
  }
}

TEST(PlaceWholesDeathTest, RefusesSamplesOfNoParts)
{
  ballast::workspace memory;
  ballast::placement wholes;
  EXPECT_DEATH(place_wholes_into(wholes, memory, 1, {}), "samples of no parts");
}

}  // namespace
