#include <ballast/partition/packing/detail/room_tree.hpp>  // first: proves it is self-contained

#include "../../../support/rooms_oracle.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

TEST(RoomTree, FindsTheTightestBin)  // Ensures (1)
{
  for (std::int64_t const capacity : {std::int64_t{0}, std::int64_t{100}, std::int64_t{1} << 62}) {
    SCOPED_TRACE(testing::Message() << "capacity " << capacity);
    ballast::workspace memory;
    auto scratch = memory.open();
    ballast_test::expect_tightest_bins(ballast::detail::room_tree(300, scratch), 300, capacity, 22);
  }
}

}  // namespace
