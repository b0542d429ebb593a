// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/detail/overlaps.hpp>
#include <ballast/route/place.hpp>

#include "../instances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ballast::bag;
using ballast::bag_id;
using ballast::placement;
using ballast::rank_id;
using ballast::tokens;
using ballast::detail::token_overlap;
using testing::ElementsAre;

std::vector<token_overlap> overlaps_of(placement const& from, placement const& to)
{
  std::vector<token_overlap> found;
  ballast::detail::for_each_overlap(from, to,
                                    [&](token_overlap const& part) { found.push_back(part); });
  return found;
}

TEST(Overlaps, CutAtThePiecesOfBothSides)
{
  std::array<tokens, 1> const lengths{10};
  ballast::bag_layout const halves(std::array{bag{rank_id{0}, 2}, bag{rank_id{2}, 1}});
  ballast::bag_layout const thirds(std::array{bag{rank_id{0}, 3}});
  auto const from = ballast::place(lengths, std::array{bag_id{0}}, halves);  // 5, 5
  auto const to = ballast::place(lengths, std::array{bag_id{0}}, thirds);    // 4, 3, 3
  EXPECT_THAT(overlaps_of(from, to), ElementsAre(token_overlap{rank_id{0}, rank_id{0}, 0, 0, 4},
                                                 token_overlap{rank_id{0}, rank_id{1}, 4, 0, 1},
                                                 token_overlap{rank_id{1}, rank_id{1}, 0, 1, 2},
                                                 token_overlap{rank_id{1}, rank_id{2}, 2, 0, 3}));
}

TEST(Overlaps, SayOfEveryTokenWhereItWasAndWhereItGoes)
{
  ballast::random_source random(11);
  for (int trial = 0; trial < 300; ++trial) {
    std::size_t const gpus = 1 + random.below(12);
    auto const bags = ballast_test::random_bags(gpus, random);
    ballast_test::random_step const step(random.below(20), bags, random);
    auto const before = ballast_test::named_rows(step.read);
    auto const after = ballast_test::named_rows(step.computed);
    std::vector<std::int64_t> moved;
    for (token_overlap const& part : overlaps_of(step.read, step.computed)) {
      for (tokens row = 0; row < part.count; ++row) {
        auto const token =
            before[to_index(part.from)][static_cast<std::size_t>(part.from_row + row)];
        ASSERT_EQ(token, after[to_index(part.to)][static_cast<std::size_t>(part.to_row + row)]);
        moved.push_back(token);
      }
    }
    std::vector<std::int64_t> all;  // in the order of samples and tokens
    for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
      for (tokens token = 0; token < step.lengths[sample]; ++token) {
        all.push_back(ballast_test::token_name(sample, token));
      }
    }
    ASSERT_EQ(moved, all);
  }
}

TEST(OverlapsDeathTest, NeedTheSameSamplesOnBothSides)
{
  auto const one = ballast::place(std::array<tokens, 1>{3}, std::array{rank_id{0}}, 2);
  auto other = ballast::place(std::array<tokens, 1>{4}, std::array{rank_id{0}}, 2);
  EXPECT_DEATH((void)overlaps_of(one, other),
               "sample 0 has .* tokens in one placement and .* in the other");
  ballast::place_into(other, std::array<tokens, 1>{3}, std::array{rank_id{0}}, 3);
  EXPECT_DEATH((void)overlaps_of(one, other), "is over .* ranks and the other over ");
  ballast::place_into(other, std::vector<tokens>{}, std::vector<rank_id>{}, 2);
  EXPECT_DEATH((void)overlaps_of(one, other), "has .* samples and the other ");
}

}  // namespace
