#include <ballast/partition/bin_id.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <concepts>

namespace {

using ballast::bin_id;

static_assert(ballast::identifier<bin_id>);
static_assert(!std::convertible_to<ballast::bag_id, bin_id>);

TEST(BinId, CountsFromZero)
{
  EXPECT_EQ(to_index(ballast::to_id<bin_id>(7)), 7U);
  EXPECT_EQ(bin_id{}, ballast::to_id<bin_id>(0));
}

}  // namespace
