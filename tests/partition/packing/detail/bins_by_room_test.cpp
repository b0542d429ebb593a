#include <ballast/partition/packing/detail/bins_by_room.hpp>  // first: proves it is self-contained

#include "../../../support/rooms_oracle.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using ballast::detail::bins_by_room;

TEST(BinsByRoom, FindsTheTightestBin)  // Ensures (1)
{
  // One to four levels of words, and the edges between them.
  for (std::int64_t const capacity :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{63}, std::int64_t{64}, std::int64_t{4095},
        std::int64_t{4096}, std::int64_t{262'143}, std::int64_t{262'144},
        bins_by_room::largest_capacity}) {
    SCOPED_TRACE(testing::Message() << "capacity " << capacity);
    ballast::workspace memory;
    auto scratch = memory.open();
    ballast_test::expect_tightest_bins(bins_by_room(capacity, 300, scratch), 300, capacity, 21);
  }
}

}  // namespace
