#include <ballast/report/slow_ranks.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

TEST(SlowRanks, AreNamedSlowestFirst)
{
  std::uint32_t const one = ballast::unchanged_factor;
  std::vector<std::uint32_t> const factors{one, one * 5 / 4, one * 9 / 10, one * 102 / 100,
                                           one * 7 / 5};
  EXPECT_EQ(ballast::report::slow_ranks(factors),
            "rank 4 takes 1.40 x as long as planned\nrank 1 takes 1.25 x as long as planned\n");
  EXPECT_EQ(ballast::report::slow_ranks(factors, 30), "rank 4 takes 1.40 x as long as planned\n");
  EXPECT_EQ(ballast::report::slow_ranks({}), "");
}

}  // namespace
