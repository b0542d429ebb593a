// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

namespace {

using ballast::bag_id;
using ballast::identifier;
using ballast::node_id;
using ballast::rank_id;
using ballast::sample_id;

enum class document_id : std::uint32_t {};  // a user's own
enum class wide : std::uint64_t {};

static_assert(identifier<sample_id> && identifier<rank_id> && identifier<node_id> &&
              identifier<bag_id> && identifier<document_id>);
static_assert(!identifier<std::uint32_t> && !identifier<wide>);

// No mixing, no arithmetic, no way in or out without a name.
static_assert(!std::convertible_to<std::uint32_t, rank_id>);
static_assert(!std::convertible_to<rank_id, std::uint32_t>);
static_assert(!std::equality_comparable_with<rank_id, bag_id>);
static_assert(std::is_trivially_copyable_v<rank_id> && sizeof(rank_id) == 4);

static_assert(ballast::to_index(rank_id{7}) == 7);
static_assert(ballast::to_id<bag_id>(7) == bag_id{7});

TEST(Identifier, RoundTripsEveryPosition)
{
  for (std::size_t const index : {std::size_t{0}, std::size_t{1}, std::size_t{0xffff'ffff}}) {
    EXPECT_EQ(ballast::to_index(ballast::to_id<sample_id>(index)), index);
  }
}

TEST(Identifier, IsOrderedByPosition)
{
  EXPECT_LT(rank_id{1}, rank_id{2});
  EXPECT_LT(rank_id{0x7fff'ffff}, rank_id{0x8000'0000});
}

}  // namespace
