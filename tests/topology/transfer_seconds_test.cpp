// SPDX-License-Identifier: Apache-2.0
#include <ballast/topology/transfer_seconds.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

namespace {

TEST(TransferSeconds, IsThatOfTheSlowerKindOfLinks)
{
  ballast::cluster machines;
  machines.within_node_bytes_per_second = 100;
  machines.between_nodes_bytes_per_second = 10;
  EXPECT_DOUBLE_EQ(ballast::transfer_seconds(machines, 200, 5), 2);
  EXPECT_DOUBLE_EQ(ballast::transfer_seconds(machines, 200, 50), 5);
  EXPECT_DOUBLE_EQ(ballast::transfer_seconds(machines, 0, 0), 0);
}

TEST(TransferSecondsDeathTest, NeedsBandwidths)
{
  ballast::cluster machines;
  machines.between_nodes_bytes_per_second = 0;
  EXPECT_DEATH((void)ballast::transfer_seconds(machines, 1, 1), "0 between them");
}

}  // namespace
