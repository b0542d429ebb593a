// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>

#include "../support/test.hpp"

#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::bag;
using ballast::bag_id;
using ballast::placement;
using ballast::rank_id;
using ballast::sample_id;
using ballast::tokens;

TEST(Placement, DigestsDifferWhereAPieceDoes)
{
  std::array<tokens, 2> const lengths{4, 4};
  auto const whole = [&](rank_id first, rank_id second, std::size_t ranks) {
    auto const where = ballast::place(lengths, std::array{first, second}, ranks);
    return where.digest();
  };
  auto const chunks =
      ballast::place(lengths, std::array{bag_id{0}, bag_id{0}},
                     ballast::bag_layout(std::array{bag{rank_id{0}, 1}, bag{rank_id{1}, 3}}));
  auto const digest = whole(rank_id{0}, rank_id{0}, 4);
  EXPECT_EQ(digest, chunks.digest());  // a bag of one GPU is that GPU
  EXPECT_NE(digest, whole(rank_id{0}, rank_id{1}, 4));
  EXPECT_NE(digest, whole(rank_id{1}, rank_id{0}, 4));
  EXPECT_NE(digest, whole(rank_id{0}, rank_id{0}, 5));

  auto const part = [&](tokens first) {
    auto const parts =
        ballast::place_parts(chunks, std::array{ballast::sample_part{sample_id{0}, first, 1}});
    return parts.digest();
  };
  EXPECT_NE(part(0), part(1));
}

TEST(Placement, IsEmptyWhereItWasMovedFrom)
{
  auto where = ballast::place(std::array<tokens, 1>{2}, std::array{rank_id{0}}, 1);
  placement const moved = std::move(where);
  EXPECT_EQ(moved.size(), 1U);
  EXPECT_EQ(where.size(), 0U);  // NOLINT(bugprone-use-after-move): that is the question
}

}  // namespace
