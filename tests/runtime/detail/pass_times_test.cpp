// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <ballast/runtime/detail/pass_times.hpp>

#include <cstdint>
#include <vector>

namespace {

using ballast::detail::measure_speed;
using ballast::detail::pass_times;
using ballast::detail::quartile;

TEST(PassTimes, HaveQuartiles)
{
  EXPECT_EQ(quartile({7}, 1), 7);
  EXPECT_EQ(quartile({9, 1}, 2), 5);
  EXPECT_EQ(quartile({5, 3, 1, 4, 2}, 1), 2);
  EXPECT_EQ(quartile({5, 3, 1, 4, 2}, 2), 3);
  EXPECT_EQ(quartile({5, 3, 1, 4, 2}, 3), 4);
  EXPECT_EQ(quartile({40, 10, 30, 20}, 1), 15);
}

TEST(PassTimes, GiveASpeed)
{
  ballast::speed_point point;
  ASSERT_TRUE(measure_speed(point, 4, pass_times{{10, 10, 40}, {30, 50, 30}}, 300));
  EXPECT_EQ(point.size, 4);
  EXPECT_EQ(point.flop_per_second, 5'000'000'000U) << "300 FLOP in 60 ns";
  EXPECT_EQ(point.forward_ns, 10U);
  EXPECT_EQ(point.backward_ns, 30U);
  ASSERT_TRUE(measure_speed(point, 4, pass_times{{1}, {0}}, 1e30));
  EXPECT_EQ(point.flop_per_second, 1'000'000'000'000'000'000U);
  EXPECT_FALSE(measure_speed(point, 4, pass_times{{0}, {0}}, 300));
}

}  // namespace
