// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/mpi/mpi_channel.hpp>

#include <gtest/gtest.h>
#include "../support/counted_allocations.hpp"

#include <mpi.h>

#include <cstddef>

namespace {

using ballast::detail::mpi_channel;

TEST(MpiChannel, KnowsWhetherMpiIsRunning)
{
  EXPECT_TRUE(ballast::detail::mpi_is_running());
}

TEST(MpiChannel, ReservesTheLowestFreeTag)  // Ensures (1) (2)
{
  mpi_channel channel;
  std::size_t const before = ballast_test::allocations();
  int const first = channel.reserve(0);
  int const second = channel.reserve(0);
  int const fifth = channel.reserve(4);
  int const sixth = channel.reserve(4);
  channel.release(1);
  int const again = channel.reserve(0);
  channel.release(mpi_channel::none);
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(fifth, 4);
  EXPECT_EQ(sixth, 5);
  EXPECT_EQ(again, 1);
}

TEST(MpiChannel, HasAsManyTagsAsMpiGuarantees)
{
  mpi_channel channel;
  for (int tag = 0; tag < 32768; ++tag) { ASSERT_EQ(channel.reserve(tag), tag); }
  EXPECT_EQ(channel.reserve(0), mpi_channel::none);
  channel.release(300);
  EXPECT_EQ(channel.reserve(301), mpi_channel::none);
  EXPECT_EQ(channel.reserve(0), 300);
}

TEST(MpiChannel, FreesItsCommunicators)
{
  for (int round = 0; round < 3000; ++round) {
    mpi_channel channel;
    ASSERT_EQ(MPI_Comm_dup(MPI_COMM_SELF, &channel.data), MPI_SUCCESS);
    if (round % 2 == 0) { ASSERT_EQ(MPI_Comm_dup(channel.data, &channel.control), MPI_SUCCESS); }
  }
}

}  // namespace
